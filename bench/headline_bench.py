"""The papers' headline, executed: `./dev bench headline`.

Budgets divide the activation bytes that the unmanaged run has at its peak by 2, 3, 4
and so on, down to the floor; then, by bisection, the largest batch that trains in the
unmanaged run's memory.
"""

import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import harness
import interleaved
import ways
from harness import mib
from interleaved import Launch, Timed, Turns
from ways import Job, away, managed, reachable

# Arguments, and the batch of the full size. ResNet-34: it has more activations for
# its parameters than ResNet-18.
JOBS: dict[str, tuple[list[str], int]] = {
    "gpt": ([], 8),
    "resnet": (["--depths", "3", "4", "6", "3"], 16),
}
FACTORS = [2, 3, 4, 5, 6, 8, 10]
SEED = 1
TURNS = Turns(first=15, rounds=5, length=5)
QUICK = Turns(first=6, rounds=1, length=4)
# A plan is there after about four steps, before which a job evicts on demand.
SHORT_STEPS, SHORT_RUNS = 6, 5
# Factor and overhead in per cent that two of the papers name.
NAMED = {2: 15, 4: 20}
# Joint is the product; each of the others forbids one of its means.
WAYS = ["joint", "recompute", "offload"]


@dataclasses.dataclass
class Row:
    job: str
    way: str
    budget: int | None
    peak: int
    activations: int  # at the peak
    factor: float  # unmanaged over that
    asked: float | None  # None: as low as it gets
    seconds: float
    overhead: float  # per cent
    identical: bool
    over_budget_steps: int

    @property
    def place(self) -> str:
        asked = "the floor" if self.asked is None else f"÷{self.asked:g}"
        return f"{self.job}, {self.way} at {asked}"

    def complaints(self) -> Iterator[str]:
        if not self.identical:
            yield f"{self.place}: loss or hash differs from the unmanaged run's"
        if self.over_budget_steps:
            yield f"{self.place}: over the budget in {self.over_budget_steps} steps"
        allowed = NAMED.get(int(self.asked or 0))
        if self.way == "joint" and allowed and self.overhead > allowed:
            yield f"{self.place}: overhead {self.overhead:.1f} %, named {allowed} %"


@dataclasses.dataclass
class Batch:
    """The largest batch that trains in a budget."""

    job: str
    budget: int
    batches: dict[str, int]


def launch(command: Sequence[str], way: str, budget: int) -> Launch:
    return managed(
        command, budget, spill=way != "recompute", recompute=way != "offload"
    )


class Bench:
    def __init__(self, job: Job, factors: list[int], turns: Turns) -> None:
        self.job = job
        self.turns = turns
        self.peak = job.recorded.live
        self.persistent = int(job.recorded.report["persistent"])
        self.factors = factors

    def rows(self) -> Iterator[Row]:
        command = self.job.command("--steps", str(self.turns.steps))
        launches = {"unmanaged": Launch(command), "hooks": Launch(away(command))}
        asked: dict[str, tuple[str, int, float | None]] = {}
        for way in WAYS:
            for factor, budget in self.budgets(way):
                name = f"{way} at {mib(budget)} MiB"
                asked[name] = (way, budget, factor)
                launches[name] = launch(command, way, budget)
        timed = interleaved.interleave(launches, self.turns)
        self.plain = timed["unmanaged"]
        self.spread = interleaved.spread(self.plain.seconds())
        yield self.row("unmanaged", self.plain, self.peak, None, 1)
        floor = self.job.floor_with_spill
        yield self.row("hooks", timed["hooks"], floor, None, None)
        for name, (way, budget, factor) in asked.items():
            ran = timed[name]
            yield self.row(way, ran, ran.run.live, budget, factor)

    def budgets(self, way: str) -> Iterator[tuple[float | None, int]]:
        """Factors and budgets, the floor last, with None for a factor."""
        spill = way != "recompute"
        lowest = reachable(self.job.floor_with_spill if spill else self.job.floor[0])
        for factor in self.factors:
            budget = self.persistent + (self.peak - self.persistent) // factor
            if budget > lowest:
                yield factor, budget
        if len(self.factors) > 1:
            yield None, self.kept(way, lowest)

    def kept(self, way: str, budget: int) -> int:
        """The least budget from there on, by MiB, that no step of short runs exceeds.

        Before it has a plan a job evicts on demand, which may take more than plans do,
        and by measured times, so that one run may keep what the next one does not.
        """
        command = self.job.command("--steps", str(SHORT_STEPS))
        run = launch(command, way, budget)
        for _ in range(SHORT_RUNS):
            done = harness.run(run.command, run.environment)
            if done.report["over_budget_steps"]:
                return self.kept(way, budget + harness.MIB)
        return budget

    def row(
        self, way: str, ran: Timed, peak: int, budget: int | None, asked: float | None
    ) -> Row:
        activations = peak - self.persistent
        return Row(
            job=self.job.name,
            way=way,
            budget=budget,
            peak=peak,
            activations=activations,
            factor=(self.peak - self.persistent) / activations,
            asked=asked,
            seconds=ran.median(),
            overhead=100 * (ran.median() / self.plain.median() - 1),
            identical=ran.run.same_result(self.plain.run),
            over_budget_steps=int(ran.run.report.get("over_budget_steps", 0)),
        )


