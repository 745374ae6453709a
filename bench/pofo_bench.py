"""POFO on chains of models: `./dev bench pofo`.

Chains from the shapes of layers (model_chains.py), sizes rounded up to five-hundredths
of the peak that keeps everything; lanes that move a share of all saved bytes during the
forward, the same in both directions. `unpinned` is recomputation alone. The limits are
the results of a study of the same search on the same chains, and the paper's headline
(Beaumont, Eyraud-Dubois, Shilova, NeurIPS 2021: a third of the cost of recomputation
removed; memory for activations divided by 4 to 6 within 20 %). Then the graph planner
on the same steps.
"""

import dataclasses
import json
import math
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
import model_chains
import recorded
from model_chains import Chain
from recorded import number

SEED = 1  # nothing is random
SLOTS = 500
RATIOS = [0.3, 0.45, 0.6]
SHARES = [20, 25, 30, 35, 45, 55, 65]  # shares of the peak that keeps everything
OVERHEAD = 0.2  # within which the least budget is looked for
SECONDS = 1.0  # for a plan
# Least per cent of the cost of recomputation that is removed, on the mean of all cases;
# and the largest least budget in per cent of the peak, by ratio.
REMOVED = {
    "gpt-24": 66,
    "gpt-48": 69,
    "resnet-50": 63,
    "resnet-101": 75,
    "resnet-152": 75,
}
LEAST = {
    "gpt-24": [18.6, 11.3, 10.6],
    "gpt-48": [13.6, 7.3, 5.6],
    "resnet-50": [31.7, 30.9, 30.9],
    "resnet-101": [21.2, 20.8, 20.8],
    "resnet-152": [15.3, 14.8, 14.8],
}
# For the comparison with the graph planner, and its time.
FEW_RATIOS = [0.3, 0.6]
FEW_SHARES = [25, 35, 55]
LIMIT = 5.0
BEHIND = 0.5  # points that the graph planner may be behind
HALF = 0.5  # half of the last digit of a share that is printed whole
TENTH = 0.05  # half of the last digit of one with a decimal


@dataclasses.dataclass
class Case:
    """One budget at one ratio: overheads in per cent."""

    ratio: float
    share: int
    alone: float
    joint: float
    seconds: float

    @property
    def removed(self) -> float:
        return 100 * (1 - self.joint / self.alone)


@dataclasses.dataclass
class Row:
    """A model: its cases, and the least budgets in per cent of the peak."""

    model: str
    stages: int
    cases: list[Case]
    least_alone: float
    least: list[float]  # by ratio

    def mean(self, name: str) -> float:
        values: list[float] = [getattr(case, name) for case in self.cases]
        return sum(values) / len(values)

    @property
    def is_whole(self) -> bool:
        return len(self.least) == len(RATIOS)

    @property
    def slowest(self) -> float:
        return max(case.seconds for case in self.cases)

    def complaints(self) -> Iterator[str]:
        removed = self.mean("removed")
        if self.is_whole and removed < REMOVED[self.model] - HALF:
            yield f"{self.model}: {removed:.1f} % removed, {REMOVED[self.model]} asked"
        # A quick run has the first ratio only.
        for ratio, least, most in zip(
            RATIOS, self.least, LEAST[self.model], strict=False
        ):
            if least > most + TENTH:
                yield f"{self.model} at {ratio}: from {least:.2f} %, {most} asked"
        if self.slowest > SECONDS:
            yield f"{self.model}: a plan took {self.slowest:.2f} s"


@dataclasses.dataclass
class Beside:
    """POFO and the graph planner: overheads in per cent, None without a plan."""

    model: str
    ratio: float
    share: int
    pofo: float | None
    graph: float | None
    bound: float | None  # the graph planner's

    def complaints(self) -> Iterator[str]:
        name = f"{self.model} at {self.ratio} and {self.share} %"
        if self.pofo is None:
            return
        if self.graph is None:
            yield f"{name}: the graph planner has no plan"
        elif self.graph > self.pofo + BEHIND:
            yield f"{name}: the graph planner {self.graph:.2f}, pofo {self.pofo:.2f}"


