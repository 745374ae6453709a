"""Host cost of a step that follows a plan on CUDA: `./dev bench active`.

Counted by valgrind's callgrind on the simulated device (tests/cudasim), all threads,
for a GPT and for the small ops of bench/overhead_child.py, without what is beneath
calls into the simulator, which stands for the driver. The interpreter's instructions
above the unmanaged run are left out, too (bench/callgrind.py says why).

step         what the step takes above the unmanaged one, beside recomputation, as a
             share of the unmanaged step; where it copies, beside the copies.
op           a recomputed op, with what finds its inputs and keeps what it makes,
             beside the first dispatch of the same ops, autograd's part of it included.
out, back    instructions of a tensor that is copied out, and of one that comes back.

Figures are held against MOST, and published where they do not hold as well. --names
lists the functions of ebbtide that cost a step most.
"""

import concurrent.futures
import dataclasses
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import callgrind
import harness
from callgraph import Graph
from callgrind import Counts

CHILD = harness.ROOT / "bench" / "active_child.py"
FACE = harness.ROOT / "tests" / "cudasim"
# The same code as in the package, with its symbols.
CORE = harness.ROOT / "build" / "release" / "hooks" / "libebbtide_cuda.so"
SEED = 1
STEPS = 3  # steps of active_child.py
MODELS = ("gpt", "small")
SHARE = 0.8  # budget as a share of what the model reserves
WAYS: dict[str, dict[str, str]] = {
    "idle": {},
    "recomputes": {"EBBTIDE_OFFLOAD_DIR": "none"},
    "copies": {"EBBTIDE_RECOMPUTE": "0"},
}
STATES = {"idle": ["idle"], "recomputes": ["active"], "copies": ["steady"]}
MOST = {"idle": 0.01, "recomputes": 0.10}
MOST_OP, MOST_COPY = 1.3, 4000

RECOVER = ("ebbtide::Recover(",)
OUT = ("ebbtide::Residency::Spill(", "ebbtide::Residency::FreeWritten(")
BACK = ("ebbtide::Residency::Prefetch(", "ebbtide::Residency::Complete(")


@dataclasses.dataclass
class Taken:
    """The counts of a child, and its output."""

    counts: Counts
    graph: Graph
    simulated: int
    said: dict[str, Any]

    @property
    def host(self) -> int:
        return sum(self.counts.values()) - self.simulated

    @property
    def outside(self) -> int:
        """Without the interpreter's, whose count is not the same twice."""
        return callgrind.outside(self.counts) - self.simulated


@dataclasses.dataclass
class Row:
    model: str
    way: str
    instructions: float  # instructions of a step
    step: float = 0
    recomputed: float = 0  # ops of a step
    op: float | None = None
    first: float | None = None
    copies: float = 0  # tensors of a step, both ways
    out: float | None = None
    back: float | None = None

    def complaints(self) -> Iterator[str]:
        where = f"{self.model} {self.way}"
        most = MOST.get(self.way)
        if most is not None and self.step > most:
            yield f"{where}: {self.step:.1%} of a step are more than {most:.0%}"
        if self.op and self.first and self.op > MOST_OP * self.first:
            share = self.op / self.first
            yield f"{where}: an op takes {share:.2f} of its first dispatch"
        for name, spent in (("out", self.out), ("back", self.back)):
            if spent is not None and spent > MOST_COPY:
                yield f"{where}: a copy {name} takes {spent:.0f} instructions"


def run(model: str, way: str, variables: dict[str, str]) -> Taken:
    harness.progress(f"{model} {way}")
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "out"
        environment = {
            "PYTHONPATH": os.fspath(FACE),
            # Valgrind has less address space.
            "CUDASIM_ADDRESSES": "16G",
            "CUDASIM_MEM": "2G",
            # Kernels compute nothing: what they leave there must not look different.
            "CUDASIM_BYTES": "0",
            **variables,
        }
        arguments = [model, str(callgrind.MARKS)]
        said = callgrind.run(CHILD, arguments, environment, output, threads_apart=False)
        file = callgrind.dumps(output, "")["steps"]
        simulated = callgrind.beneath(file, "cudasim_")
        return Taken(callgrind.counted(file), Graph(file, CORE), simulated, said)


