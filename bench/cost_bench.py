"""Cost of ebbtide on the training thread, in instructions: `./dev bench cost`.

Counted by valgrind's callgrind on the small-op models of bench/overhead_child.py,
above what the same work takes unmanaged, without the interpreter's own:

per op    a dispatched op of 8 floats.
per pack  a small training step, divided by the tensors that autograd saves; in
          steady the slope between 24 and 72 layers, behind large saved tensors
          that are offloaded.

The breakdown of each figure by object file is held in tests/golden/cost.json;
--golden writes it anew.
"""

import concurrent.futures
import dataclasses
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import callgrind
import harness
import overhead_bench
from callgrind import Counts

CHILD = harness.ROOT / "bench" / "cost_child.py"
GOLDEN = harness.ROOT / "tests" / "golden" / "cost.json"
LAYERS = (24, 72)
SEED = 1
OPS, STEPS = 200, 3  # ops and steps of cost_child.py
# The share of the prototype's cost that ebbtide may have.
ALLOWED = 0.5
# By how much a figure may exceed the golden one: malloc's searches differ.
DRIFT, DRIFT_LEAST = 0.05, 100
# Objects with figures of their own; the others are summed up. Both forms of the core
# are the same code.
OBJECTS = ["libebbtide.so", "libtorch_cpu.so", "libc10.so", "libc.so.6"]

Figure = dict[str, float]  # by object, per op or pack


@dataclasses.dataclass
class Part:
    """The counts of one process by window, and its output."""

    counts: dict[str, Counts]
    values: dict[str, Any]


@dataclasses.dataclass
class Row:
    """Instructions that a state adds to one op or one pack."""

    what: str
    state: str
    ebbtide: Figure
    prototype: Figure | None = None
    most: float | None = None

    def complaints(self) -> Iterator[str]:
        if self.most is not None and total(self.ebbtide) > self.most:
            yield (
                f"{self.what}, {self.state}: {total(self.ebbtide):.0f} instructions "
                f"are more than {self.most:.0f}"
            )


def total(figure: Figure) -> float:
    return sum(figure.values())


def run(part: str, *more: str, env: dict[str, str] | None = None) -> Part:
    """Runs one part of cost_child.py under callgrind."""
    harness.progress(" ".join([part, *(m for m in more if "/" not in m), *(env or {})]))
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "out"
        arguments = [part, str(callgrind.MARKS), *more]
        said = callgrind.run(CHILD, arguments, env or {}, output)
        return Part(callgrind.dumped(output), said)


def budgets() -> dict[int, int]:
    """Budgets of the models with that many layers, at which offloading is needed."""
    with overhead_bench.Children() as children:
        bench = overhead_bench.Bench(children, windows=1)
        return {layers: bench.record(layers) for layers in LAYERS}


def measure() -> dict[str, Part]:
    """All parts, two at a time: counts do not disturb each other."""
    tight = {"EBBTIDE_BUDGET": f"{overhead_bench.WATCH_BUDGET}B"}
    jobs: dict[str, Any] = {
        "unmanaged": (["plain"], {}),
        "idle": (["plain"], {"EBBTIDE_BUDGET": "10GiB"}),
        "watch": (["watch"], tight),
        "prototype": (["prototype", str(overhead_bench.LIBRARY)], {}),
    }
    for layers, budget in budgets().items():
        jobs[f"bare {layers}"] = (["ballast", str(layers)], {})
        spilling = {"EBBTIDE_BUDGET": f"{budget}B"}
        jobs[f"steady {layers}"] = (["ballast", str(layers)], spilling)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        begun = {
            name: pool.submit(run, *arguments, env=env)
            for name, (arguments, env) in jobs.items()
        }
        return {name: part.result() for name, part in begun.items()}


def difference(
    more: Part, less: Part, window: str, base: str | None = None
) -> dict[str, int]:
    """Instructions that `more` took above `less`, by object."""
    a, b = more.counts[window], less.counts[base or window]
    figure = {
        name: a.get(name, 0) - b.get(name, 0)
        for name in a.keys() | b.keys()
        if not name.startswith("python3")
    }
    figure["libebbtide.so"] = sum(
        figure.pop(name, 0) for name in ("libebbtide.so", "libebbtide_cuda.so")
    )
    named = {name: figure.get(name, 0) for name in [*OBJECTS, "libcov.so"]}
    return named | {"others": sum(figure.values()) - sum(named.values())}


