"""Allocators' policies on allocation traces: `./dev bench replay`.

The traces of tests/data/traces, and of one step of our jobs on the simulated device
within two budgets (replay_child.py), each repeated on one allocator's state: memory
that is reserved at the end of steps 1, 3 and 100 over the most bytes that are live at
once. The rivals are our models of their policies (allocator/replay) on a driver that
counts.
"""

import dataclasses
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import harness

TRACES = harness.ROOT / "tests" / "data" / "traces"
POLICIES = ["plan", "expandable", "native", "firstfit", "bestfit", "rmm-pool"]
STEPS = [1, 3, 100]
CAPACITY = 1_048_576  # capacity for the hard traces
# Their sizes are units; the pools of PyTorch and RMM are made for bytes.
PLAIN = ["plan", "firstfit", "bestfit"]
DEVICE = harness.ROOT / "tests" / "cudasim"
CHILD = harness.ROOT / "bench" / "replay_child.py"
SETTINGS = {
    "PYTHONPATH": os.pathsep.join(map(str, (DEVICE, harness.JOBS))),
    "CUBLAS_WORKSPACE_CONFIG": ":16:8",
    "CUBLASLT_WORKSPACE_SIZE": "64",
    "EBBTIDE_LOG": "off",
}
# Arguments, and how much of what autograd holds has to go.
JOBS = {
    "gpt": (["--size", "full"], (0.2, 0.4)),
    "resnet": (["--size", "full"], (0.1, 0.2)),
    "unet": (["--size", "full"], (0.1, 0.2)),
    "encdec": (["--size", "full"], (0.2, 0.4)),
    "lstm": (["--size", "full"], (0.2, 0.4)),
}
PLANNED_STEPS = 14  # after which a plan is followed
OFFLOADED = (30, 60, 100)  # per cent of large tensors
SEED = 10
RANDOM = {20_000: 1.0, 100_000: 10.0}  # buffers, and the seconds that are asked
WASTE = 1.0  # per cent, of a plan on a recorded step
SECONDS = 10.0


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
    asked_seconds: float = SECONDS

    def complaints(self) -> Iterator[str]:
        if self.policy != "plan":
            return
        if self.seconds > self.asked_seconds:
            yield f"{self.trace}: {self.seconds:.1f} s, {self.asked_seconds} asked"
        if self.trace.startswith("minimalloc"):
            if self.height > CAPACITY:
                yield f"{self.trace}: {self.height}, {CAPACITY} asked"
        elif self.trace.startswith("random"):
            return
        elif self.waste[-1] > WASTE:
            yield f"{self.trace}: {self.waste[-1]:.2f} % over the bound, {WASTE} asked"


def train(
    snapshot: Path, steps: int, share: int, job: str, **environment: str
) -> dict[str, int]:
    """The bytes that a job reserved and had live at most; raises JobError where it
    failed."""
    done = subprocess.run(
        [
            *(str(harness.PYTHON), str(CHILD), str(snapshot), str(steps), str(share)),
            *(job, *JOBS[job][0]),
        ],
        env={**harness.clean_environment(), **SETTINGS, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise harness.JobError(f"{job}: {done.stderr[-1000:]}")
    printed: dict[str, int] = json.loads(done.stdout)
    return printed


def record(folder: Path, quick: bool) -> Iterator[Path]:
    """Snapshots of a step of each job, within budgets; and of offloading ones."""
    report = folder / "report.json"
    for job in ["gpt"] if quick else JOBS:
        watched = train(
            *(folder / "whole.pickle", 4, 0, job),
            EBBTIDE_RECORD="/dev/null",
            EBBTIDE_REPORT=str(report),
        )
        saved = json.loads(report.read_text())["peak_activations"]
        for share in JOBS[job][1]:
            budget = int(watched["reserved"] - share * saved) >> 20
            path = folder / f"{job} within {budget} MiB.pickle"
            train(path, PLANNED_STEPS, 0, job, EBBTIDE_BUDGET=f"{budget}MiB")
            yield path
    for share in OFFLOADED[-1:] if quick else OFFLOADED:
        path = folder / f"gpt, offload {share} %.pickle"
        train(path, 4, share, "gpt")
        yield path


def random_trace(folder: Path, buffers: int) -> Path:
    chance = random.Random(SEED)
    path = folder / f"random {buffers}.csv"
    with path.open("w") as file:
        file.write("id,lower,upper,size\n")
        for number in range(buffers):
            begin = chance.randrange(2 * buffers)
            end = begin + 1 + chance.randrange(buffers // 10)
            file.write(f"{number},{begin},{end},{512 * chance.randint(1, 4096)}\n")
    return path


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
    return harness.table([header, *body])


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
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for path in record(folder, args.quick):
                rows += [measure(path, policy, steps) for policy in POLICIES]
                harness.progress(path.stem)
            for buffers, seconds in RANDOM.items():
                row = measure(random_trace(folder, buffers), "plan", [1])
                waste = row.waste * len(steps)
                rows.append(
                    dataclasses.replace(row, waste=waste, asked_seconds=seconds)
                )
    except harness.JobError as error:
        print(f"bench replay: {error}", file=sys.stderr)
        return 1
    values = [dataclasses.asdict(row) for row in rows]
    harness.report(args, "replay", SEED, values, show(rows, steps))
    complaints = [line for row in rows for line in row.complaints()]
    return harness.verdict("replay", complaints, args.check)


if __name__ == "__main__":
    sys.exit(main())
