"""Runs tests/gpu and bench/gpu on a machine with a CUDA device, within a time.

    gpu_run.py [--seconds 240] [--plan] [--jobs NAME,...] [--table] [--json]

`./dev gpu` calls it with a wheel installed. Every process that ends leaves a line of
JSON in the results file at once, so that what was measured is there whenever this one
is ended; `--table` renders that file again, as far as it came, and `--json` prints its
figures as tests/data/h100 has them. `--plan` prints which process runs when and for
how long, and runs none.

Needs torch and ebbtide for the programs it starts, not for itself.
EBBTIDE_GPU_TESTS_LAUNCHER names a program that stands before them, for a device that
has to be set up first; with EBBTIDE_GPU_TESTS_SIZE=tiny they are tiny.
"""

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

import gpu_machine
import gpu_processes
import gpu_results
import gpu_table
from gpu_jobs import Job, every_job
from gpu_schedule import Counted, Limits, Schedule, chosen, counted, drive

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "build" / "gpu" / "results"
TABLE = ROOT / "bench" / "results" / "gpu.md"
# Seconds that --plan counts for what comes before this program: pip unpacks a wheel
# in one where its own files have been read before.
INSTALLATION = 5.0


def plan_text(plan: Counted, limits: Limits, left_out: Sequence[Job]) -> str:
    rows = [
        f"{'process':36}{'starts':>8}{'has device':>12}{'ends':>8}{'GiB':>7}",
        *[
            f"{p.job.name:36}{p.start:8.0f}{p.begin:12.0f}"
            f"{p.end:8.0f}{p.job.gib:7.1f}{'  alone' if p.job.alone else ''}"
            for p in sorted(plan.planned.values(), key=lambda p: (p.begin, p.end))
        ],
        *[f"{name:36} does not run: {why}" for name, why in plan.dropped.items()],
        "",
        f"{len(plan.planned)} processes, at most {limits.cores} at once and "
        f"{limits.gib:.0f} GiB of the device.",
        f"Expected: {plan.clock:.0f} of {limits.seconds:.0f} s, "
        f"{INSTALLATION:.0f} s of installation included.",
    ]
    if left_out:
        rows.append(f"With more time: {', '.join(job.name for job in left_out)}.")
    return "\n".join(rows)


def named(jobs: Sequence[Job], patterns: Sequence[str]) -> list[Job]:
    """Those that a pattern as a shell's fits, and what they need."""
    found = {j.name for j in jobs if any(fnmatch(j.name, p) for p in patterns)}
    found |= {need for job in jobs if job.name in found for need in job.needs}
    return [job for job in jobs if job.name in found]


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    p.add_argument("--seconds", type=float, default=240, help="of the whole")
    p.add_argument("--since", type=float, help="when it began, by the epoch's seconds")
    p.add_argument("--plan", action="store_true", help="print the plan and run nothing")
    p.add_argument("--table", action="store_true", help="render what was measured")
    p.add_argument("--jobs", default="", help="only these: gpt-1b.half,case.*")
    p.add_argument("--cores", type=int, default=16)
    p.add_argument("--results", type=Path, default=FOLDER / "results.jsonl")
    p.add_argument("--out", type=Path, default=TABLE)
    p.add_argument("--json", action="store_true", help="print the figures as JSON")
    return p.parse_args()


def render(results: Path, out: Path) -> list[str]:
    """Writes the table, of earlier runs as well; what does not hold of this one."""
    records = gpu_results.read(results)
    found = [gpu_results.summary(records)] if records else []
    gpu_table.write(out, [*found, *gpu_table.stored()])
    return [text for summary in found for text in gpu_results.complaints(summary)]


def told(complaints: Sequence[str], out: Path) -> int:
    for text in complaints:
        print(f"gpu_run.py: does not hold: {text}", file=sys.stderr)
    print(os.path.relpath(out))
    return 1 if complaints else 0


def main() -> int:
    args = arguments()
    if args.json:
        print(gpu_results.compact(gpu_results.read(args.results)))
        return 0
    if args.table:
        return told(render(args.results, args.out), args.out)
    known = every_job(shutil.which("compute-sanitizer"))
    if args.jobs:
        known = named(known, args.jobs.split(","))
    limits = Limits(args.cores, gpu_machine.gib(), args.seconds)
    begin = INSTALLATION if args.plan else 0.0
    jobs = known if args.jobs else chosen(known, limits, begin)
    if args.plan:
        left_out = [job for job in known if job not in jobs]
        print(plan_text(counted(jobs, limits, begin), limits, left_out))
        return 0
    if why := gpu_machine.missing():
        print(f"gpu_run.py: {why}", file=sys.stderr)
        return 2
    args.results.parent.mkdir(parents=True, exist_ok=True)
    gpu_results.append(args.results, {"machine": gpu_machine.description(ROOT)})
    since = args.since if args.since is not None else time.time()
    # Measurements so far are rendered.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with gpu_processes.Processes(args.results, since, limits) as world:
            drive(Schedule(jobs, limits), world)
    finally:
        status = told(render(args.results, args.out), args.out)
    return status


if __name__ == "__main__":
    sys.exit(main())
