"""Step time and peaks on a CUDA device, beside what users pick today.

    gpu_bench.py [--rounds N] [--check]      (`./dev gpu` runs it)

Each way is a process of its own; a round runs all of them in turn, and the figures
are over the steps of all rounds. ebbtide gets the budget that unmanaged training
less half of what autograd holds would need, and, to be compared at equal memory, what
each other way has reserved at its peak.
"""

import argparse
import dataclasses
import datetime
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

CHILD = Path(__file__).with_name("gpu_child.py")
RESULTS = Path(__file__).parent.parent / "RESULTS-gpu.md"
LAUNCHER = os.environ.get("EBBTIDE_GPU_TESTS_LAUNCHER")
MODELS = ("gpt-1b", "resnet-152")
RIVALS = ("checkpoint", "save_on_cpu", "compile=0.5")
HALF = "ebbtide, half"
GIB = 1 << 30
OVER_UNMANAGED = 1.05  # at half of what autograd holds, where copies can hide
OFF_PLAN = 0.01


@dataclasses.dataclass(frozen=True)
class Turns:
    """Of each way: runs, steps of a run, and those of them that do not count.

    In the first the plan is made and tried, or kernels are compiled.
    """

    rounds: int
    steps: int
    warm: int


@dataclasses.dataclass
class Way:
    """All runs of one way; `failure` is what ended one."""

    name: str
    turns: "Turns"
    budget: int | None = None
    runs: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    failure: str = ""

    def seconds(self) -> list[float]:
        return [s for run in self.runs for s in run["seconds"][self.turns.warm :]]

    def peak(self, kind: str) -> int:
        return int(max(step[kind] for run in self.runs for step in run["peaks"]))

    @property
    def least(self) -> float:
        return min(self.seconds())

    @property
    def arguments(self) -> tuple[str, dict[str, str]]:
        """The child's way, and its environment."""
        if self.budget is None:
            return self.name.replace("unmanaged", "plain"), {}
        return "plain", {"EBBTIDE_BUDGET": f"cuda={self.budget}B"}