def per(counts: dict[str, int], number: float) -> Figure:
    return {name: count / number for name, count in counts.items()}


def slope(parts: dict[str, Part]) -> Figure:
    """Per pack that more layers add, steady less bare."""
    few, many = (
        difference(parts[f"steady {layers}"], parts[f"bare {layers}"], "steps")
        for layers in LAYERS
    )
    packs = [parts[f"bare {layers}"].values["packs"] for layers in LAYERS]
    added = {name: many[name] - few[name] for name in many}
    return per(added, STEPS * (packs[1] - packs[0]))


def rows(parts: dict[str, Part]) -> list[Row]:
    bare, idle, watch = parts["unmanaged"], parts["idle"], parts["watch"]
    rival = parts["prototype"]
    packs = STEPS * bare.values["packs"]
    recorder = per(difference(rival, rival, "ops", "ops off"), OPS)
    observed = per(difference(rival, bare, "steps observed", "steps"), packs)
    steady = per(difference(rival, bare, "steps"), packs)
    return [
        Row("per op", "idle", per(difference(idle, bare, "ops"), OPS), most=0),
        Row("per pack", "idle", per(difference(idle, bare, "steps"), packs), most=0),
        Row(
            "per op",
            "watch",
            per(difference(watch, bare, "ops"), OPS),
            recorder,
            ALLOWED * total(recorder),
        ),
        Row(
            "per pack", "watch", per(difference(watch, bare, "steps"), packs), observed
        ),
        Row("per pack", "steady", slope(parts), steady, ALLOWED * total(steady)),
    ]


def states(parts: dict[str, Part]) -> Iterator[str]:
    wanted = {"idle": "idle", "watch": "watch"}
    wanted |= {f"steady {layers}": "steady" for layers in LAYERS}
    for name, state in wanted.items():
        found = parts[name].values["state"]
        if found != state:
            yield f"{name}: measured in state {found}, not in {state}"


def golden(figures: list[Row]) -> dict[str, Figure]:
    return {
        f"{row.what}, {row.state}": {k: round(v) for k, v in row.ebbtide.items()}
        for row in figures
    }


def drift(figures: list[Row]) -> Iterator[str]:
    """Figures that exceed the golden ones."""
    held = json.loads(GOLDEN.read_text())
    for name, figure in golden(figures).items():
        was, now = total(held.get(name, {})), total(figure)
        if now > was + max(DRIFT_LEAST, DRIFT * abs(was)):
            yield f"{name}: {now:.0f} instructions, {was:.0f} in {GOLDEN.name}"


def show(figures: list[Row]) -> str:
    header = ["extra instructions", "state", *OBJECTS, "others", "ebbtide"]
    header += ["prototype", "share"]
    body = []
    for row in figures:
        rival = total(row.prototype) if row.prototype else None
        others = total(row.ebbtide) - sum(row.ebbtide[name] for name in OBJECTS)
        body.append(
            [
                row.what,
                row.state,
                *[f"{row.ebbtide[name]:.0f}" for name in OBJECTS],
                f"{others:.0f}",
                f"{total(row.ebbtide):.0f}",
                f"{rival:.0f}" if rival else "",
                f"{total(row.ebbtide) / rival:.2f}" if rival else "",
            ]
        )
    return harness.table([header, *body])


def main() -> int:
    p = harness.bench_parser(__doc__, "nothing: there is no shorter form")
    p.add_argument("--golden", action="store_true", help=f"write {GOLDEN.name} anew")
    args = p.parse_args()
    try:
        overhead_bench.compile_prototype()
        parts = measure()
    except harness.JobError as error:
        print(f"bench cost: {error}", file=sys.stderr)
        return 1
    figures = rows(parts)
    complaints = [*states(parts)]
    if args.golden and not complaints:
        GOLDEN.write_text(json.dumps(golden(figures), indent=1) + "\n")
    complaints += [c for row in figures for c in row.complaints()]
    complaints += drift(figures)
    listed = [dataclasses.asdict(row) for row in figures]
    harness.report(args, "cost", SEED, listed, show(figures))
    return harness.verdict("cost", complaints, args.check)


if __name__ == "__main__":
    sys.exit(main())
