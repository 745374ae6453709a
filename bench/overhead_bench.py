"""Cost of ebbtide per op and saved tensor: `./dev bench overhead`.

Each figure is the least of many short windows over several rounds; a round runs
every part once, in a process of its own, the project's prototype
(tests/data/prototype) among them. In nanoseconds above the unmanaged run:

per op    a dispatched op of 8 floats. Watch: recorder on less recorder off.
per pack  a small training step, divided by the tensors that autograd saves. In
          Active it is the slope between 24 and 72 layers, behind large saved
          tensors that have to be offloaded.
"""

import argparse
import dataclasses
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import harness
from harness import MIB

CHILD = harness.ROOT / "bench" / "overhead_child.py"
SOURCE = harness.ROOT / "tests" / "data" / "prototype" / "cov.cpp"
LIBRARY = harness.ROOT / "build" / "prototype" / "libcov.so"
LAYERS = (24, 72)
SEED = 1
# The share of the prototype's cost that ebbtide may have.
ALLOWED = 0.6
WATCH_BUDGET = 64 * MIB
# States of a planned job, best last: noise can make it drop its plan.
STATES = [None, "idle", "watch", "active", "steady"]

Values = dict[str, Any]


@dataclasses.dataclass
class Row:
    """One figure: nanoseconds that a state adds to one op or one pack."""

    what: str
    state: str
    ebbtide: float
    prototype: float | None = None
    gated: bool = False

    @property
    def share(self) -> float | None:
        return self.ebbtide / self.prototype if self.prototype else None

    def complaints(self) -> Iterator[str]:
        if self.gated and (self.share is None or self.share > ALLOWED):
            yield (
                f"{self.what}, {self.state}: {self.ebbtide:.0f} ns is more than "
                f"{ALLOWED:.0%} of the prototype's {self.prototype:.0f} ns"
            )