def child(
    model: str, way: str, steps: int, environment: dict[str, str]
) -> dict[str, Any]:
    clean = {
        k: v
        for k, v in os.environ.items()
        if k.startswith("EBBTIDE_GPU_TESTS_") or not k.startswith("EBBTIDE_")
    }
    before = [LAUNCHER] if LAUNCHER else []
    done = subprocess.run(
        [sys.executable, *before, str(CHILD), model, way, str(steps)],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RuntimeError(f"{model}, {way}: exit {done.returncode}: {last}")
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def attempt(model: str, way: Way) -> None:
    """One more run, unless one has failed: that is a result, too."""
    if way.failure:
        return
    name, environment = way.arguments
    print(f"  {model}: {way.name}", file=sys.stderr, flush=True)
    try:
        way.runs.append(child(model, name, way.turns.steps, environment))
    except RuntimeError as error:
        way.failure = str(error)


def measure(model: str, turns: Turns) -> list[Way]:
    ways = [Way("unmanaged", turns), *[Way(name, turns) for name in RIVALS]]
    for way in ways:
        attempt(model, way)
    if ways[0].failure:
        raise SystemExit(f"gpu_bench.py: {ways[0].failure}")
    recorded = child(model, "plain", 3, {"EBBTIDE_RECORD": "/dev/null"})
    saved = recorded["report"]["peak_activations"]
    ours = [Way(HALF, turns, ways[0].peak("reserved") - saved // 2)]
    for rival in ways[1:]:
        if not rival.failure:
            name = f"ebbtide, as {rival.name}"
            ours.append(Way(name, turns, rival.peak("reserved")))
    for way in ours:
        attempt(model, way)
    for _ in range(turns.rounds - 1):
        for way in [*ways, *ours]:
            attempt(model, way)
    return [*ways, *ours]


def last_plan(run: dict[str, Any]) -> dict[str, Any] | None:
    plans = [plan for plan in run["report"]["plans"] if plan["steps"]]
    return max(plans, key=lambda plan: plan["steps"][-1], default=None)


def repeats(unmanaged: Way) -> bool:
    """The control; atomic sums, as in the backward of attention, need not repeat."""
    return all(run["losses"] == unmanaged.runs[0]["losses"] for run in unmanaged.runs)


def complaints(model: str, ways: Sequence[Way]) -> Iterator[str]:
    known = {way.name: way for way in ways if not way.failure}
    unmanaged = known["unmanaged"]
    for way in ways:
        if way.failure:
            yield way.failure
    for way in known.values():
        if way.budget is None:
            continue
        place = f"{model}, {way.name}"
        if way.peak("reserved") > way.budget:
            yield f"{place}: {way.peak('reserved')} reserved, budget {way.budget}"
        for run in way.runs:
            if repeats(unmanaged) and run["losses"] != unmanaged.runs[0]["losses"]:
                yield f"{place}: losses differ from the unmanaged run's"
            yield from off_plan(place, run)
    if HALF in known and known[HALF].least > OVER_UNMANAGED * unmanaged.least:
        yield (
            f"{model}, {HALF}: {known[HALF].least:.4f} s a step, "
            f"unmanaged {unmanaged.least:.4f}"
        )
    same = known.get("ebbtide, as checkpoint")
    if same is not None and same.least > known["checkpoint"].least:
        yield f"{model}: slower than checkpoint at its own peak"


def off_plan(place: str, run: dict[str, Any]) -> Iterator[str]:
    plan = last_plan(run)
    if plan is None:
        return
    for number in plan["steps"]:
        peak = run["peaks"][number]["allocated"]
        if abs(peak / plan["predicted_peak"] - 1) > OFF_PLAN:
            yield f"{place}: {peak} allocated, planned {plan['predicted_peak']}"


def row(way: Way, unmanaged: Way) -> list[str]:
    if way.failure:
        return [way.name, *["failed"] * 9]
    seconds, plan = way.seconds(), last_plan(way.runs[-1]) if way.budget else None
    waste = way.peak("reserved") - way.peak("allocated")
    same = way.runs[-1]["losses"] == unmanaged.runs[0]["losses"]
    losses = "same" if same else "differ" if repeats(unmanaged) else "no control"
    return [
        way.name,
        f"{way.budget / GIB:.2f}" if way.budget else "",
        f"{way.peak('reserved') / GIB:.2f}",
        f"{way.peak('allocated') / GIB:.2f}",
        f"{plan['predicted_peak'] / GIB:.2f}" if plan else "",
        f"{waste / GIB:.2f}",
        f"{min(seconds):.4f}",
        f"{statistics.median(seconds):.4f}",
        f"{min(seconds) / unmanaged.least:.2f}",
        losses,
    ]


HEAD = [
    *("way", "budget GiB", "reserved GiB", "allocated GiB", "planned GiB", "waste GiB"),
    *("least s/step", "median s/step", "/ unmanaged", "losses"),
]


def table(rows: Sequence[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(rows[0]) - 1)]
    return "\n".join("| " + " | ".join(r) + " |" for r in [rows[0], rule, *rows[1:]])


def section(model: str, ways: Sequence[Way]) -> str:
    first = ways[0].runs[0]
    rows = [HEAD, *[row(way, ways[0]) for way in ways]]
    return (
        f"## {model}\n\n{first['parameters'] / 1e6:.0f} M parameters. Steps counted: "
        f"{len(ways[0].seconds())} of each way, behind the first "
        f"{ways[0].turns.warm} of each run.\n\n"
        f"{table(rows)}\n"
    )


def write(path: Path, measured: dict[str, list[Way]], command: str) -> None:
    first = next(iter(measured.values()))[0].runs[0]
    today = datetime.datetime.now(datetime.timezone.utc).date()
    head = f"{today}, {first['name']}, torch {first['torch']}, seed 1, `{command}`"
    parts = [section(model, ways) for model, ways in measured.items()]
    path.write_text(f"# Results on a CUDA device\n\n{head}\n\n" + "\n".join(parts))


def main() -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=40, help="of a run")
    p.add_argument("--warm", type=int, default=20, help="of them, not counted")
    p.add_argument("--check", action="store_true", help="exit 1 if a figure fails")
    p.add_argument("--model", choices=MODELS, action="append", help="default both")
    p.add_argument("--out", type=Path, default=RESULTS)
    args = p.parse_args()
    turns = Turns(args.rounds, args.steps, args.warm)
    measured = {m: measure(m, turns) for m in args.model or MODELS}
    found = [text for m, ways in measured.items() for text in complaints(m, ways)]
    write(args.out, measured, " ".join(["gpu_bench.py", *sys.argv[1:]]))
    for text in found:
        print(f"gpu_bench.py: does not hold: {text}", file=sys.stderr)
    print(args.out.read_text())
    return 1 if args.check and found else 0


if __name__ == "__main__":
    sys.exit(main())