def plan(
    step: dict[str, Any], budget: int, solver: str, limit: float = LIMIT
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "step.json"
        file.write_text(json.dumps(step))
        return recorded.plan(file, budget, limit, "--solver", solver)


def in_slots(chain: Chain) -> Chain:
    """The chain with sizes in five-hundredths of its peak."""
    slot = plan(chain, 1 << 60, "keep")["peak"] / SLOTS
    sizes = {
        name: [math.ceil(size / slot - 1e-9) for size in chain[name]]
        for name in ("x", "xb", "ft", "bt")
    }
    return chain | sizes


def least_share(chain: Chain, solver: str, peak: int) -> float:
    """The least budget within OVERHEAD, in per cent of the peak."""
    base = sum(chain["fw"]) + sum(chain["bw"])
    low, high = 0, peak
    while high - low > 1:
        middle = (low + high) // 2
        found = plan(chain, middle, solver)
        fits = found["feasible"] and found["time"] <= base * (1 + OVERHEAD) + 1e-9
        low, high = (low, middle) if fits else (middle, high)
    return 100 * high / peak


def prepared(model: str) -> tuple[Chain, float, int]:
    """The chain, the time that keeps everything, and the bytes that shares are of."""
    chain = in_slots(model_chains.MODELS[model]())
    peak: int = plan(chain, 1 << 60, "keep")["peak"]
    return chain, sum(chain["fw"]) + sum(chain["bw"]), peak + 2


def measure(model: str, ratios: list[float], shares: list[int]) -> Row:
    chain, base, peak = prepared(model)
    row = Row(model, len(chain["fw"]), [], least_share(chain, "unpinned", peak), [])
    for ratio in ratios:
        moving = model_chains.with_lanes(chain, ratio)
        for share in shares:
            budget = peak * share // 100
            alone = plan(chain, budget, "unpinned")
            if not alone["feasible"]:
                continue
            joint = plan(moving, budget, "pofo")
            over = [100 * (found["time"] / base - 1) for found in (alone, joint)]
            seconds = joint["plan_seconds"]
            row.cases.append(Case(ratio, share, over[0], over[1], seconds))
        row.least.append(least_share(moving, "pofo", peak))
        harness.progress(f"{model} at {ratio}: from {row.least[-1]:.1f} %")
    return row


def beside(model: str, ratios: list[float], shares: list[int]) -> Iterator[Beside]:
    chain, base, peak = prepared(model)

    def overhead(found: dict[str, Any], name: str = "time") -> float | None:
        if not found["feasible"]:
            return None
        # Sums in another order differ in the last digits.
        time: float = found[name]
        return max(0.0, 100 * (time / base - 1))

    for ratio in ratios:
        moving = model_chains.with_lanes(chain, ratio)
        profile = model_chains.as_profile(moving)
        for share in shares:
            budget = peak * share // 100
            pofo = plan(moving, budget, "pofo")
            graph = plan(profile, budget, "graph")
            bound = overhead(graph, "lower_bound_time")
            yield Beside(model, ratio, share, overhead(pofo), overhead(graph), bound)


def show_beside(rows: list[Beside]) -> str:
    header = ["model", "lanes", "budget %", "pofo +%", "graph +%", "graph's bound +%"]
    body = []
    for row in rows:
        figures = [number(value, 2) for value in (row.pofo, row.graph, row.bound)]
        body.append([row.model, str(row.ratio), str(row.share), *figures])
    return harness.table([header, *body])


def show(rows: list[Row]) -> str:
    header = ["model", "stages", "cases", "unpinned +%", "pofo +%", "removed %"]
    ratios = RATIOS[: len(rows[0].least)]
    least = [f"least % at {ratio}" for ratio in ratios]
    header = [*header, "least % unpinned", *least, "slowest s"]
    body = [
        [
            row.model,
            str(row.stages),
            str(len(row.cases)),
            number(row.mean("alone"), 1),
            number(row.mean("joint"), 1),
            f"{row.mean('removed'):.0f}",
            number(row.least_alone, 1),
            *[number(share, 1) for share in row.least],
            f"{row.slowest:.2f}",
        ]
        for row in rows
    ]
    return harness.table([header, *body])


def main() -> int:
    args = harness.bench_parser(__doc__, "one model at one ratio").parse_args()
    try:
        if args.quick:
            rows = [measure("resnet-50", RATIOS[:1], SHARES[-2:])]
            others = [*beside("resnet-50", FEW_RATIOS[:1], FEW_SHARES[-1:])]
        else:
            models = list(model_chains.MODELS)
            rows = [measure(model, RATIOS, SHARES) for model in models]
            others = [
                row for name in models for row in beside(name, FEW_RATIOS, FEW_SHARES)
            ]
    except harness.JobError as error:
        print(f"bench pofo: {error}", file=sys.stderr)
        return 1
    measured: list[Row | Beside] = [*rows, *others]
    values = [dataclasses.asdict(row) for row in measured]
    text = f"{show(rows)}\n\n{show_beside(others)}"
    harness.report(args, "pofo", SEED, values, text)
    complaints = [line for row in measured for line in row.complaints()]
    return harness.verdict("pofo", complaints, args.check)


if __name__ == "__main__":
    sys.exit(main())
