"""What sequence lengths in random order cost, against each length trained alone.

    ./dev bench shapes [--quick] [--check] [--json]

A GPT trains under one budget on sequences of forty lengths, each step of another
one, and on each of the lengths alone under the same budget.
"""

import dataclasses
import random
import statistics
import sys
from collections.abc import Iterator
from typing import Any

import harness
from harness import mib

CHILD = harness.ROOT / "bench" / "shapes_child.py"
LEAST, MOST = 160, 472  # of the lengths
STEPS, COUNT = 400, 40
SEED = 1
QUICK_STEPS, QUICK_COUNT = 40, 4
ALONE = 24  # steps
WARM = 5  # times that each length comes before its steps count
SHARE = 0.35  # of what is saved of the longest
MOST_LOSS = 3.0  # per cent
ABOUT = """\
Budget: {budget} MiB, {share:.0%} of what an unmanaged step of the longest saves, \
beside what is always there; spilling is allowed. Each length comes equally often, in \
random order; the first {warm} times that it comes are warm-up. Alone: the same number \
of last steps of {alone} of that length and no other. Loss: by how much the median \
step is slower than alone; of the least: the same of the fastest steps. {steps} steps \
of {count} lengths, {over} of them over budget; {remembered} kinds of step are \
remembered of at most {bound}, {plans} plans were made; losses, parameters and \
optimizer equal those of the unmanaged run: {same}. States in which steps ended: \
{states}."""


@dataclasses.dataclass
class Row:
    """One length; seconds of the steps that count."""

    length: int
    mixed: list[float]
    alone: list[float]
    alone_over: int  # steps over budget
    state: str  # in which the steps alone ended

    @property
    def loss(self) -> float:
        """Per cent, of medians."""
        return change(statistics.median(self.mixed), statistics.median(self.alone))

    @property
    def loss_of_least(self) -> float:
        return change(min(self.mixed), min(self.alone))


def change(new: float, old: float) -> float:
    return 100.0 * (new / old - 1)


@dataclasses.dataclass
class Result:
    rows: list[Row]
    budget: int
    same: bool
    report: dict[str, Any]  # of the mixed run

    @property
    def loss(self) -> float:
        return statistics.mean(row.loss for row in self.rows)

    @property
    def loss_of_least(self) -> float:
        return statistics.mean(row.loss_of_least for row in self.rows)

    def complaints(self) -> Iterator[str]:
        if not self.same:
            yield "the mixed run differs from the unmanaged one"
        if self.report["over_budget_steps"] > 0:
            yield f"{self.report['over_budget_steps']} mixed steps were over budget"
        if self.loss > MOST_LOSS:
            yield f"{self.loss:.1f} % mean loss, at most {MOST_LOSS:g} is asked for"
        kinds = self.report["signatures"]
        if kinds["remembered"] > kinds["bound"]:
            yield f"{kinds['remembered']} kinds of step are remembered"


def lengths(count: int) -> list[int]:
    return [LEAST + (MOST - LEAST) * i // (count - 1) for i in range(count)]


def order(steps: int, count: int) -> list[int]:
    """The length of every step."""
    chosen = lengths(count)
    repeated = [chosen[i % count] for i in range(steps)]
    random.Random(SEED).shuffle(repeated)
    return repeated


def command(of_steps: list[int]) -> list[str]:
    child = ["env", f"PYTHONPATH={harness.JOBS}", str(harness.PYTHON), str(CHILD)]
    return [*child, *map(str, of_steps)]


def measure(steps: int, count: int) -> Result:
    kept = harness.record(command([lengths(count)[-1]] * 3)).report
    budget = int(kept["persistent"] + SHARE * kept["peak_activations"])
    shuffled = order(steps, count)
    mixed_command = command(shuffled)
    plain = harness.run(mixed_command)
    mixed = harness.managed(mixed_command, budget)
    harness.progress(f"mixed: {mixed.report['steps_by_state']}")
    seconds: dict[int, list[float]] = {length: [] for length in lengths(count)}
    for length, taken in zip(shuffled, mixed.seconds, strict=True):
        seconds[length].append(taken)
    rows = []
    for length in lengths(count):
        alone = harness.managed(command([length] * ALONE), budget)
        counted = seconds[length][WARM:]
        rows.append(
            Row(
                length,
                mixed=counted,
                alone=alone.seconds[-len(counted) :],
                alone_over=alone.report["over_budget_steps"],
                state=alone.report["state"],
            )
        )
        harness.progress(f"{length}: {rows[-1].loss:+.1f} %")
    return Result(rows, budget, mixed.same_result(plain), mixed.report)


def show(result: Result, steps: int) -> str:
    header = ["length", "mixed s", "alone s", "loss %", "of the least %", "alone ends"]
    body = []
    for row in result.rows:
        medians = [statistics.median(row.mixed), statistics.median(row.alone)]
        body.append(
            [
                str(row.length),
                *(f"{seconds:.4f}" for seconds in medians),
                f"{row.loss:+.1f}",
                f"{row.loss_of_least:+.1f}",
                row.state,
            ]
        )
    means = [f"{result.loss:+.1f}", f"{result.loss_of_least:+.1f}"]
    body.append(["mean", "", "", *means, ""])
    kinds = result.report["signatures"]
    by_state = result.report["steps_by_state"].items()
    about = ABOUT.format(
        budget=mib(result.budget),
        share=SHARE,
        warm=WARM,
        alone=ALONE,
        steps=steps,
        count=len(result.rows),
        over=result.report["over_budget_steps"],
        remembered=kinds["remembered"],
        bound=kinds["bound"],
        plans=kinds["plans_made"],
        same="yes" if result.same else "NO",
        states=", ".join(f"{state} {number}" for state, number in by_state),
    )
    return f"{harness.table([header, *body])}\n\n{about}"


def main() -> int:
    args = harness.bench_parser(__doc__, "four lengths, 40 steps").parse_args()
    steps, count = (QUICK_STEPS, QUICK_COUNT) if args.quick else (STEPS, COUNT)
    result = measure(steps, count)
    harness.report(
        args,
        "shapes",
        seed=SEED,
        rows=[dataclasses.asdict(row) for row in result.rows],
        body=show(result, steps),
        section="shapes",
    )
    return harness.verdict("shapes", list(result.complaints()), args.check)


if __name__ == "__main__":
    sys.exit(main())
