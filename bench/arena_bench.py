"""Cost of planned addresses beside the model of native: `./dev bench arena`.

bench/arena_speed.cc times batches of 64 requests, then of 64 releases, on one random
step of 2,048 blocks that a plan is laid out for, and of a page arena on demand between
65,536 holes. The same operations are counted in instructions by callgrind, which the
rest of the machine does not change. The model keeps what PyTorch's allocator keeps in
the same structures; it records no history and takes no lock.
"""

import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Iterator

import harness

PROGRAM = harness.ROOT / "build" / "release" / "bench" / "arena_speed"
SEED = 10  # of arena_speed.cc
MODES = {
    "planned": "planned arena",
    "native": "model of native",
    "demand": "by demand, 65,536 holes",
    "native-holes": "model of native, 65,536 holes",
}
KINDS = ("allocate", "free")
# Nanoseconds that are asked for: p50 and p99.
ASKED = {"planned": (30.0, 100.0), "demand": (300.0, 300.0)}
BATCH = 64
ABOUT = """\
Nanoseconds per operation, of batches of 64; the least of 5 runs. Instructions per \
operation by callgrind. In a step that is as planned on one stream no operation makes \
a call of the device (tests/data/arena_steady.txt)."""


@dataclasses.dataclass
class Row:
    """One kind of operation of one allocator."""

    mode: str
    kind: str
    p50: float
    p99: float
    instructions: float

    def complaints(self) -> Iterator[str]:
        for name, asked in zip(("p50", "p99"), ASKED.get(self.mode, ()), strict=False):
            if getattr(self, name) > asked:
                yield (
                    f"{MODES[self.mode]}, {self.kind}: {name} "
                    f"{getattr(self, name):.0f} ns, {asked:.0f} asked"
                )


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise harness.JobError(f"{' '.join(command)}: {done.stderr[-1000:]}")
    return done


def instructions(mode: str, kind: str) -> float:
    """Between two runs of which one has 64 batches more."""
    counts = []
    for batches in (32, 96):
        done = run(
            [
                *("valgrind", "--tool=callgrind", "--collect-atstart=no"),
                "--callgrind-out-file=/dev/null",
                *(str(PROGRAM), mode, str(batches), kind),
            ]
        )
        found = re.search(r"Collected : (\d+)", done.stderr)
        if found is None:
            raise harness.JobError(f"callgrind said: {done.stderr[-1000:]}")
        counts.append(int(found[1]))
    return (counts[1] - counts[0]) / (64 * BATCH)


def measure(mode: str, batches: int) -> list[Row]:
    runs = [
        json.loads(run([str(PROGRAM), mode, str(batches)]).stdout) for _ in range(5)
    ]
    return [
        Row(
            mode,
            kind,
            min(each[kind][0] for each in runs),
            min(each[kind][1] for each in runs),
            instructions(mode, kind),
        )
        for kind in KINDS
    ]


def show(rows: list[Row]) -> str:
    header = ["allocator", "operation", "p50 ns", "p99 ns", "instructions"]
    body = [
        [
            MODES[row.mode],
            row.kind,
            f"{row.p50:.0f}",
            f"{row.p99:.0f}",
            f"{row.instructions:.0f}",
        ]
        for row in rows
    ]
    return f"{harness.table([header, *body])}\n\n{ABOUT}"


def main() -> int:
    args = harness.bench_parser(__doc__, "fewer batches").parse_args()
    rows = []
    try:
        for mode in MODES:
            rows += measure(mode, 2_000 if args.quick else 20_000)
            harness.progress(mode)
    except harness.JobError as error:
        print(f"bench arena: {error}", file=sys.stderr)
        return 1
    values = [dataclasses.asdict(row) for row in rows]
    harness.report(args, "arena", SEED, values, show(rows), "Planned arena, per call")
    complaints = [line for row in rows for line in row.complaints()]
    return harness.verdict("arena", complaints, args.check)


if __name__ == "__main__":
    sys.exit(main())
