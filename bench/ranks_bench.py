"""Step times of several ranks, unmanaged and at half of what they save.

tests/python/programs/ranked.py runs by turns without and with a budget; the median over
the steps of each run but the first four, the least of the runs. Beside the wall's times
are those of the CPU in the thread that trains, which waits for no other thread and no
disk: other work on the machine hardly changes them.
"""

import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import harness
from ranks import Ranks, half, launch

SEED = 1
MOST = 1.10
WARM = 4
ROUNDS = 4
WAYS = {
    "DDP": ("--way", "ddp"),
    "FSDP2": ("--way", "fsdp"),
    "FSDP2, resharded": ("--way", "fsdp", "--reshard"),
    "FSDP2, resharded, bfloat16": ("--way", "fsdp", "--reshard", "--mixed"),
    "ZeRO-1": ("--way", "zero"),
}


def median(done: Ranks, clock: str) -> float:
    """Median of the slowest rank, for which the others wait."""
    return float(max(statistics.median(r[clock][WARM:]) for r in done.results))


def least(runs: list[Ranks], clock: str) -> float:
    return min(median(done, clock) for done in runs)


def run(folder: Path, arguments: Sequence[str], count: int, **ours: str) -> Ranks:
    done = launch(folder, arguments, count, wrapper=(), torchrun=False, **ours)
    if done.exit != 0:
        raise SystemExit(f"ranks: {' '.join(arguments)} ended early:\n{done.errors}")
    return done


def measure(way: str, count: int, size: str, steps: int) -> dict[str, Any]:
    arguments = (*WAYS[way], "--size", size, "--steps", str(steps))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recorded = run(folder, arguments, count, EBBTIDE_RECORD="/dev/null")
        budget = f"{half(recorded)}B"
        plain, held = [], []
        for _ in range(ROUNDS):
            plain.append(run(folder, arguments, count))
            held.append(run(folder, arguments, count, EBBTIDE_BUDGET=budget))
    return {
        "way": way,
        "ranks": count,
        "peak_before": max(r["peak"] for r in recorded.reports),
        "peak_after": max(r["peak"] for done in held for r in done.reports),
        "over": sum(r["over_budget_steps"] for done in held for r in done.reports),
        "seconds": least(plain, "seconds"),
        "ratio": least(held, "seconds") / least(plain, "seconds"),
        "cpu": least(plain, "cpu"),
        "cpu_ratio": least(held, "cpu") / least(plain, "cpu"),
        "identical": all(done.equals(plain[0]) for done in (*plain, *held)),
    }


def complaints(row: dict[str, Any]) -> list[str]:
    name = f"{row['way']} on {row['ranks']} ranks"
    found = []
    if not row["identical"]:
        found.append(f"{name}: the results differ")
    if row["over"] > 0:
        found.append(f"{name}: {row['over']} steps over the budget")
    if row["ratio"] > MOST:
        found.append(f"{name}: {row['ratio']:.2f} times the unmanaged step")
    return found


def main() -> int:
    parser = harness.bench_parser(__doc__, "small, DDP alone on two ranks")
    parser.add_argument("--way", action="append", choices=WAYS, help="all")
    parser.add_argument("--ranks", action="append", type=int, help="2 and 4")
    args = parser.parse_args()
    # Planning takes processor time from the first ten steps or so; a job has more.
    size, steps = ("small", 14) if args.quick else ("full", 30)
    rows = []
    for way in args.way or (["DDP"] if args.quick else WAYS):
        for count in args.ranks or ([2] if args.quick else [2, 4]):
            harness.progress(f"{way}, {count} ranks")
            rows.append(measure(way, count, size, steps))
    cells = [
        [
            row["way"],
            str(row["ranks"]),
            harness.mib(row["peak_before"]),
            harness.mib(row["peak_after"]),
            f"{1e3 * row['seconds']:.1f}",
            f"{row['ratio']:.3f}x",
            f"{1e3 * row['cpu']:.1f}",
            f"{row['cpu_ratio']:.3f}x",
            "identical" if row["identical"] else "DIFFER",
        ]
        for row in rows
    ]
    head = [
        *("way", "ranks", "peak MiB", "managed", "step ms", "managed step"),
        *("cpu ms", "managed cpu", "results"),
    ]
    section = None if args.ranks else " and ".join(args.way or ["All ways"])
    harness.report(args, "ranks", SEED, rows, harness.table([head, *cells]), section)
    found = [complaint for row in rows for complaint in complaints(row)]
    return harness.verdict("ranks", found, args.check)


if __name__ == "__main__":
    sys.exit(main())
