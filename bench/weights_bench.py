"""Weight offload on chains of models: `./dev bench weights`.

Chains from the shapes of layers with few samples (model_chains.py), trained without and
with two states of the optimizer for each weight; lanes that move half of all weights
during the forward. Budgets from the least that there is a plan for to what everything
takes: Greedy and Greedy* (Beaumont, Eyraud-Dubois, Shilova, Zhao, hal-03580767), our
search, which starts from them, and the linear program that no plan is faster than. Then
weights and values under one budget.
"""

import dataclasses
import sys
from collections.abc import Iterator
from typing import Any

import harness
import model_chains
from pofo_bench import plan
from recorded import number

SEED = 1  # seed of the search
RATIO = 0.5
STATES = {"sgd": 0, "adam": 2}
SHARES = [0, 5, 10, 20, 40, 60, 80]  # shares of the bytes that may leave
JOINT_SHARES = [0, 20, 60]
LIMIT = 60.0  # seconds for the bound
GAP = 5.0  # per cent above the bound, on the mean of all


@dataclasses.dataclass
class Row:
    """One budget: overheads in per cent, None without a plan."""

    model: str
    optimizer: str
    share: int
    greedy: float | None
    star: float | None
    ours: float | None
    bound: float | None
    gap: float | None  # distance of our result, per cent of the bound's time
    seconds: float
    joint: float | None = None

    @property
    def name(self) -> str:
        return f"{self.model}, {self.optimizer} at {self.share} %"

    def complaints(self) -> Iterator[str]:
        if self.ours is None:
            yield f"{self.name}: no plan"
        if self.joint is not None and self.ours is not None and self.joint > self.ours:
            yield f"{self.name}: joint {self.joint:.2f}, weights {self.ours:.2f}"


def overhead(found: dict[str, Any], base: float, name: str = "time") -> float | None:
    # Sums in another order differ in the last digits.
    return max(0.0, 100 * (found[name] / base - 1)) if found["feasible"] else None


def measure(
    model: str, optimizer: str, shares: list[int], joint_shares: list[int]
) -> Iterator[Row]:
    chain = model_chains.trained(
        model_chains.WEIGHTED[model](), STATES[optimizer], RATIO
    )
    base = sum(chain["fw"]) + sum(chain["bw"])
    everything = plan(chain, 1 << 60, "weights", 0)
    least, most = everything["least_budget"], everything["peak"]
    for share in shares:
        budget = least + (most - least) * share // 100
        ours = plan(chain, budget, "weights", LIMIT)
        row = Row(
            model,
            optimizer,
            share,
            overhead(plan(chain, budget, "greedy", 0), base),
            overhead(plan(chain, budget, "greedy-star", 0), base),
            overhead(ours, base),
            overhead(ours, base, "lower_bound_time"),
            # Sums in another order differ in the last digits.
            max(0.0, 100 * ours["gap"]) if ours["feasible"] else None,
            ours["plan_seconds"],
        )
        if share in joint_shares:
            row.joint = overhead(plan(chain, budget, "joint"), base)
        yield row
    harness.progress(f"{model}, {optimizer}")


def mean_gap(rows: list[Row]) -> float:
    gaps = [row.gap for row in rows if row.gap is not None]
    return sum(gaps) / max(1, len(gaps))


def show(rows: list[Row]) -> str:
    header = ["model", "optimizer", "budget %", "greedy +%", "greedy* +%", "ours +%"]
    header = [*header, "bound +%", "gap %", "joint +%", "s"]
    body = [
        [
            row.model,
            row.optimizer,
            str(row.share),
            number(row.greedy, 2),
            number(row.star, 2),
            number(row.ours, 2),
            number(row.bound, 2),
            number(row.gap, 2),
            number(row.joint, 2),
            f"{row.seconds:.2f}",
        ]
        for row in rows
    ]
    mean = f"The mean of the gaps is {mean_gap(rows):.2f} %."
    return f"{harness.table([header, *body])}\n\n{mean}"


def main() -> int:
    args = harness.bench_parser(__doc__, "one model, two budgets").parse_args()
    try:
        if args.quick:
            rows = [*measure("resnet-50", "adam", SHARES[2:5:2], JOINT_SHARES[1:2])]
        else:
            rows = [
                row
                for model in model_chains.WEIGHTED
                for optimizer in STATES
                for row in measure(model, optimizer, SHARES, JOINT_SHARES)
            ]
    except harness.JobError as error:
        print(f"bench weights: {error}", file=sys.stderr)
        return 1
    values = [dataclasses.asdict(row) for row in rows]
    harness.report(args, "weights", SEED, values, show(rows))
    complaints = [line for row in rows for line in row.complaints()]
    if mean_gap(rows) > GAP:
        complaints.append(f"{mean_gap(rows):.2f} % above the bound, {GAP} asked")
    return harness.verdict("weights", complaints, args.check)


if __name__ == "__main__":
    sys.exit(main())
