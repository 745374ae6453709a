"""Cost of watching a step on CUDA, in host instructions: `./dev bench watch`.

Counted by valgrind's callgrind on the simulated device (tests/cudasim), all threads,
for the same steps: unmanaged, watched with events around ops, with CUPTI as well, and
with events and a trace (whose own limit is in bench/timeline_bench.py). Instructions
beneath calls into the simulator are left out: it stands for the driver and for CUPTI.
The interpreter's instructions above the unmanaged run are left out, too
(bench/callgrind.py says why).

Watched means recorded without a budget (EBBTIDE_RECORD). Steps that are alike are not
all recorded, so what is judged is the mean of the first steps of a kind, three rounds
of 64, the first of all and the making of profiles included: later rounds cost less. The
costs of a recorded step, and of one that is not, stand beside it.
"""

import concurrent.futures
import dataclasses
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import callgrind
import harness
from callgrind import Counts

CHILD = harness.ROOT / "bench" / "watch_child.py"
FACE = harness.ROOT / "tests" / "cudasim"
SEED = 1
STRETCHES = {"window": 192, "recorded": 2, "between": 2}  # steps, of watch_child.py
# A file that is full from the start on gets only steps and peaks.
EVENTS = {"EBBTIDE_RECORD": "/dev/null,max=4KiB"}
WAYS: dict[str, dict[str, str]] = {
    "unmanaged": {},
    "events": EVENTS,
    "CUPTI": EVENTS | {"EBBTIDE_CUPTI": "1"},
    "trace": {"EBBTIDE_RECORD": "/dev/null"},
}
# The reference of each, and the share of the unmanaged step that it may add.
AGAINST = {"events": "unmanaged", "CUPTI": "events", "trace": "events"}
MOST = {"events": 0.10, "CUPTI": 0.03}
# Limits for the kinds of step behind the mean, so that neither grows unseen.
MOST_RECORDED, MOST_BETWEEN = {"events": 0.25}, {"events": 0.08}


@dataclasses.dataclass
class Row:
    """The instructions of a step, and how many more than AGAINST.

    As a share of the unmanaged ones: in the mean of the first steps of a kind, in one
    that is recorded, and in one that is not.
    """

    way: str
    instructions: float
    added: float = 0
    recorded: float = 0
    between: float = 0

    def complaints(self) -> Iterator[str]:
        for kind, added, limits in (
            ("a step", self.added, MOST),
            ("a recorded step", self.recorded, MOST_RECORDED),
            ("a step that is not recorded", self.between, MOST_BETWEEN),
        ):
            most = limits.get(self.way)
            if most is not None and added > most:
                yield f"{self.way}: {added:.1%} of {kind} are more than {most:.0%}"


@dataclasses.dataclass
class Taken:
    """Instructions of all threads in the counted steps, and those left out of them."""

    counts: Counts
    simulated: int

    @property
    def host(self) -> int:
        return sum(self.counts.values()) - self.simulated

    @property
    def outside(self) -> int:
        """Without the interpreter's, whose count is not the same twice."""
        return callgrind.outside(self.counts) - self.simulated


def run(way: str) -> dict[str, Taken]:
    """The counts of each stretch."""
    harness.progress(way)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "out"
        environment = {
            "PYTHONPATH": os.fspath(FACE),
            # Valgrind has less address space.
            "CUDASIM_ADDRESSES": "16G",
            "CUDASIM_MEM": "2G",
            **WAYS[way],
        }
        arguments = [str(callgrind.MARKS)]
        said = callgrind.run(CHILD, arguments, environment, output, threads_apart=False)
        if way == "CUPTI" and (said["refused"] or not said["windows"]):
            raise harness.JobError(f"{CHILD.name}: CUPTI was refused: {said}")
        return {
            name: Taken(callgrind.counted(file), callgrind.beneath(file, "cudasim_"))
            for name, file in callgrind.dumps(output, "").items()
        }


def rows(taken: dict[str, dict[str, Taken]]) -> Iterator[Row]:
    bare = {name: taken["unmanaged"][name].host for name in STRETCHES}
    total = {"unmanaged": bare["window"]}
    yield Row("unmanaged", bare["window"] / STRETCHES["window"])
    for way, other in AGAINST.items():
        extra = {
            name: taken[way][name].outside - taken[other][name].outside
            for name in STRETCHES
        }
        total[way] = total[other] + extra["window"]
        yield Row(
            way,
            total[way] / STRETCHES["window"],
            added=extra["window"] / bare["window"],
            recorded=extra["recorded"] / bare["recorded"],
            between=extra["between"] / bare["between"],
        )


def show(figures: list[Row]) -> str:
    header = ["way", "instructions a step", "added %", "recorded %", "between %"]
    body = [
        [
            row.way,
            f"{row.instructions:.0f}",
            *(f"{100 * x:+.1f}" for x in (row.added, row.recorded, row.between)),
        ]
        for row in figures
    ]
    return harness.table([header, *body])


def main() -> int:
    args = harness.bench_parser(__doc__, "nothing: there is no shorter form")
    arguments = args.parse_args()
    try:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            figures = list(rows(dict(zip(WAYS, pool.map(run, WAYS), strict=True))))
    except harness.JobError as error:
        print(f"bench watch: {error}", file=sys.stderr)
        return 1
    listed = [dataclasses.asdict(row) for row in figures]
    harness.report(arguments, "watch", SEED, listed, show(figures))
    complaints = [c for row in figures for c in row.complaints()]
    return harness.verdict("watch", complaints, arguments.check)


if __name__ == "__main__":
    sys.exit(main())
