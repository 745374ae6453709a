"""Cost of sequence lengths in random order, against each length trained alone.

    ./dev bench shapes [--quick] [--check] [--json]

A GPT trains under one budget on sequences of forty lengths, each step of another
one, and on each of the lengths alone under the same budget. Either runs side by side
with the unmanaged program: lengths by turns cost PyTorch something, too, and a machine
is not equally fast all the time.
"""

import dataclasses
import random
import statistics
import sys
from collections.abc import Iterator
from typing import Any

import harness
import interleaved
from harness import mib
from interleaved import Launch, Timed, Turns

CHILD = harness.ROOT / "bench" / "shapes_child.py"
LEAST, MOST = 160, 472  # range of the lengths
MIXED, COUNT = Turns(first=10, rounds=39, length=10), 40
SEED = 1
QUICK_MIXED, QUICK_COUNT = Turns(first=10, rounds=3, length=10), 4
ALONE = Turns(first=14, rounds=2, length=5)
WARM = 5  # times that each length comes before its steps count
SHARE = 0.35  # share of the bytes saved for the longest
MOST_LOSS = 3.0  # per cent


@dataclasses.dataclass
class Pair:
    """Seconds of the same steps, with ebbtide and without."""

    managed: list[float]
    plain: list[float]

    @property
    def ratio(self) -> float:
        return statistics.median(self.managed) / statistics.median(self.plain)


@dataclasses.dataclass
class Row:
    """One length; the steps that count."""

    length: int
    mixed: Pair
    alone: Pair
    alone_over: int  # steps over budget
    state: str  # in which the steps alone ended

    @property
    def loss(self) -> float:
        """Per cent."""
        return change(self.mixed.ratio, self.alone.ratio)

    @property
    def loss_of_pytorch(self) -> float:
        mixed, alone = self.mixed.plain, self.alone.plain
        return change(statistics.median(mixed), statistics.median(alone))


def change(new: float, old: float) -> float:
    return 100.0 * (new / old - 1)


@dataclasses.dataclass
class Result:
    rows: list[Row]
    budget: int
    same: bool
    report: dict[str, Any]  # report of the mixed run

    @property
    def loss(self) -> float:
        return statistics.mean(row.loss for row in self.rows)

    @property
    def loss_of_pytorch(self) -> float:
        return statistics.mean(row.loss_of_pytorch for row in self.rows)

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


def side_by_side(of_steps: list[int], budget: int, turns: Turns) -> tuple[Timed, Timed]:
    """The managed run and the unmanaged one."""
    plain = command(of_steps)
    managed = Launch(harness.managed_command(plain, budget), {})
    ran = interleaved.interleave({"managed": managed, "plain": Launch(plain)}, turns)
    return ran["managed"], ran["plain"]


def measure(turns: Turns, count: int) -> Result:
    kept = harness.record(command([lengths(count)[-1]] * 3)).report
    budget = int(kept["persistent"] + SHARE * kept["peak_activations"])
    shuffled = order(turns.steps, count)
    mixed, plain = side_by_side(shuffled, budget, turns)
    harness.progress(f"mixed: {mixed.run.report['steps_by_state']}")
    rows = []
    for length in lengths(count):
        came = [step for step, other in enumerate(shuffled) if other == length]
        alone, alone_plain = side_by_side([length] * ALONE.steps, budget, ALONE)
        rows.append(
            Row(
                length,
                Pair(mixed.seconds(came[WARM:]), plain.seconds(came[WARM:])),
                Pair(alone.seconds(), alone_plain.seconds()),
                alone_over=alone.run.report["over_budget_steps"],
                state=alone.run.report["state"],
            )
        )
        harness.progress(f"{length}: {rows[-1].loss:+.1f} %")
    same = mixed.run.same_result(plain.run)
    return Result(rows, budget, same, mixed.run.report)


def show(result: Result, turns: Turns) -> str:
    header = ["length", "mixed s", "/ unmanaged", "alone s", "/ unmanaged"]
    header += ["loss %", "PyTorch's %", "alone ends"]
    body = []
    for row in result.rows:
        cells = [str(row.length)]
        for pair in (row.mixed, row.alone):
            cells += [f"{statistics.median(pair.managed):.4f}", f"{pair.ratio:.3f}"]
        cells += [f"{row.loss:+.1f}", f"{row.loss_of_pytorch:+.1f}", row.state]
        body.append(cells)
    means = [f"{result.loss:+.1f}", f"{result.loss_of_pytorch:+.1f}"]
    body.append(["mean", "", "", "", "", *means, ""])
    kinds = result.report["signatures"]
    by_state = result.report["steps_by_state"].items()
    states = ", ".join(f"{state} {number}" for state, number in by_state)
    about = (
        f"The budget is {mib(result.budget)} MiB. "
        f"{result.report['over_budget_steps']} of the {turns.steps} mixed steps of "
        f"{len(result.rows)} lengths are over it. The run remembers "
        f"{kinds['remembered']} kinds of step of at most {kinds['bound']}, and made "
        f"{kinds['plans_made']} plans. Losses, parameters and optimizer equal those of "
        f"the unmanaged run: {'yes' if result.same else 'NO'}. The steps ended in "
        f"these states: {states}."
    )
    return f"{harness.table([header, *body])}\n\n{about}"


def main() -> int:
    args = harness.bench_parser(__doc__, "four lengths, 40 steps").parse_args()
    turns, count = (QUICK_MIXED, QUICK_COUNT) if args.quick else (MIXED, COUNT)
    result = measure(turns, count)
    harness.report(
        args,
        "shapes",
        seed=SEED,
        rows=[dataclasses.asdict(row) for row in result.rows],
        body=show(result, turns),
    )
    return harness.verdict("shapes", list(result.complaints()), args.check)


if __name__ == "__main__":
    sys.exit(main())
