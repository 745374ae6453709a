"""Jobs at budgets of many sizes on the twin of an H100, and what came of them.

    budget_matrix.py [--budgets N] [--steps N] [--deep] [--only JOB,...]

Budgets lie between the planner's floor and the unmanaged peak. Prints lines of each
run: job, PyTorch's allocator, what may be done, and the budget; then what is wrong,
and of a run that follows a plan at its end how much of the budget that uses. The tests
in test_cuda_budgets.py are such runs.
"""

import argparse
import contextlib
import dataclasses
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

import harness
import simulator
from same import Outcome, Zygote

sys.path.insert(0, str(simulator.FACE))
import twin

MIB = 1 << 20
JOBS = ("lm", "llama", "trainer", "gpt", "resnet", "unet", "encdec", "lstm")
# PyTorch's own memory below ours.
ALLOCATORS = {
    "native": {"PYTORCH_CUDA_ALLOC_CONF": ""},
    "expandable": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
}
WAYS = {
    "recompute": {"EBBTIDE_OFFLOAD_DIR": "none"},
    "offload": {"EBBTIDE_RECOMPUTE": "0"},
    "both": {},
}
DEVICE = {"CUDASIM_MEM": "64G"}
UNBOUNDED = "60GiB"
LIMIT_S = 280
LEAST_SHARE = 0.98
MOST_POINTS = 0.5


