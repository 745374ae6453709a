"""Cost of loading ebbtide during `import torch`, by each way in.

Fresh processes import torch: with the entry point of the installed package, and as a
child of `ebbtide run`. Taken is the processor time of that entry point, from looking
for its module to its end, and of the import around it, each the least of all: that of
two imports, a second each, differs by more than what is looked for.
"""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import harness

SEED = 0
MOST = 0.010  # seconds
SCRIPT = """
import importlib.metadata, time
clock, ours = time.process_time, []
load = importlib.metadata.EntryPoint.load
def timed(entry_point):
    begin = clock()
    start = load(entry_point)
    ours.append(clock() - begin)
    def run():
        begin = clock()
        start()
        ours.append(clock() - begin)
    return run
importlib.metadata.EntryPoint.load = timed
begin = clock()
import torch
print(clock() - begin, sum(ours), len(ours))
"""
IMPORT = [str(harness.PYTHON), "-c", SCRIPT]
RUN = [str(harness.EBBTIDE), "run", "--budget", "8GiB", "--", *IMPORT]
WAYS: Mapping[str, tuple[Sequence[str], Mapping[str, str]]] = {
    "installed, not asked": (IMPORT, {}),
    "installed, disabled": (IMPORT, {"EBBTIDE_BUDGET": "8GiB", "EBBTIDE_DISABLE": "1"}),
    "installed, with a budget": (IMPORT, {"EBBTIDE_BUDGET": "8GiB"}),
    "ebbtide run": (RUN, {}),
}


def seconds(way: str) -> tuple[float, float]:
    """Seconds of the import, and of ebbtide in it."""
    command, variables = WAYS[way]
    done = subprocess.run(
        command,
        env={**harness.clean_environment(), **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    whole, ours, parts = map(float, done.stdout.split())
    if parts == 0:
        raise SystemExit(f"launch: {way}: torch has loaded no entry point")
    return whole, ours


def main() -> int:
    args = harness.bench_parser(__doc__, "8 imports instead of 30").parse_args()
    runs: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    for _ in range(8 if args.quick else 30):
        for way, taken in runs.items():
            taken.append(seconds(way))
    rows: list[dict[str, Any]] = [
        {
            "way": way,
            "seconds": min(whole for whole, _ in taken),
            "ours": min(ours for _, ours in taken),
        }
        for way, taken in runs.items()
    ]
    table = harness.table(
        [
            ["import torch", "CPU ms", "of ebbtide"],
            *(
                [row["way"], f"{1e3 * row['seconds']:.1f}", f"{1e3 * row['ours']:.1f}"]
                for row in rows
            ),
        ]
    )
    harness.report(args, "launch", SEED, rows, table)
    found = [
        f"{row['way']}: {1e3 * row['ours']:.1f} ms of ebbtide"
        for row in rows
        if row["ours"] > MOST
    ]
    return harness.verdict("launch", found, args.check)


if __name__ == "__main__":
    sys.exit(main())
