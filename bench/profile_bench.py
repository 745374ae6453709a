"""Predictions of profiles for the next steps: `./dev bench profile`.

The runs of bench/prediction_bench.py: five jobs in CPU mode, unmanaged and at budgets
with offload and without, side by side. There a plan's last prediction is compared with
the median of its steps; here each step with what was foretold of it when it began.
"""

import dataclasses
import statistics
import sys
from collections.abc import Iterator

import harness
import interleaved
import prediction_bench
import ways
from interleaved import Timed
from prediction_bench import JOBS, SEED

NEAR = 0.03


@dataclasses.dataclass
class Row:
    """A way of a job, or all of them together."""

    job: str
    threads: int
    way: str
    steps: int
    off: float  # the median distance, a share
    spread: float
    gated: bool = False

    def complaints(self) -> Iterator[str]:
        if self.gated and self.off > max(NEAR, self.spread):
            yield (
                f"{self.job}, {self.threads} threads: off by {self.off:.1%} in the "
                f"median, unmanaged spread {self.spread:.1%}"
            )


@dataclasses.dataclass
class Bench(prediction_bench.Bench):
    """The same runs, judged step by step."""

    offs: list[float] = dataclasses.field(default_factory=list)
    beside: set[int] = dataclasses.field(default_factory=set)
    unmanaged: list[Timed] = dataclasses.field(default_factory=list)
    judged: list[Row] = dataclasses.field(default_factory=list)

    def plans(
        self, way: str, ran: Timed, unmanaged: list[Timed]
    ) -> Iterator[prediction_bench.Row]:
        followed = {step for plan in ran.run.report["plans"] for step in plan["steps"]}
        steps = sorted(followed & set(ran.counted))
        foretold = ran.run.report["step_predictions"]
        offs = [abs(ran.run.seconds[step] / foretold[step] - 1) for step in steps]
        if offs:
            spread = spread_of(unmanaged, set(steps))
            name = (self.job.name, self.threads, way)
            self.judged.append(Row(*name, len(offs), statistics.median(offs), spread))
        self.offs += offs
        self.beside |= set(steps)
        self.unmanaged = unmanaged
        yield from super().plans(way, ran, unmanaged)

    def judge(self) -> Iterator[Row]:
        """Runs all; a row for each way, and the one of the job."""
        for _ in self.rows():
            pass
        if not self.offs:
            raise harness.JobError(f"{self.job.name}: no plan was followed at all")
        yield from self.judged
        spread = spread_of(self.unmanaged, self.beside)
        median = statistics.median(self.offs)
        steps = len(self.offs)
        yield Row(self.job.name, self.threads, "all", steps, median, spread, gated=True)


def spread_of(unmanaged: list[Timed], steps: set[int]) -> float:
    return interleaved.spread(
        [seconds for one in unmanaged for seconds in one.seconds(sorted(steps))]
    )


def show(rows: list[Row]) -> str:
    header = ["job", "threads", "way", "steps", "off %", "spread %"]
    body = [
        [
            *(row.job, str(row.threads), row.way, str(row.steps)),
            *(f"{100 * row.off:.1f}", f"{100 * row.spread:.1f}"),
        ]
        for row in rows
    ]
    return harness.table([header, *body])


def main() -> int:
    args = ways.arguments(
        __doc__, "one small job, one budget, few steps", JOBS, threads=1
    )
    rows: list[Row] = []
    try:
        for bench in prediction_bench.benches(Bench, args):
            rows += bench.judge()
    except harness.JobError as error:
        print(f"bench profile: {error}", file=sys.stderr)
        return 1
    listed = [dataclasses.asdict(row) for row in rows]
    section = None if args.job else "Results"
    harness.report(args, "profile", SEED, listed, show(rows), section)
    complaints = [line for row in rows for line in row.complaints()]
    return harness.verdict("profile", complaints, args.check)


if __name__ == "__main__":
    sys.exit(main())
