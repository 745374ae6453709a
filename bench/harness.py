"""Runs training jobs as programs of their own and measures them from outside.

The jobs know nothing of this: they print losses, a hash and a median step time
(bench/jobs/common.py). Resident memory is sampled from here; live bytes come
from the report that ebbtide's core writes when it only records.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
JOBS = ROOT / "bench" / "jobs"
RESULTS = ROOT / "bench" / "results"  # a page for each bench
PYTHON = ROOT / ".venv" / "bin" / "python"
EBBTIDE = ROOT / ".venv" / "bin" / "ebbtide"
PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20


class JobError(Exception):
    """A job that ended badly or printed something else than jobs print."""


@dataclasses.dataclass
class Run:
    """The output of one run of a job, and its measurements."""

    losses: list[str]
    hash: str
    median: float
    seconds: list[float]
    anonymous: int  # peak resident bytes that no file backs
    report: dict[str, Any]  # report of ebbtide's core; empty without it
    errors: str  # standard error, where ebbtide prints its line

    def same_result(self, other: "Run") -> bool:
        return self.losses == other.losses and self.hash == other.hash

    @property
    def live(self) -> int:
        """Peak of live tensor bytes."""
        return int(self.report["peak"])


def job_command(job: str, arguments: Sequence[str]) -> list[str]:
    return [str(PYTHON), str(JOBS / f"{job}.py"), *arguments]


def clean_environment() -> dict[str, str]:
    """The environment without ebbtide's variables."""
    return {k: v for k, v in os.environ.items() if not k.startswith("EBBTIDE_")}


def run(command: Sequence[str], environment: dict[str, str] | None = None) -> Run:
    """Runs a job to its end as it is."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        wanted = {**clean_environment(), **(environment or {})}
        if environment is not None:
            wanted["EBBTIDE_REPORT"] = str(report)
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env=wanted,
            text=True,
        )
        with sampled_memory(process.pid) as peak:
            output, errors = process.communicate()
        if process.returncode != 0:
            shown = " ".join(command)
            raise JobError(f"{shown}: exit {process.returncode}\n{errors.strip()}")
        if environment is not None and not report.exists():
            raise JobError(f"no report was written; standard error:\n{errors.strip()}")
        parsed = json.loads(report.read_text()) if report.exists() else {}
        return parse(output, errors, peak[0], parsed)


def record(command: Sequence[str], to: Path | None = None) -> Run:
    """Runs a job unmanaged while ebbtide's core counts live bytes."""
    with tempfile.TemporaryDirectory() as folder:
        target = to or Path(folder) / "run.ebbtide"
        return run(command, {"EBBTIDE_RECORD": str(target)})


def managed(
    command: Sequence[str],
    budget: int,
    *,
    spill: bool = True,
    record_to: Path | None = None,
) -> Run:
    """Runs a job under `ebbtide run` with a budget in bytes."""
    more = [] if record_to is None else ["--record", str(record_to)]
    return run(managed_command(command, budget, *more, spill=spill), {})


def managed_command(
    command: Sequence[str], budget: int, *more: str, spill: bool = True
) -> list[str]:
    launcher = [str(EBBTIDE), "run", "--budget", f"{budget}B", *more]
    if not spill:
        launcher += ["--offload-dir", "none"]
    return [*launcher, "--", *command]


def parse(output: str, errors: str, anonymous: int, report: dict[str, Any]) -> Run:
    losses = re.findall(r"^(?:step|eval) \d+ loss (\S+)", output, re.M)
    seconds = re.findall(r"^step \d+ loss \S+ seconds (\S+)$", output, re.M)
    digest = re.search(r"^hash ([0-9a-f]+)$", output, re.M)
    median = re.search(r"^median (\S+)$", output, re.M)
    if digest is None or median is None:
        raise JobError(f"no closing lines in the job's output:\n{output[-2000:]}")
    return Run(
        losses=losses,
        hash=digest[1],
        median=float(median[1]),
        seconds=[float(s) for s in seconds],
        anonymous=anonymous,
        report=report,
        errors=errors,
    )


