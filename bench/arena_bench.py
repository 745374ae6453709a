"""Cost of requests under an arena, planned and by demand: `./dev bench arena`.

Batches of 64 requests, then of 64 releases, are counted in instructions by callgrind,
which the rest of the machine does not change. `--times` adds nanoseconds.

bench/arena_speed.cc has one random step of 2,048 blocks that a plan is laid out for,
and a page arena by demand between 65,536 holes. The model keeps what PyTorch's
allocator keeps in the same structures; it records no history and takes no lock.

bench/arena_device_speed.cc does the same step with PyTorch's own CUDA allocator on the
simulated device, and with ebbtide's in its place: books, statistics, streams, budget.
"""

import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import callgrind
import harness

FOLDER = harness.ROOT / "build" / "release" / "bench"
SEED = 10  # seed of arena_steps.h
MODELS = {
    "planned": "planned arena",
    "native": "model of native",
    "demand": "by demand, 65,536 holes",
    "native-holes": "model of native, 65,536 holes",
}
DEVICE = {
    "native": "PyTorch's on the device",
    "demand": "device arena by demand",
    "planned": "device arena, planned",
}
PROGRAMS = {"arena_speed": MODELS, "arena_device_speed": DEVICE}
KINDS = ("allocate", "free")
BATCH = 64
# Fits into valgrind's address space; no bytes move.
SIMULATED = {"CUDASIM_ADDRESSES": "16G", "CUDASIM_MEM": "1G", "CUDASIM_BYTES": "0"}
MEMORY = ("cuMem", "cudaMalloc", "cudaFree", "cudaHost")
# Instructions of the planned arena at 2376def, and how much more there may be.
PLANNED = {"allocate": 193, "free": 140}
MORE = 1.2
# Bounds the device arena by demand, per request and release, beside PyTorch's.
MOST_DEMAND = 2.0


@dataclasses.dataclass
class Row:
    """One kind of operation of one allocator."""

    allocator: str
    kind: str
    instructions: float
    calls: int | None = None  # into the driver for memory
    p50: float | None = None  # nanoseconds
    p99: float | None = None


def complaints(rows: list[Row]) -> Iterator[str]:
    found = {(row.allocator, row.kind): row for row in rows}
    for kind, before in PLANNED.items():
        now = found[MODELS["planned"], kind].instructions
        if now > MORE * before:
            yield f"planned arena, {kind}: {now:.0f} instructions, {before} before"
    for kind in KINDS:
        calls = found[DEVICE["planned"], kind].calls
        if calls != 0:
            yield f"device arena, planned: {calls} calls into the driver for memory"

    native, demand = (per_request(rows, DEVICE[mode]) for mode in ("native", "demand"))
    if demand > MOST_DEMAND * native:
        yield f"by demand: {demand:.0f} instructions per request, PyTorch {native:.0f}"


def per_request(rows: list[Row], allocator: str) -> float:
    """Instructions of a request and its release."""
    return sum(row.instructions for row in rows if row.allocator == allocator)


def run(
    command: list[str], environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(environment or {})},
    )
    if done.returncode != 0:
        raise harness.JobError(f"{' '.join(command)}: {done.stderr[-1000:]}")
    return done


def under_callgrind(program: Path, arguments: list[str], output: Path) -> list[str]:
    return [
        *("valgrind", "--tool=callgrind", "--collect-atstart=no"),
        *(f"--callgrind-out-file={output}", str(program), *arguments),
    ]


def instructions(mode: str, kind: str) -> float:
    """Between two runs of which one has 64 batches more."""
    counts = []
    for batches in (32, 96):
        arguments = [mode, str(batches), kind]
        done = run(
            under_callgrind(FOLDER / "arena_speed", arguments, Path("/dev/null"))
        )
        found = re.search(r"Collected : (\d+)", done.stderr)
        if found is None:
            raise harness.JobError(f"callgrind said: {done.stderr[-1000:]}")
        counts.append(int(found[1]))
    return (counts[1] - counts[0]) / (64 * BATCH)


def device_instructions(mode: str) -> tuple[dict[str, float], int]:
    """By kind, and the calls into the driver for memory."""
    batches = 64
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "counts"
        arguments = [mode, str(batches), "count"]
        program = FOLDER / "arena_device_speed"
        done = run(under_callgrind(program, arguments, output), SIMULATED)
        counts = {
            kind: sum(callgrind.counted(file).values())
            - callgrind.beneath(file, "cudasim_")
            for kind, file in callgrind.dumps(output, "").items()
        }
    calls = json.loads(done.stdout)
    memory = sum(n for name, n in calls.items() if name.startswith(MEMORY))
    return {kind: counts[kind] / (batches * BATCH) for kind in KINDS}, memory


def add_times(rows: list[Row], program: str, mode: str, batches: int) -> None:
    """Quantiles of each kind: the least of 5 runs."""
    command = [str(FOLDER / program), mode, str(batches)]
    runs = [json.loads(run(command, SIMULATED).stdout) for _ in range(5)]
    for row in rows:
        row.p50, row.p99 = (min(each[row.kind][i] for each in runs) for i in range(2))


def measure(batches: int | None) -> Iterator[Row]:
    """`batches` of each are timed, too."""
    for program, modes in PROGRAMS.items():
        for mode, name in modes.items():
            if modes is DEVICE:
                counts, calls = device_instructions(mode)
                rows = [Row(name, kind, counts[kind], calls) for kind in KINDS]
            else:
                rows = [Row(name, kind, instructions(mode, kind)) for kind in KINDS]
            if batches is not None:
                add_times(rows, program, mode, batches)
            harness.progress(name)
            yield from rows


def show(rows: list[Row]) -> str:
    has_times = rows[0].p50 is not None
    header = ["allocator", "operation", "instructions", "calls"]
    body = [
        [
            *(row.allocator, row.kind, f"{row.instructions:.0f}"),
            "" if row.calls is None else str(row.calls),
            *([f"{row.p50:.0f}", f"{row.p99:.0f}"] if has_times else []),
        ]
        for row in rows
    ]
    if has_times:
        header += ["p50 ns", "p99 ns"]
    native, demand, planned = (per_request(rows, name) for name in DEVICE.values())
    beside = (
        f"On the device, a request and its release take {demand / native:.2f} times "
        f"PyTorch's instructions by demand, and {planned / native:.2f} times planned."
    )
    return f"{harness.table([header, *body])}\n\n{beside}"


def main() -> int:
    parser = harness.bench_parser(__doc__, "fewer batches are timed")
    parser.add_argument("--times", action="store_true", help="nanoseconds, too")
    args = parser.parse_args()
    batches = (1_984 if args.quick else 20_000) if args.times else None
    try:
        rows = list(measure(batches))
    except harness.JobError as error:
        print(f"bench arena: {error}", file=sys.stderr)
        return 1
    values = [dataclasses.asdict(row) for row in rows]
    harness.report(args, "arena", SEED, values, show(rows))
    return harness.verdict("arena", list(complaints(rows)), args.check)


if __name__ == "__main__":
    sys.exit(main())
