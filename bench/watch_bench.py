"""What watching costs a step on CUDA, in instructions of the host: `./dev bench watch`.

Counted by valgrind's callgrind on the simulated device (tests/cudasim), all threads,
for the same steps three times: unmanaged, watched with events around ops, and with
CUPTI as well. What is beneath calls into the simulator is left out: it stands for the
driver and for CUPTI. Of the interpreter's those above the unmanaged run are, too
(bench/callgrind.py says why). Watched steps are recorded ones (EBBTIDE_RECORD), between
two profiles.
"""

import concurrent.futures
import dataclasses
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import callgrind
import harness
from callgrind import Counts

CHILD = harness.ROOT / "bench" / "watch_child.py"
FACE = harness.ROOT / "tests" / "cudasim"
SECTION = "Cost of watching on CUDA"
SEED = 1
STEPS = 2  # of watch_child.py
EVENTS = {"EBBTIDE_RECORD": "/dev/null"}
WAYS: dict[str, dict[str, str]] = {
    "unmanaged": {},
    "events": EVENTS,
    "CUPTI": EVENTS | {"EBBTIDE_CUPTI": "1"},
}
# Shares of the unmanaged step that may be added: by events, and by CUPTI to that.
MOST = {"events": 0.10, "CUPTI": 0.03}


@dataclasses.dataclass
class Row:
    """The instructions of a step, and by how much they are above the row before."""

    way: str
    instructions: float
    added: float = 0  # a share of the unmanaged ones

    def complaints(self) -> Iterator[str]:
        most = MOST.get(self.way)
        if most is not None and self.added > most:
            yield f"{self.way}: {self.added:.1%} of a step are more than {most:.0%}"


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


def of_all_threads(output: Path) -> Taken:
    """What the dumps by the client's request hold together; each thread has one."""
    counts: Counter[str] = Counter()
    simulated = 0
    for file in sorted(output.parent.glob(f"{output.name}.*-*")):
        if "desc: Trigger: Client Request: steps" in file.read_text(errors="replace"):
            counts.update(callgrind.counted(file))
            simulated += callgrind.beneath(file, "cudasim_")
    return Taken(dict(counts), simulated)


def run(way: str) -> Taken:
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
        said = callgrind.run(CHILD, [str(callgrind.MARKS)], environment, output)
        if way == "CUPTI" and (said["refused"] or said["windows"] < STEPS):
            raise harness.JobError(f"{CHILD.name}: CUPTI was refused: {said}")
        return of_all_threads(output)


def rows(taken: dict[str, Taken]) -> Iterator[Row]:
    before = taken["unmanaged"]
    step = before.host / STEPS
    total = step
    yield Row("unmanaged", step)
    for way in list(WAYS)[1:]:
        now = taken[way]
        extra = (now.outside - before.outside) / STEPS
        total += extra
        yield Row(way, total, extra / step)
        before = now


def show(figures: list[Row]) -> str:
    header = ["way", "instructions a step", "added %"]
    body = [
        [row.way, f"{row.instructions:.0f}", f"{100 * row.added:+.1f}"]
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
    harness.report(arguments, "watch", SEED, listed, show(figures), SECTION)
    complaints = [c for row in figures for c in row.complaints()]
    return harness.verdict("watch", complaints, arguments.check)


if __name__ == "__main__":
    sys.exit(main())
