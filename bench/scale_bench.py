"""Growth of planning with the graph: `./dev bench scale`.

Transformers of 28 ops per layer, and random networks whose every op reads up to
three earlier values (tests/planner/research_graphs.h), each planned by the program
in a second per 1,000 ops. Seconds are those of the whole program, reading and
writing included, and so is its peak of resident memory. Overheads and bounds are
per cent of the step that keeps everything. Every plan is judged by `ebbtide check`.
"""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness

GRAPHS = harness.ROOT / "build" / "release" / "bench" / "research_graph"
SEED = 1
OPS_PER_LAYER = 28
SIZES = [1_000, 3_000, 10_000, 30_000, 50_000]
QUICK = SIZES[:2]
# Per cent of the unmanaged peak.
BUDGETS = {"transformer": 50, "irregular": 70}
SECONDS = {10_000: 10, 50_000: 60}
MOST_MIB = 2048
# Share of the time that a graph may take: reading and writing need the rest.
SEARCH = 0.9


@dataclasses.dataclass
class Row:
    """One graph, planned."""

    kind: str
    ops: int  # in round numbers
    limit: float  # time limit of the planner, in seconds
    seconds: float
    mib: float
    overhead: float
    bound: float

    @property
    def name(self) -> str:
        return f"{self.kind} {self.ops:,}"

    def complaints(self) -> Iterator[str]:
        most = SECONDS.get(self.ops)
        if most is not None and self.seconds > most:
            yield f"{self.name}: {self.seconds:.1f} s, allowed {most}"
        if self.mib > MOST_MIB:
            yield f"{self.name}: {self.mib:.0f} MiB, allowed {MOST_MIB}"


@dataclasses.dataclass
class Used:
    """A program's output, and the time and memory that it took."""

    answer: dict[str, Any]
    seconds: float
    mib: float


def call(*words: str | Path) -> Used:
    """Runs a program to its end; its answer is empty if it prints no JSON object."""
    start = time.monotonic()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(words, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - start
        out.seek(0)
        err.seek(0)
        text = out.read()
        if process.returncode != 0:
            command = " ".join(str(word) for word in words)
            raise harness.JobError(f"{command}: {err.read().strip()}")
    answer = json.loads(text) if text.startswith("{") else {}
    return Used(answer, seconds, usage.ru_maxrss / 1024)


def write_graph(kind: str, ops: int, to: Path) -> None:
    network = ["gpts", str(ops // OPS_PER_LAYER)]
    if kind == "irregular":
        network = ["random", str(ops)]
    with to.open("w") as file:
        subprocess.run([GRAPHS, *network, "0"], stdout=file, check=True)


def measure(kind: str, ops: int, folder: Path) -> Row:
    profile, out = folder / "profile.json", folder / "plan.json"
    write_graph(kind, ops, profile)
    plan: list[str | Path] = [harness.EBBTIDE, "plan", profile, "--json", "--budget"]
    keep = call(*plan, f"{1 << 60}B", "--solver", "keep").answer
    budget = int(keep["peak"]) * BUDGETS[kind] // 100
    limit = SEARCH * ops / 1000
    options: list[str | Path] = [
        "--solver",
        "graph",
        "--time-limit",
        f"{limit}",
        "-o",
        out,
    ]
    used = call(*plan, f"{budget}B", *options)
    call(harness.EBBTIDE, "check", profile, out)
    base = float(keep["time"])
    return Row(
        kind,
        ops,
        limit,
        used.seconds,
        used.mib,
        100 * (used.answer["time"] / base - 1),
        100 * (used.answer["lower_bound_time"] / base - 1),
    )


def show(rows: list[Row]) -> str:
    header = ["network", "budget", "s", "MiB", "overhead %", "bound %", "gap"]
    body = [
        [
            row.name,
            f"{BUDGETS[row.kind]} %",
            f"{row.seconds:.1f}",
            f"{row.mib:.0f}",
            f"{row.overhead:.3f}",
            f"{row.bound:.3f}",
            f"{row.overhead - row.bound:.3f}",
        ]
        for row in rows
    ]
    return harness.table([header, *body])


def parse_arguments() -> argparse.Namespace:
    p = harness.bench_parser(__doc__, "1,000 and 3,000 ops only")
    return p.parse_args()


def main() -> int:
    args = parse_arguments()
    rows = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            for kind in BUDGETS:
                for ops in QUICK if args.quick else SIZES:
                    row = measure(kind, ops, Path(folder))
                    harness.progress(f"{row.name}: {row.seconds:.1f} s")
                    rows.append(row)
    except harness.JobError as error:
        print(f"bench scale: {error}", file=sys.stderr)
        return 1
    values = [dataclasses.asdict(row) for row in rows]
    harness.report(args, "scale", SEED, values, show(rows))
    complaints = [text for row in rows for text in row.complaints()]
    return harness.verdict("scale", complaints, args.check)


if __name__ == "__main__":
    sys.exit(main())
