"""Allocators' policies on allocation traces: `./dev bench replay`.

The traces of tests/data/traces, each repeated on one allocator's state: memory that is
reserved at the end of steps 1, 3 and 100 over the most bytes that are live at once. The
rivals are our models of their policies (allocator/replay) on a driver that counts.
"""

import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import harness

TRACES = harness.ROOT / "tests" / "data" / "traces"
POLICIES = ["plan", "expandable", "native", "firstfit", "bestfit", "rmm-pool"]
STEPS = [1, 3, 100]
CAPACITY = 1_048_576  # of the hard traces
# Their sizes are units; the pools of PyTorch and RMM are made for bytes.
PLAIN = ["plan", "firstfit", "bestfit"]
WASTE = 1.0  # per cent, of a plan on a recorded step
SECONDS = 10.0
ABOUT = """\
Waste in per cent over the bound, the most bytes that are live at once. Calls: into \
the driver in the last step. Sizes of the minimalloc traces are units of their \
authors, so only policies without sizes of their own are shown for them; each is known \
to fit in 1,048,576. A plan is the same in every step. native and expandable are held \
to PyTorch's own allocator by a test, rmm-pool is not held to RMM."""


@dataclasses.dataclass
class Row:
    """One policy on one trace."""

    trace: str
    policy: str
    bound: int
    height: int
    waste: list[float]  # by STEPS, per cent
    calls: int
    seconds: float

    def complaints(self) -> Iterator[str]:
        if self.policy != "plan":
            return
        if self.trace.startswith("minimalloc"):
            if self.height > CAPACITY:
                yield f"{self.trace}: {self.height}, {CAPACITY} asked"
            if self.seconds > SECONDS:
                yield f"{self.trace}: {self.seconds:.1f} s, {SECONDS} asked"
        elif self.waste[-1] > WASTE:
            yield f"{self.trace}: {self.waste[-1]:.2f} % over the bound, {WASTE} asked"


def measure(path: Path, policy: str, steps: list[int]) -> Row:
    command = [str(harness.EBBTIDE), "replay", str(path), "--policy", policy]
    start = time.perf_counter()
    done = subprocess.run(
        [*command, "--steps", str(steps[-1]), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        raise harness.JobError(done.stderr)
    found = json.loads(done.stdout)
    return Row(
        path.stem.removesuffix(".1048576"),
        policy,
        found["lower_bound"],
        found["height"],
        [found["steps"][step - 1]["waste"] for step in steps],
        found["steps"][-1]["driver_calls"],
        seconds,
    )


def show(rows: list[Row], steps: list[int]) -> str:
    header = ["trace", "policy", "bound", "reserved"]
    header = [*header, *(f"step {step} +%" for step in steps), "calls", "s"]
    body = [
        [
            row.trace,
            row.policy,
            str(row.bound),
            str(row.height),
            *(f"{waste:.2f}" for waste in row.waste),
            str(row.calls),
            f"{row.seconds:.2f}",
        ]
        for row in rows
    ]
    return f"{harness.table([header, *body])}\n\n{ABOUT}"


def main() -> int:
    args = harness.bench_parser(__doc__, "recorded steps, 3 times").parse_args()
    steps = STEPS[:2] if args.quick else STEPS
    rows = []
    try:
        for path in sorted(TRACES.glob("*.csv")):
            hard = path.stem.startswith("minimalloc")
            if hard and args.quick:
                continue
            for policy in PLAIN if hard else POLICIES:
                rows.append(measure(path, policy, steps))
            harness.progress(path.stem)
    except harness.JobError as error:
        print(f"bench replay: {error}", file=sys.stderr)
        return 1
    values = [dataclasses.asdict(row) for row in rows]
    body = show(rows, steps)
    harness.report(args, "replay", 0, values, body, "Allocation traces")
    complaints = [line for row in rows for line in row.complaints()]
    return harness.verdict("replay", complaints, args.check)


if __name__ == "__main__":
    sys.exit(main())