@dataclasses.dataclass(frozen=True)
class Ends:
    """Bytes between which budgets are of use."""

    in_place: int  # the planner's floor where nothing moves
    moving: int  # and where it does
    native: int  # reserved at most, unmanaged
    expandable: int

    def budgets(self, allocator: str, way: str, count: int) -> list[int]:
        floor = self.in_place if way == "recompute" else self.moving
        low = floor + floor // 50
        high: int = getattr(self, allocator)
        return [low + (high - low) * i // (count - 1) for i in range(count)]


@dataclasses.dataclass(frozen=True)
class Run:
    job: str
    allocator: str
    way: str
    budget: int
    steps: int
    deep: bool = False
    exact: bool = False

    @property
    def environment(self) -> dict[str, str]:
        return {
            **variables(self.steps, self.deep, self.exact),
            **ALLOCATORS[self.allocator],
            **WAYS[self.way],
            "EBBTIDE_BUDGET": f"cuda={self.budget}B",
        }

    def __str__(self) -> str:
        return f"{self.job} {self.allocator} {self.way} {self.budget / MIB:.0f} MiB"


def variables(steps: int, deep: bool, exact: bool) -> dict[str, str]:
    return {
        "BUDGETS_STEPS": str(steps),
        "BUDGETS_DEEP": str(int(deep)),
        "BUDGETS_EXACT": str(int(exact)),
    }


@contextlib.contextmanager
def device(*, exact: bool = False) -> Iterator[Zygote]:
    """Starts jobs on it: where numbers are computed, or on the twin of an H100.

    A call takes the twin's host a nanosecond: the models are small, and a step that the
    host bounds says nothing of its plan.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".json") as model:
        measured = json.loads((twin.MEASURED / "device.json").read_text())
        measured |= {name: 1e-3 for name in measured if name.endswith("_us")}
        json.dump(measured, model)
        model.flush()
        timed = twin.environment(simulator.LIBRARIES)
        timed["CUDASIM_DEVICE_FILE"] = model.name
        environment = simulator.ENVIRONMENT | ({} if exact else timed) | DEVICE
        with Zygote(
            "programs.cuda_budgets", "transformers", environment=environment
        ) as process:
            yield process


def start(
    process: Zygote, job: str, environment: Mapping[str, str], *, finish: bool = False
) -> Outcome:
    return process.run(
        f"cuda_budgets.{job}", environment, seconds=LIMIT_S, finish=finish
    )


def steps_of(done: Outcome) -> list[tuple[int, int]]:
    """Bytes allocated and reserved at most in each step."""
    lines = [line.split() for line in done.output.splitlines()]
    return [(int(line[1]), int(line[2])) for line in lines if line[:1] == ["took"]]


def reserved(done: Outcome) -> list[int]:
    return [most for _, most in steps_of(done)]


def printed(done: Outcome) -> list[str]:
    """Losses and the hash."""
    lines, _ = simulator.trained(f"{done.output}null")
    return [line for line in lines if not line.startswith("took")]


def unmanaged(
    process: Zygote, job: str, allocator: str, steps: int, deep: bool, exact: bool
) -> Outcome:
    environment = variables(steps, deep, exact) | ALLOCATORS[allocator]
    done = start(process, job, environment)
    assert done.exit == 0, done.errors
    return done


def ends(process: Zygote, job: str, *, deep: bool = False, exact: bool = False) -> Ends:
    """Found by runs of it."""
    steps = 6
    environment = variables(steps, deep, exact) | {"BUDGETS_FLOOR": "1"}
    environment["EBBTIDE_BUDGET"] = f"cuda={UNBOUNDED}"
    done = start(process, job, environment)
    assert done.exit == 0, done.errors
    peaks = {
        name: max(reserved(unmanaged(process, job, name, steps, deep, exact)))
        for name in ALLOCATORS
    }
    return Ends(**done.work["floor"], **peaks)


def complaints(run: Run, done: Outcome, expected: Sequence[str] = ()) -> Iterator[str]:
    """Violations of what must always hold. `expected`: what it prints unmanaged, if
    that is known."""
    steps = reserved(done)
    if done.exit != 0:
        lines = done.errors.splitlines()
        why = next((x for x in lines if "OutOfMemoryError" in x), "".join(lines[-1:]))
        yield f"{run}: died in step {len(steps)}: {why[:160]}"
        return
    over = [i for i, peak in enumerate(steps) if peak > run.budget]
    if over:
        most = max(steps) - run.budget
        yield f"{run}: {len(over)} steps over by up to {most / MIB:.1f} MiB"
    if expected and printed(done) != expected:
        yield f"{run}: other bits"
    yield from (f"{run}: {line}" for line in done.lines if "off:" in line)


@dataclasses.dataclass
class Use:
    """Use of the budget by the last plan that was followed."""

    state: str  # state of the arena
    reason: str  # for `state`, where planned addresses are not in use
    plans: int  # that were followed
    share: float  # planned peak and what lies beside, of what there is to use
    waste: int  # reserved less alive at the peak
    allowed: int  # part of it that is allowed
    points: float  # share of an unmanaged step by which `ebbtide plan` is faster

    def __str__(self) -> str:
        return (
            f"{self.state}, {self.plans} plans, {self.share:.1%} used, "
            f"{self.waste / MIB:.1f} MiB of waste of {self.allowed / MIB:.1f}, "
            f"{self.points:+.1f} points"
        )

    def complaints(self, *, with_time: bool) -> Iterator[str]:
        """`with_time`: the planner has a processor for itself."""
        if self.state != "serving":
            yield f"planned addresses are not in use, but {self.state}: {self.reason}"
        if self.share < LEAST_SHARE:
            yield f"{self.share:.1%} of the budget is planned with"
        if self.waste > self.allowed:
            yield f"{self.waste / MIB:.1f} MiB of waste, not {self.allowed / MIB:.1f}"
        if with_time and self.points > MOST_POINTS:
            yield f"`ebbtide plan` is faster by {self.points:.1f} points"


def use(run: Run, done: Outcome, most: int, trace: Path) -> Use | None:
    """`most`: reserved at most, unmanaged. None: it follows no plan at its end."""
    report = done.report
    steps = report["first_step"] + len(report["step_times"])
    plans = [plan for plan in report["plans"] if plan["steps"]]
    plan = max(plans, key=lambda plan: plan["steps"][-1], default=None)
    # Behind its last step a job may evaluate.
    if plan is None or plan["steps"][-1] < steps - 3:
        return None
    (device_report,) = report["cuda"]["devices"].values()
    arena = device_report.get("arena", {"state": "no arena"})
    beside = arena.get("beside", 0) - arena.get("beside_alive", 0)
    room = min(run.budget, most)
    allocated, last_reserved = steps_of(done)[-1]
    tails = re.findall(rb'"tail_time":([\d.e+]+)', trace.read_bytes())
    best, unplanned = (planned(trace, size) for size in (f"{run.budget}B", UNBOUNDED))
    seconds = plan["predicted_time"] - float(tails[-1]) / 1e9
    return Use(
        state=arena["state"],
        reason=arena.get("reason", ""),
        plans=len(plans),
        share=(plan["predicted_peak"] + beside) / room,
        waste=last_reserved - allocated,
        allowed=room // 100 + 32 * MIB,
        points=100 * (seconds - best) / unplanned,
    )


def planned(trace: Path, budget: str) -> float:
    """Seconds of the recorded step within the budget, as `ebbtide plan` finds it."""
    command = [harness.EBBTIDE, "plan", trace, "--budget", budget, "--json"]
    done = subprocess.run(
        [*map(str, command), "--time-limit", "2"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return float(json.loads(done.stdout)["time"]) / 1e9


def follow(process: Zygote, run: Run, most: int) -> tuple[Outcome, Use | None]:
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "run.ebbtide"
        environment = run.environment | {"EBBTIDE_RECORD": str(trace)}
        done = start(process, run.job, environment, finish=True)
        return done, None if done.exit else use(run, done, most, trace)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budgets", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--deep", action="store_true")
    parser.add_argument("--only", default=",".join(JOBS))
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--allocators", default=",".join(ALLOCATORS))
    arguments = parser.parse_args()
    with device() as process:
        for job in arguments.only.split(","):
            found = ends(process, job, deep=arguments.deep)
            print(job, {k: v // MIB for k, v in vars(found).items()}, flush=True)
            for allocator in arguments.allocators.split(","):
                for way in arguments.ways.split(","):
                    sizes = found.budgets(allocator, way, arguments.budgets)
                    for budget in sizes:
                        run = Run(
                            job, allocator, way, budget, arguments.steps, arguments.deep
                        )
                        report(process, run, getattr(found, allocator))


def report(process: Zygote, run: Run, most: int) -> None:
    done, used = follow(process, run, most)
    lines = list(complaints(run, done))
    if used is not None:
        lines.append(f"{run}: {used}")
    elif not lines:
        lines.append(f"{run}: no plan at the end, {done.report['steps_by_state']}")
    print(*lines, sep="\n", flush=True)


if __name__ == "__main__":
    main()
