"""Demand eviction against the published heuristic: `./dev bench demand`.

Recorded models (bench/recorded.py) under shares of their activations, in the planner's
simulator: evicting in our order, in that of DTR (Kirisame et al., ICLR 2021; h_DTR with
e* exact), and the plan of the graph search for comparison. Nothing is offloaded. Every
plan is judged by `ebbtide check`.
"""

import collections
import dataclasses
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import harness
import recorded
from harness import mib

SHARES = [15, 25, 40, 60, 80]
QUICK_SHARES = [60]
SEED = 1
LIMIT = 2  # seconds, of the graph search
SLOWER = 0.25  # points of overhead: two greedy orders differ by chance
MOST_RERUNS = 8  # recomputations of one op in one step


@dataclasses.dataclass
class Way:
    overhead: float | None = None
    reruns: int = 0
    verdict: str = ""


@dataclasses.dataclass
class Row:
    """One model at one budget."""

    model: str
    share: int
    budget: int
    ours: Way
    dtr: Way
    planned: Way

    @property
    def name(self) -> str:
        return f"{self.model} at {self.share} %"

    def complaints(self) -> Iterator[str]:
        for way in (self.ours, self.dtr, self.planned):
            if way.overhead is not None and way.verdict != "valid":
                yield f"{self.name}: ebbtide check says {way.verdict}"
        if self.ours.reruns > MOST_RERUNS:
            yield f"{self.name}: one op ran again {self.ours.reruns} times"
        if self.dtr.overhead is None:
            return
        if self.ours.overhead is None:
            yield f"{self.name}: over the budget where DTR is not"
        elif self.ours.overhead > self.dtr.overhead + SLOWER:
            yield (
                f"{self.name}: {self.ours.overhead:.2f} % where DTR takes "
                f"{self.dtr.overhead:.2f}"
            )


def way(trace: Path, budget: int, base: float, solver: str) -> Way:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "plan.json"
        found = recorded.plan(trace, budget, LIMIT, "--solver", solver, "-o", out)
        if not found["feasible"]:
            return Way()
        actions = json.loads(out.read_text())["actions"]
        again = collections.Counter(a["op"] for a in actions if a["do"] == "recompute")
        return Way(
            overhead=100 * (found["time"] / base - 1),
            reruns=max(again.values(), default=0),
            verdict=recorded.verdict(trace, out),
        )


def measure(model: str, shares: list[int]) -> Iterator[Row]:
    trace = recorded.trace_of(model)
    words = [str(share) for share in shares]
    facts = json.loads(recorded.call(recorded.BUDGETS, trace, *words))
    for share, budget in zip(shares, facts["budgets"], strict=True):
        ways = [
            way(trace, budget, facts["time"], solver)
            for solver in ("demand", "dtr", "graph")
        ]
        yield Row(model, share, budget, *ways)
        harness.progress(f"{model} at {share} %")


def show(rows: list[Row]) -> str:
    header = ["model", "activations %", "budget MiB", "ours %", "most of an op"]
    header += ["DTR %", "most of an op", "planned %"]

    def figures(way: Way) -> list[str]:
        again = "" if way.overhead is None else str(way.reruns)
        return [recorded.number(way.overhead, 2), again]

    body = [
        [
            row.model,
            str(row.share),
            mib(row.budget),
            *figures(row.ours),
            *figures(row.dtr),
            recorded.number(row.planned.overhead, 2),
        ]
        for row in rows
    ]
    both = [
        (row.ours.overhead, row.dtr.overhead)
        for row in rows
        if row.ours.overhead is not None and row.dtr.overhead is not None
    ]
    ours, dtr = (statistics.mean(column) for column in zip(*both, strict=True))
    mean = (
        f"The means over the {len(both)} rows that have both are {ours:.2f} % in our "
        f"order and {dtr:.2f} % in DTR's."
    )
    return f"{harness.table([header, *body])}\n\n{mean}"


def main() -> int:
    args = harness.bench_parser(__doc__, "one model, one budget").parse_args()
    models = [*recorded.JOBS, *recorded.MODELS]
    rows: list[Row] = []
    try:
        for model in ["gpt"] if args.quick else models:
            rows += measure(model, QUICK_SHARES if args.quick else SHARES)
    except harness.JobError as error:
        print(f"bench demand: {error}", file=sys.stderr)
        return 1
    dictionaries = [dataclasses.asdict(row) for row in rows]
    harness.report(args, "demand", SEED, dictionaries, show(rows))
    complaints = [line for row in rows for line in row.complaints()]
    return harness.verdict("demand", complaints, args.check)


if __name__ == "__main__":
    sys.exit(main())