def measure(model: str) -> dict[str, Taken]:
    """The unmanaged run and those of WAYS, two at a time."""
    bare = run(model, "unmanaged", {})
    budget = int(SHARE * bare.said["reserved"])
    limits = dict.fromkeys(WAYS, f"cuda={budget}B") | {"idle": "cuda=1GiB"}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        begun = {
            way: pool.submit(run, model, way, {**more, "EBBTIDE_BUDGET": limits[way]})
            for way, more in WAYS.items()
        }
        return {"unmanaged": bare} | {way: f.result() for way, f in begun.items()}


def first_dispatch(again: Graph, bare: Graph) -> float:
    """Mean cost of the ops that `again` alone calls boxed, in the unmanaged step."""
    spent = total = 0.0
    for name, count in (again.boxed() - bare.boxed()).items():
        # The wrapper of an op without a structured kernel has one "_" more.
        names = (name, name.removeprefix("_"))
        found = (bare.beneath(f"at::_ops::{name}::call(") for name in names)
        cost, calls = max(found, key=lambda one: one[1])
        if calls == 0:
            raise harness.JobError(f"no {name} in the unmanaged step")
        spent += count * cost / calls
        total += count
    return spent / total


def rows(model: str, taken: dict[str, Taken]) -> Iterator[Row]:
    bare = taken["unmanaged"]
    yield Row(model, "unmanaged", bare.host / STEPS)
    for way in WAYS:
        found = taken[way]
        extra = found.outside - bare.outside
        row = Row(model, way, (bare.host + extra) / STEPS)
        ops = found.said["recomputed"]
        if ops:
            again, _ = found.graph.beneath(*RECOVER)
            extra -= round(again)
            row.recomputed, row.op = ops / STEPS, again / ops
            row.first = first_dispatch(found.graph, bare.graph)
        copies = found.said["copies"] - bare.said["copies"]
        if way == "copies":
            out, back = (found.graph.beneath(*names)[0] for names in (OUT, BACK))
            extra -= round(out + back)
            row.copies = copies / STEPS
            row.out, row.back = 2 * out / copies, 2 * back / copies
        row.step = extra / bare.host
        yield row


def states(model: str, taken: dict[str, Taken]) -> Iterator[str]:
    for way, wanted in STATES.items():
        found = taken[way].said["states"] or [taken[way].said["state"]]
        if found != wanted:
            yield f"{model} {way}: steps counted in {found}, not in {wanted}"


def show(figures: list[Row]) -> str:
    header = ["model", "way", "instructions a step", "step %", "ops", "op", "first"]
    header += ["op / first", "copies", "out", "back"]

    def number(value: float | None) -> str:
        return f"{value:.0f}" if value else ""

    body = [
        [
            *(row.model, row.way, f"{row.instructions:.0f}", f"{100 * row.step:+.1f}"),
            *(number(x) for x in (row.recomputed, row.op, row.first)),
            f"{row.op / row.first:.2f}" if row.op and row.first else "",
            *(number(x) for x in (row.copies, row.out, row.back)),
        ]
        for row in figures
    ]
    return harness.table([header, *body])


def main() -> int:
    p = harness.bench_parser(__doc__, "the small ops alone")
    p.add_argument("--names", action="store_true", help="list functions of ebbtide")
    arguments = p.parse_args()
    figures: list[Row] = []
    complaints: list[str] = []
    try:
        for model in MODELS[1:] if arguments.quick else MODELS:
            taken = measure(model)
            figures += rows(model, taken)
            complaints += states(model, taken)
            for way in WAYS if arguments.names else ():
                print(model, way, file=sys.stderr)
                for name, cost, calls in taken[way].graph.dearest("ebbtide::", 25):
                    line = f"{cost / STEPS:12.0f} {calls / STEPS:8.0f} {name[:100]}"
                    print(line, file=sys.stderr)
    except harness.JobError as error:
        print(f"bench active: {error}", file=sys.stderr)
        return 1
    listed = [dataclasses.asdict(row) for row in figures]
    harness.report(arguments, "active", SEED, listed, show(figures))
    complaints += [c for row in figures for c in row.complaints()]
    return harness.verdict("active", complaints, arguments.check)


if __name__ == "__main__":
    sys.exit(main())