def largest(fits: Callable[[int], bool], start: int, most: int) -> int:
    """The largest number from `start` on to within an 8th; 0 where that is too much."""
    if not fits(start):
        return 0
    low, high = start, 2 * start
    while high <= most and fits(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > max(1, low // 8):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def batches(job: Job, batch: int, most: int) -> Batch:
    """In the budget that the unmanaged run needs for `batch`."""
    budget = harness.record(job.short("--batch", str(batch))).live

    def command(size: int, *more: str) -> list[str]:
        harness.progress(f"{job.name}, batch {size}")
        return job.short("--batch", str(size), *more)

    def checkpointed(size: int) -> bool:
        return harness.record(command(size, "--checkpoint")).live <= budget

    def under_ebbtide(size: int) -> bool:
        launcher = harness.managed_command(command(size), budget, "--strict")
        try:
            run = harness.run(launcher, {})
        except harness.JobError as error:
            if "OutOfMemoryError" not in str(error):
                raise
            return False
        return int(run.report["over_budget_steps"]) == 0 and run.live <= budget

    found = {
        "unmanaged": batch,
        "checkpoint": largest(checkpointed, batch, most),
        "ebbtide": largest(under_ebbtide, batch, most),
    }
    return Batch(job.name, budget, found)


def show(rows: list[Row], sizes: list[Batch], notes: list[str]) -> str:
    header = ["job", "way", "asked", "budget MiB", "peak MiB", "activations MiB"]
    header += ["÷", "s/step", "overhead %", "hash"]
    body = [
        [
            row.job,
            row.way,
            "floor" if row.asked is None else f"÷{row.asked:g}",
            "" if row.budget is None else mib(row.budget),
            mib(row.peak),
            mib(row.activations),
            f"{row.factor:.2f}",
            f"{row.seconds:.4f}",
            f"{row.overhead:+.1f}",
            "same" if row.identical else "differs",
        ]
        for row in rows
    ]
    parts = [harness.table([header, *body]), "\n".join(notes)]
    if sizes:
        largest_of = [["job", "budget MiB", "unmanaged", "checkpoint", "ebbtide"]]
        for size in sizes:
            counts = [str(count) for count in size.batches.values()]
            largest_of.append([size.job, mib(size.budget), *counts])
        parts += [
            "The largest batch whose live bytes stay within the unmanaged run's peak "
            "at the job's own batch, to within an 8th:",
            harness.table(largest_of),
        ]
    return "\n\n".join(parts)


def main() -> int:
    args = ways.arguments(
        __doc__, "one small job, one factor, few steps", JOBS, threads=2
    )
    jobs = args.job or (["gpt"] if args.quick else list(JOBS))
    shape = ways.shape(args, SEED)
    factors = FACTORS[:1] if args.quick else FACTORS
    rows: list[Row] = []
    sizes: list[Batch] = []
    notes: list[str] = []
    try:
        for name in jobs:
            arguments, batch = JOBS[name]
            if args.quick:
                arguments = ["--batch", "16"]  # more of it than the least budget
            job = Job(name, [*shape, *arguments])
            bench = Bench(job, factors, QUICK if args.quick else TURNS)
            rows += bench.rows()
            spread = f"{100 * bench.spread:.1f} %"
            notes.append(f"- {name}: the unmanaged steps spread by {spread}")
            if not args.quick:
                sizes.append(batches(job, batch, most=16 * batch))
    except harness.JobError as error:
        print(f"bench headline: {error}", file=sys.stderr)
        return 1
    printed: list[dict[str, Any]] = [dataclasses.asdict(row) for row in rows]
    harness.report(
        args,
        "headline",
        SEED,
        printed + [dataclasses.asdict(size) for size in sizes],
        show(rows, sizes, notes),
        None if args.job else "Results",
    )
    complaints = [line for row in rows for line in row.complaints()]
    for size_ in sizes:
        if size_.batches["ebbtide"] <= size_.batches["checkpoint"]:
            complaints.append(f"{size_.job}: no larger batch than checkpoint's")
    return harness.verdict("headline", complaints, args.check)


if __name__ == "__main__":
    sys.exit(main())
