"""Quality of plans and of bounds on them: `./dev bench planner`.

Synthetic networks (tests/planner/research_graphs.h), each planned within 5 s by the
program, beside the figures of an earlier study of the same search, and recorded steps
of real models (recorded.py). Overheads and bounds are per cent of the step that keeps
everything; a gap is the difference of the two, in points. Every plan is judged by
`ebbtide check`.
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
import recorded

GRAPHS = harness.ROOT / "build" / "release" / "bench" / "research_graph"
SEED = 1
SECONDS = 5
# Points: what a plan may lose on the study, what rounding makes of its bounds,
# and the gap that a row may have unless it says otherwise.
WORSE = 0.02
ROUNDING = 0.005
GAP = 0.15


@dataclasses.dataclass(frozen=True)
class Case:
    """One network at one budget, and what the study reached there."""

    graph: str
    layers: int
    budget: int  # per cent of the unmanaged peak
    overhead: float
    bound: float
    gap: float = GAP  # allowed
    optimum: float | None = None  # where it is known
    ratio: float = 0  # ratio of the lanes


CASES = [
    Case("gpts", 12, 70, 2.64, 2.61),
    Case("gpts", 12, 50, 6.53, 6.40),
    Case("gpts", 12, 35, 15.40, 15.35),
    Case("gpts", 12, 25, 41.12, 39.65, gap=(41.0 - 39.65) / 2),
    Case("gpts", 48, 70, 2.29, 2.29),
    Case("gpts", 48, 50, 4.95, 4.93),
    Case("gpts", 48, 30, 10.21, 10.20),
    Case("gpts", 48, 20, 18.39, 18.36),
    Case("gpts", 48, 15, 22.46, 22.44),
    Case("gpts", 48, 10, 27.55, 27.52),
    Case("gptf", 32, 70, 0.39, 0.39),
    Case("gptf", 32, 50, 6.06, 6.03),
    Case("gptf", 32, 35, 12.09, 12.04),
    Case("gptf", 32, 25, 16.14, 16.04),
    Case("gptf", 32, 15, 20.33, 20.31),
    Case("encdec", 6, 50, 5.94, 5.89),
    Case("encdec", 12, 35, 9.22, 9.18),
    Case("unet", 2, 50, 10.92, 9.82, optimum=10.916),
    Case("unet", 2, 40, 17.15, 16.99, optimum=17.146),
    Case("unet", 3, 50, 8.94, 8.17, optimum=8.941),
    Case("unet", 3, 40, 13.77, 13.53, optimum=13.773),
    Case("unet", 4, 50, 7.30, 7.30, optimum=7.30),
    Case("unet", 5, 40, 9.71, 9.57),
    Case("gptv", 2, 50, 7.20, 7.18, optimum=7.197),
    Case("gptv", 2, 40, 14.31, 11.47, (14.305 - 11.47) / 2, 14.305),
    Case("gptv", 3, 50, 6.34, 6.33),
    Case("gptv", 3, 40, 8.25, 8.25),
    Case("gpts", 12, 35, 4.43, 3.96, ratio=0.3),
    Case("gpts", 24, 30, 4.03, 3.94, ratio=0.3),
    Case("gpts", 48, 20, 5.63, 5.28, ratio=0.3),
    Case("gptf", 32, 20, 6.53, 6.37, ratio=0.3),
    Case("unet", 4, 50, 2.56, 2.25, optimum=2.557, ratio=0.3),
    Case("encdec", 6, 30, 4.37, 4.25, ratio=0.3),
    Case("gpts", 24, 20, 2.08, 1.89, ratio=0.6),
]
QUICK = [CASES[i] for i in (0, 7, 21, 25, 31)]


@dataclasses.dataclass
class Row:
    """The planner's result in one case."""

    case: Case
    overhead: float
    bound: float
    seconds: float

    @property
    def name(self) -> str:
        lanes = f", lanes {self.case.ratio}" if self.case.ratio else ""
        return f"{self.case.graph} {self.case.layers} at {self.case.budget} %{lanes}"

    @property
    def gap(self) -> float:
        return self.overhead - self.bound

    def complaints(self) -> Iterator[str]:
        case = self.case
        if self.overhead > case.overhead + WORSE:
            yield f"{self.name}: {self.overhead:.3f}, the study has {case.overhead}"
        if self.bound < case.bound - ROUNDING:
            yield f"{self.name}: bound {self.bound:.3f}, the study has {case.bound}"
        if self.gap > case.gap:
            yield f"{self.name}: gap {self.gap:.3f}, allowed {case.gap:.3f}"
        if case.optimum is None:
            return
        if self.overhead > case.optimum + ROUNDING:
            yield f"{self.name}: {self.overhead:.3f}, the optimum is {case.optimum}"
        if self.bound > case.optimum + ROUNDING:
            yield f"{self.name}: bound {self.bound:.3f} above {case.optimum}"


def call(*words: str | Path) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        command = " ".join(str(word) for word in words)
        raise harness.JobError(f"{command}: {done.stderr.strip()}")
    return done.stdout


def plan(profile: Path, budget: int, *more: str | Path) -> dict[str, Any]:
    words = ["plan", profile, "--budget", f"{budget}B", "--json", *more]
    found: dict[str, Any] = json.loads(call(harness.EBBTIDE, *words))
    return found


def measure(case: Case, folder: Path) -> Row:
    profile, out = folder / "profile.json", folder / "plan.json"
    profile.write_text(call(GRAPHS, case.graph, str(case.layers), str(case.ratio)))
    keep = plan(profile, 1 << 60, "--solver", "keep")
    budget = int(keep["peak"]) * case.budget // 100
    limit = ["--time-limit", str(SECONDS), "--solver", "graph"]
    found = plan(profile, budget, *limit, "-o", out)
    call(harness.EBBTIDE, "check", profile, out)

    def percent(time: float) -> float:
        return 100 * (time / float(keep["time"]) - 1)

    bound = percent(found["lower_bound_time"])
    return Row(case, percent(found["time"]), bound, found["plan_seconds"])


def show(rows: list[Row]) -> str:
    header = ["network", "overhead %", "bound %", "s", "gap"]
    header += ["study %", "its bound %"]
    body = [
        [
            row.name,
            f"{row.overhead:.3f}",
            f"{row.bound:.3f}",
            f"{row.seconds:.1f}",
            f"{row.gap:.3f}",
            f"{row.case.overhead:.2f}",
            f"{row.case.bound:.2f}",
        ]
        for row in rows
    ]
    return harness.table([header, *body])


def parse_arguments() -> argparse.Namespace:
    p = harness.bench_parser(__doc__, "five of the networks, one recorded model")
    return p.parse_args()


def studied(cases: list[Case]) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            row = measure(case, Path(folder))
            harness.progress(f"{row.name}: {row.overhead:.3f}, {row.bound:.3f}")
            yield row


def main() -> int:
    args = parse_arguments()
    try:
        rows = list(studied(QUICK if args.quick else CASES))
        real = list(recorded.rows(args.quick))
    except harness.JobError as error:
        print(f"bench planner: {error}", file=sys.stderr)
        return 1
    values = [dataclasses.asdict(row) for row in rows]
    values += [dataclasses.asdict(row) for row in real]
    body = f"{show(rows)}\n\n{recorded.show(real)}"
    harness.report(args, "planner", SEED, values, body)
    complaints = [text for row in rows for text in row.complaints()]
    complaints += [text for row in real for text in row.complaints()]
    return harness.verdict("planner", complaints, args.check)


if __name__ == "__main__":
    sys.exit(main())
