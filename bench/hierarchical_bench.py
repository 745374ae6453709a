"""Three ways to plan one graph, and how they grow: `./dev bench hierarchical`.

Synthetic networks of growing size (tests/planner/research_graphs.h), each planned
within the same time by the graph search, by the hierarchical solver (after HiRemate)
and, where it accepts the size, by the exact 0/1 program (after Checkmate), which
begins with a plan of the search and looks for better ones. Overheads
are per cent of the step that keeps everything; a gap is the distance, in points, from
the best proven bound of the row's network. Every plan is judged by `ebbtide check`.
"""

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
import planner_bench

SEED = 1
SECONDS = 10
# The program that solves the ILP looks at the clock between its steps only.
LATE = 20
SOLVERS = ("graph", "hierarchical", "checkmate")
# Points by which the hierarchical solver may be behind the graph search on networks
# of equal layers; on others it is the rival whose losses are published.
BEHIND = 0.3
NO = 1  # exit status: infeasible
WRONG = 2  # exit status: refused


@dataclasses.dataclass(frozen=True)
class Case:
    """One network at one budget."""

    graph: str
    layers: int
    budget: int  # per cent of the unmanaged peak
    equal_layers: bool = True

    @property
    def name(self) -> str:
        return f"{self.graph} {self.layers} at {self.budget} %"


CASES = [
    Case("unet", 3, 50, equal_layers=False),
    Case("unet", 5, 40, equal_layers=False),
    Case("gpts", 2, 80, equal_layers=False),
    Case("random", 60, 80, equal_layers=False),
    Case("random", 300, 80, equal_layers=False),
    Case("gptf", 32, 35),
    Case("gpts", 12, 50),
    Case("encdec", 12, 35, equal_layers=False),
    Case("gpts", 48, 50),
    Case("gpts", 48, 20),
    Case("gpts", 96, 50),
    Case("random", 3000, 80, equal_layers=False),
    Case("gpts", 357, 50),
]
QUICK = [CASES[i] for i in (0, 6)]


@dataclasses.dataclass
class Row:
    """The result of one solver in one case."""

    case: Case
    solver: str
    ops: int
    feasible: bool
    seconds: float
    # Per cent, 0 where there is no plan; checkmate's bound is over its own kind.
    overhead: float
    bound: float
    peak: float  # share of the budget


def refused(done: subprocess.CompletedProcess[str]) -> bool:
    return done.returncode == WRONG and "expected at most" in done.stderr


def solve(profile: Path, budget: int, solver: str, out: Path) -> dict[str, Any] | None:
    """The plan; None where the solver does not take a graph of this size."""
    words: list[str | Path] = [
        "plan",
        profile,
        "--budget",
        f"{budget}B",
        "--json",
        "--solver",
        solver,
    ]
    words += ["--time-limit", str(SECONDS), "-o", out]
    done = subprocess.run(
        [harness.EBBTIDE, *words], capture_output=True, text=True, check=False
    )
    if refused(done):
        return None
    if done.returncode not in (0, NO):
        raise harness.JobError(f"{solver}: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    if found["feasible"]:
        planner_bench.call(harness.EBBTIDE, "check", profile, out)
    return found


def measure(case: Case, folder: Path) -> Iterator[Row]:
    profile, out = folder / "profile.json", folder / "plan.json"
    layers = str(case.layers)
    profile.write_text(
        planner_bench.call(planner_bench.GRAPHS, case.graph, layers, "0")
    )
    keep = planner_bench.plan(profile, 1 << 60, "--solver", "keep")
    ops = len(json.loads(profile.read_text())["ops"])
    budget = int(keep["peak"]) * case.budget // 100
    base = float(keep["time"])
    for solver in SOLVERS:
        found = solve(profile, budget, solver, out)
        if found is None:
            continue
        yield Row(
            case,
            solver,
            ops,
            found["feasible"],
            found["plan_seconds"],
            100 * (float(found["time"] or base) / base - 1),
            100 * (float(found["lower_bound_time"] or base) / base - 1),
            100 * float(found["peak"] or 0) / budget,
        )


def best_bound(rows: list[Row], case: Case) -> float:
    """The best bound on any plan; that of the exact program is over its own kind
    only."""
    return max(r.bound for r in rows if r.case == case and r.solver != "checkmate")


def show(rows: list[Row]) -> str:
    header = ["network", "ops", "solver", "overhead %", "gap", "peak %", "s"]
    body = []
    for row in rows:
        cells = ["no plan", "", ""]
        if row.feasible:
            gap = row.overhead - best_bound(rows, row.case)
            cells = [f"{row.overhead:.3f}", f"{gap:.3f}", f"{row.peak:.1f}"]
        name = [row.case.name, str(row.ops), row.solver]
        body.append([*name, *cells, f"{row.seconds:.1f}"])
    return harness.table([header, *body])


def complaints(rows: list[Row]) -> Iterator[str]:
    direct = {row.case: row for row in rows if row.solver == "graph"}
    for row in rows:
        name = f"{row.case.name}, {row.solver}"
        late = LATE if row.solver == "checkmate" else 1
        if row.seconds > SECONDS + late:
            yield f"{name}: {row.seconds:.1f} s, the limit is {SECONDS} s"
        if row.solver != "hierarchical":
            continue
        if not row.feasible:
            yield f"{name}: no plan"
        elif row.case.equal_layers and direct[row.case].feasible:
            behind = row.overhead - direct[row.case].overhead
            if behind > BEHIND:
                yield f"{name}: {behind:.3f} points behind the graph search"


def parse_arguments() -> argparse.Namespace:
    p = harness.bench_parser(__doc__, "two of the networks")
    return p.parse_args()


def main() -> int:
    args = parse_arguments()
    rows: list[Row] = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            for case in QUICK if args.quick else CASES:
                for row in measure(case, Path(folder)):
                    done = f"{row.overhead:.3f}" if row.feasible else "no plan"
                    harness.progress(f"{case.name}, {row.solver}: {done}")
                    rows.append(row)
    except harness.JobError as error:
        print(f"bench hierarchical: {error}", file=sys.stderr)
        return 1
    values = [dataclasses.asdict(row) for row in rows]
    harness.report(args, "hierarchical", SEED, values, show(rows))
    return harness.verdict("hierarchical", list(complaints(rows)), args.check)


if __name__ == "__main__":
    sys.exit(main())
