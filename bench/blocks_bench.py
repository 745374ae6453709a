"""Recorded graphs planned as chains, and as graphs: `./dev bench blocks`.

Steps of real models (recorded.py), cut at their separators into chains of blocks: each
block saved whole, pinned as in Rotor or not; with the options of Rockmate, pinned as it
is published or not; and by the graph planner. Overheads are per cent of the step that
keeps everything, on the same profile and by the same simulator; every plan is judged
by `ebbtide check`.
"""

import dataclasses
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import harness
import recorded
from harness import mib
from recorded import number

SEED = 1
SECONDS = 10.0
MODELS = ["gpt2-12", "resnet-101"]
SHARES = [20, 35, 50, 70]
SOLVERS = {
    "rotor": "pinned",
    "unpinned": "unpinned",
    "rockmate": "options",
    "rockmate-unpinned": "options, unpinned",
    "graph": "graph planner",
}
# Points by which the graph planner may be behind any chain.
BEHIND = 0.01


@dataclasses.dataclass
class Row:
    """One model at one budget: what each solver reached."""

    model: str
    share: int
    budget: int
    bound: float  # per cent
    overheads: dict[str, float | None]  # per cent, by solver; None: no plan
    least: dict[str, int]  # budgets, by solver
    verdicts: dict[str, str]
    seconds: dict[str, float]

    def complaints(self) -> Iterator[str]:
        name = f"{self.model} at {self.share} %"
        for solver, verdict in self.verdicts.items():
            if verdict != "valid":
                yield f"{name}, {solver}: ebbtide check says {verdict}"
        graph = self.overheads["graph"]
        for solver, overhead in self.overheads.items():
            if overhead is None:
                continue
            if graph is None:
                yield f"{name}: the graph planner has no plan, {solver} has one"
            elif overhead < graph - BEHIND:
                yield f"{name}: {solver} {overhead:.3f}, the graph planner {graph:.3f}"


def measure(model: str, shares: list[int], seconds: float) -> Iterator[Row]:
    trace = recorded.trace_of(model)
    words = [str(share) for share in shares]
    facts = json.loads(recorded.call(recorded.BUDGETS, trace, *words))
    for share, budget in zip(shares, facts["budgets"], strict=True):
        row = Row(model, share, budget, 0, {}, {}, {}, {})
        for solver in SOLVERS:
            fill(row, solver, trace, facts["time"], seconds)
        found = [number(overhead, 2) for overhead in row.overheads.values()]
        harness.progress(f"{model} at {share} %: {', '.join(found)}")
        yield row


def fill(row: Row, solver: str, trace: Path, base: float, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "plan.json"
        more = ("--solver", solver, "-o", out)
        found = recorded.plan(trace, row.budget, seconds, *more)
        row.least[solver] = found["least_budget"]
        row.seconds[solver] = found["plan_seconds"]
        row.overheads[solver] = None
        if not found["feasible"]:
            return
        row.verdicts[solver] = recorded.verdict(trace, out)
    row.overheads[solver] = 100 * (found["time"] / base - 1)
    row.bound = max(row.bound, 100 * (found["lower_bound_time"] / base - 1))


def show(rows: list[Row]) -> str:
    header = ["model", "activations %", "budget MiB", *SOLVERS.values(), "bound"]
    body = []
    for row in rows:
        cells = [
            number(overhead, 2) or f"from {mib(row.least[solver])}"
            for solver, overhead in row.overheads.items()
        ]
        name = [row.model, str(row.share), mib(row.budget)]
        body.append([*name, *cells, f"{row.bound:.2f}"])
    return harness.table([header, *body])


def main() -> int:
    args = harness.bench_parser(__doc__, "one small job at one budget").parse_args()
    try:
        rows: list[Row] = []
        for model in ["gpt"] if args.quick else MODELS:
            shares = [50] if args.quick else SHARES
            rows += measure(model, shares, SECONDS / 5 if args.quick else SECONDS)
    except harness.JobError as error:
        print(f"bench blocks: {error}", file=sys.stderr)
        return 1
    values = [dataclasses.asdict(row) for row in rows]
    harness.report(args, "blocks", SEED, values, show(rows))
    complaints = [text for row in rows for text in row.complaints()]
    return harness.verdict("blocks", complaints, args.check)


if __name__ == "__main__":
    sys.exit(main())