@contextlib.contextmanager
def sampled_memory(pid: int) -> Iterator[list[int]]:
    """Follows the anonymous resident bytes of a process and its children.

    The list holds the largest value of any one process, sampled every
    millisecond; peaks shorter than that can be missed.
    """
    peak = [0]
    done = threading.Event()

    def follow() -> None:
        family = [pid]
        rounds = 0
        while not done.is_set():
            if rounds % 100 == 0:
                family = [pid, *children(pid)]
            peak[0] = max(peak[0], *(anonymous_bytes(member) for member in family))
            rounds += 1
            time.sleep(0.001)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def anonymous_bytes(pid: int) -> int:
    """Resident pages without a file behind them; 0 once the process is gone."""
    try:
        fields = Path(f"/proc/{pid}/statm").read_text().split()
    except OSError:
        return 0
    return (int(fields[1]) - int(fields[2])) * PAGE


def children(pid: int) -> list[int]:
    try:
        direct = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    found = [int(child) for child in direct]
    return found + [below for child in found for below in children(child)]


def import_baseline() -> int:
    """Anonymous resident bytes of a process that has only imported torch."""
    script = (
        "import torch; fields = open('/proc/self/statm').read().split(); "
        "print(int(fields[1]) - int(fields[2]))"
    )
    done = subprocess.run(
        [str(PYTHON), "-c", script], capture_output=True, text=True, check=True
    )
    return int(done.stdout) * PAGE


def mib(count: float) -> str:
    return f"{count / MIB:.1f}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns also line up in a terminal."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for number, row in enumerate(rows):
        first = row[0].ljust(widths[0])
        rest = [cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True)]
        lines.append("| " + " | ".join([first, *rest]) + " |")
        if number == 0:
            rule = ["-" * widths[0], *("-" * (w - 1) + ":" for w in widths[1:])]
            lines.append("| " + " | ".join(rule) + " |")
    return "\n".join(lines)


def provenance(command: str, seed: int) -> str:
    """The line above every published table."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    # Results of the bench before are no change of what is measured.
    outside = [":/", ":(exclude,top)bench/results"]
    dirty = subprocess.run(
        ["git", "diff", "--quiet", "HEAD", "--", *outside], cwd=ROOT, check=False
    )
    mark = "+changes" if dirty.returncode else ""
    return (
        f"commit {commit}{mark}, {processor()}, {os.cpu_count()} cores, "
        f"Linux {platform.release()}, seed {seed}, `{command}`"
    )


def processor() -> str:
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return found[1] if found else platform.machine()


def publish(bench: str, section: str, text: str) -> None:
    """Replaces one section of the bench's page, or adds it.

    The text before the first section is written by hand: what is measured, how to run
    it and how to read the columns.
    """
    page = RESULTS / f"{bench}.md"
    old = page.read_text() if page.exists() else f"# {bench}\n"
    new = f"## {section}\n\n{text.strip()}\n"
    pattern = re.compile(rf"^## {re.escape(section)}\n.*?(?=^## |\Z)", re.M | re.S)
    if pattern.search(old):
        changed = pattern.sub(lambda _: new + "\n", old)
    else:
        changed = old.rstrip() + "\n\n" + new
    page.write_text(changed.rstrip() + "\n")


def bench_parser(doc: str, quick: str) -> argparse.ArgumentParser:
    """The arguments of every bench; `quick` says what --quick leaves out."""
    p = argparse.ArgumentParser(description=doc.splitlines()[0])
    p.add_argument("--quick", action="store_true", help=quick)
    p.add_argument("--check", action="store_true", help="exit 1 if a figure fails")
    p.add_argument("--json", action="store_true", help="one list of rows")
    return p


def report(
    args: argparse.Namespace,
    bench: str,
    seed: int,
    rows: list[dict[str, Any]],
    body: str,
    section: str | None = "Results",
) -> None:
    """Prints `rows` with --json, else `body` below its provenance.

    That becomes a section of the bench's page as well, unless it is None or --quick
    has left something out.
    """
    if args.json:
        print(json.dumps(rows, indent=1))
        return
    command = " ".join([f"./dev bench {bench}", *sys.argv[1:]])
    text = f"{provenance(command, seed)}\n\n{body}"
    print(text)
    progress(f"bench/results/{bench}.md says how to read the columns")
    if section is not None and not args.quick:
        publish(bench, section, text)


def verdict(bench: str, complaints: Sequence[str], check: bool) -> int:
    """Prints which figures do not hold; the exit status of the bench."""
    for complaint in complaints:
        print(f"bench {bench}: does not hold: {complaint}", file=sys.stderr)
    return 1 if check and complaints else 0


def progress(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)