def compile_prototype() -> None:
    """As the prototype was compiled when it was measured first."""
    if LIBRARY.exists() and LIBRARY.stat().st_mtime >= SOURCE.stat().st_mtime:
        return
    harness.progress("compiling the prototype")
    torch = next(harness.ROOT.glob(".venv/lib/python3*/site-packages/torch"))
    LIBRARY.parent.mkdir(parents=True, exist_ok=True)
    unfinished = LIBRARY.with_suffix(".new")
    flags = ["-std=c++17", "-O2", "-g1", "-DNDEBUG", "-fPIC", "-shared"]
    flags += [f"-I{torch}/include", f"-I{torch}/include/torch/csrc/api/include"]
    link = [f"-L{torch}/lib", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{torch}/lib"]
    done = subprocess.run(
        ["g++", *flags, str(SOURCE), "-o", str(unfinished), *link],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise harness.JobError(f"{SOURCE} does not compile:\n{done.stderr[:2000]}")
    unfinished.rename(LIBRARY)


class Children:
    """Starts the processes of the bench; see overhead_child.py."""

    def __enter__(self) -> "Children":
        self._parent = subprocess.Popen(
            [str(harness.PYTHON), str(CHILD)],
            env={**harness.clean_environment(), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._parent.communicate()

    def run(self, part: str, env: dict[str, str], **more: Any) -> Values:
        """Runs one part in a process with these variables; its values."""
        stdin, stdout = self._parent.stdin, self._parent.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"part": part, "env": env, **more}) + "\n")
        stdin.flush()
        answer = stdout.readline()
        values: Values = json.loads(answer or '{"error": "no answer"}')
        if "error" in values:
            raise harness.JobError(f"{part} {env}: {values['error']}")
        return values


def budget_of(report: Values) -> int:
    """Too little by 40 % of what autograd saves."""
    return int(report["peak"]) - int(report["peak_activations"]) * 40 // 100


class Bench:
    """The processes of all rounds, and the least value that each part had."""

    def __init__(self, children: Children, windows: int) -> None:
        self.least: dict[str, Values] = {}
        self.children = children
        self.windows = windows

    def one(self, name: str, part: str, env: dict[str, str], **more: Any) -> None:
        values = self.children.run(part, env, **{"windows": self.windows, **more})
        kept = self.least.setdefault(name, values)
        better = STATES.index(values.get("state")) - STATES.index(kept.get("state"))
        if better > 0:
            self.least[name] = values
        elif better == 0:
            for key in ("op", "op_off", "step", "step_observe"):
                if key in values:
                    kept[key] = min(kept[key], values[key])

    @property
    def planned(self) -> list[Values]:
        return [self.least[f"active {layers}"] for layers in LAYERS]

    def record(self, layers: int) -> int:
        """The budget for the model with so many layers."""
        env = {"EBBTIDE_RECORD": "/dev/null"}
        shape = {"layers": layers, "settle": 2, "windows": 1}
        return budget_of(self.children.run("ballast", env, **shape))

    def round(self, budgets: dict[int, int]) -> None:
        tight = {"EBBTIDE_BUDGET": f"{WATCH_BUDGET}B", "EBBTIDE_LOG": "off"}
        self.one("unmanaged", "unmanaged", {})
        self.one("idle", "idle", {"EBBTIDE_BUDGET": "10GiB"})
        self.one("watch", "watch", tight, budget=WATCH_BUDGET)
        self.one("prototype", "prototype", {}, library=str(LIBRARY))
        for layers, budget in budgets.items():
            # These steps wait for copies, so they are the longest by far.
            shape = {"layers": layers, "settle": 8, "windows": self.windows // 2}
            planned = {"EBBTIDE_BUDGET": f"{budget}B"}
            self.one(f"bare {layers}", "ballast", {}, **shape)
            self.one(f"active {layers}", "ballast", planned, **shape)

    def of(self, name: str, key: str) -> float:
        return float(self.least[name][key])

    def per_pack(self, name: str, key: str = "step") -> float:
        extra = self.of(name, key) - self.of("unmanaged", "step")
        return extra / self.of("unmanaged", "packs")

    def slope(self) -> float:
        """Nanoseconds per pack that more layers add, managed less unmanaged."""
        few, many = LAYERS
        managed, bare = (
            self.of(f"{way} {many}", "step") - self.of(f"{way} {few}", "step")
            for way in ("active", "bare")
        )
        packs = self.of(f"bare {many}", "packs") - self.of(f"bare {few}", "packs")
        return (managed - bare) / packs

    def rows(self) -> list[Row]:
        recorder = self.of("watch", "op") - self.of("idle", "op")
        rival = self.of("prototype", "op") - self.of("prototype", "op_off")
        resting = self.of("idle", "op") - self.of("unmanaged", "op")
        planned = self.of(f"active {LAYERS[0]}", "op") - self.of(
            f"bare {LAYERS[0]}", "op"
        )
        observed = self.per_pack("prototype", "step_observe")
        steady = self.per_pack("prototype")
        return [
            Row("per op", "idle", resting),
            Row("per op", "watch", recorder, rival, gated=True),
            Row("per op", "active", planned),
            Row("per pack", "idle", self.per_pack("idle")),
            Row("per pack", "watch", self.per_pack("watch"), observed),
            Row("per pack", "active", self.slope(), steady, gated=True),
        ]

    def complaints(self) -> Iterator[str]:
        for layers, values in zip(LAYERS, self.planned, strict=True):
            place = f"per pack, active, {layers} layers"
            if values["state"] != "steady":
                yield f"{place}: measured in state {values['state']}, not in steady"
            if values["ops_replayed"] or not values["bytes_spilled"]:
                yield f"{place}: the plan should offload and not recompute"


def show(bench: Bench, rows: list[Row]) -> str:
    header = ["extra ns", "state", "ebbtide", "prototype", "share"]
    body = [
        [
            row.what,
            row.state,
            f"{row.ebbtide:.0f}",
            f"{row.prototype:.0f}" if row.prototype is not None else "",
            f"{row.share:.2f}" if row.share is not None else "",
        ]
        for row in rows
    ]
    states = ", ".join(values["state"] for values in bench.planned)
    whole = (
        f"Unmanaged, an op takes {bench.of('unmanaged', 'op'):.0f} ns and a step of "
        f"{bench.of('unmanaged', 'packs'):.0f} packs "
        f"{bench.of('unmanaged', 'step') / 1e3:.0f} us. The active runs ended in the "
        f"states {states}."
    )
    return f"{harness.table([header, *body])}\n\n{whole}"


def parse_arguments() -> argparse.Namespace:
    p = harness.bench_parser(__doc__, "fewer rounds")
    return p.parse_args()


def measure(quick: bool) -> Bench:
    rounds = 2 if quick else 8
    with Children() as children:
        bench = Bench(children, windows=80 if quick else 100)
        budgets = {layers: bench.record(layers) for layers in LAYERS}
        for number in range(rounds):
            harness.progress(f"round {number + 1} of {rounds}")
            bench.round(budgets)
    return bench


def main() -> int:
    args = parse_arguments()
    try:
        compile_prototype()
        bench = measure(args.quick)
    except harness.JobError as error:
        print(f"bench overhead: {error}", file=sys.stderr)
        return 1
    rows = bench.rows()
    shares = [dataclasses.asdict(row) | {"share": row.share} for row in rows]
    harness.report(args, "overhead", SEED, shares, show(bench, rows))
    complaints = [line for row in rows for line in row.complaints()]
    complaints += bench.complaints()
    return harness.verdict("overhead", complaints, args.check)


if __name__ == "__main__":
    sys.exit(main())
