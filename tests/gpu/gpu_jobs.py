"""The processes that tests/gpu and bench/gpu consist of, and what each is expected
to take on a machine with one H100 of 80 GB and 16 cores.

Case NAME is `case.NAME.WAY`; the other names are those of rows in
bench/results/gpu.md. Only the standard library is needed.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BENCH = HERE.parent.parent / "bench" / "gpu"
TINY = os.environ.get("EBBTIDE_GPU_TESTS_SIZE") == "tiny"

Told = Mapping[str, Any]  # output of a program

# From `python3` to the first line of a program, torch imported: 10 to 20 s there.
START = 15.0
CONTEXT = 0.6  # GiB that a process takes of the device before it trains
# Evicted on demand, planned, tried and followed.
STEPS = 12 if TINY else 24
SIZE_STEPS = 3
# Settings that products of cuBLAS need to repeat their bits.
REPEATABLE = {
    "CUBLAS_WORKSPACE_CONFIG": os.environ.get("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
}
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}

# Treatments of the half of autograd's bytes that a budget leaves out.
WAYS: dict[str, dict[str, str]] = {
    "recomputed": {"EBBTIDE_OFFLOAD_DIR": "none"},
    "offloaded": {"EBBTIDE_RECOMPUTE": "0"},
    "planned": {},
}
CONTROLS = ("control1", "control2")


def reserved(told: Told) -> int:
    return int(max(step["reserved"] for step in told["peaks"]))


@dataclasses.dataclass(frozen=True)
class Budget:
    """Bytes, from what the jobs in `needs` printed."""

    needs: tuple[str, ...]
    of: Callable[[Sequence[Told]], int]


def half(size: str) -> Budget:
    """The peak of reserved bytes, less half of the bytes that autograd holds."""
    return Budget(
        (size,),
        lambda told: reserved(told[0]) - told[0]["report"]["peak_activations"] // 2,
    )


def as_much_as(size: str) -> Budget:
    return Budget((size,), lambda told: reserved(told[0]))


def between(low: str, high: str) -> Budget:
    return Budget((low, high), lambda told: sum(map(reserved, told)) // 2)


@dataclasses.dataclass(frozen=True)
class Job:
    """One process; `seconds` and `gib` are estimates, `start` not in `seconds`."""

    name: str
    command: tuple[str, ...]
    seconds: float
    gib: float
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    budget: Budget | None = None
    # Its times are published: it has the device for itself, and waits for that behind
    # its imports.
    alone: bool = False
    # Only where time is left over.
    extra: bool = False
    start: float = START

    @property
    def needs(self) -> tuple[str, ...]:
        return self.budget.needs if self.budget else ()

    @property
    def total(self) -> float:
        return self.start + self.seconds

    @property
    def limit(self) -> float:
        """Seconds after which it is ended."""
        return 3 * self.total + 30


# By case: seconds of an unmanaged run of all steps, of a managed one, and GiB.
CASES: dict[str, tuple[float, float, float]] = {
    "attention_flash": (10, 18, 2.4),
    "attention_efficient": (10, 18, 2.4),
    "attention_math": (15, 24, 5.8),
    "convolutions": (15, 24, 2.0),
    "gemm_bf16": (7, 14, 0.5),
    "gemm_autocast": (7, 14, 0.5),
}


def case(name: str) -> list[Job]:
    unmanaged, managed, gib = CASES[name]

    def job(way: str, steps: int, seconds: float, **more: Any) -> Job:
        program = (str(HERE / "gpu_program.py"), name, str(steps))
        environment = {**REPEATABLE, **more.pop("environment", {})}
        taken = gib + CONTEXT
        return Job(f"case.{name}.{way}", program, seconds, taken, environment, **more)

    size = job("size", SIZE_STEPS, 5, environment={"EBBTIDE_RECORD": "/dev/null"})
    return [
        size,
        *[job(way, STEPS, unmanaged) for way in CONTROLS],
        *[
            job(way, STEPS, managed, environment=WAYS[way], budget=half(size.name))
            for way in WAYS
        ],
    ]


def child(program: str, model: str, way: str, steps: int) -> tuple[str, ...]:
    return (str(BENCH / program), *([model] if model else []), way, str(steps))


def gpt(row: str, way: str, steps: int, seconds: float, gib: float, **more: Any) -> Job:
    command = child("gpu_child.py", "gpt-1b", way, steps)
    return Job(f"gpt-1b.{row}", command, seconds, gib + CONTEXT, **more)


def llama(
    row: str, way: str, steps: int, seconds: float, gib: float, **more: Any
) -> Job:
    command = child("llama_child.py", row.split(".")[0], way, steps)
    return Job(row, command, seconds, gib + CONTEXT, **more)


def sizes() -> list[Job]:
    """Short runs, beside others, that the budgets of the bench come from."""
    record = {"EBBTIDE_RECORD": "/dev/null"}
    return [
        gpt("size", "plain", SIZE_STEPS, 8, 22.7, environment=record),
        gpt("checkpoint.size", "checkpoint", SIZE_STEPS, 6, 15.4),
        llama("llama.size", "plain", SIZE_STEPS, 8, 46.1),
        llama("llama.checkpoint.size", "checkpoint", SIZE_STEPS, 8, 15.6),
    ]


def bench() -> list[Job]:
    """Most telling first. A plan is made and tried in the first steps of a managed
    run; times count from its middle."""
    middle = half("gpt-1b.size")
    equal = as_much_as("gpt-1b.checkpoint.size")
    mid = between("llama.size", "llama.checkpoint.size")
    found = [
        gpt("unmanaged", "plain", 16, 6, 22.7),
        gpt("checkpoint", "checkpoint", 16, 5, 15.4),
        gpt("half", "plain", 32, 17, 16.6, budget=middle),
        gpt("as-checkpoint", "plain", 28, 27, 15.4, budget=equal),
        llama("llama.unmanaged", "plain", 10, 7, 46.1),
        llama("llama.checkpoint", "checkpoint", 10, 7, 15.6),
        llama("llama.mid", "plain", 24, 29, 30.9, budget=mid),
        *[
            gpt(
                row, "plain", steps, seconds, 16.6, budget=middle, environment=WAYS[way]
            )
            for row, way, steps, seconds in (
                ("recompute", "recomputed", 32, 17),
                ("offload", "offloaded", 16, 15),
            )
        ],
    ]
    return [dataclasses.replace(job, alone=True) for job in found]


def extras() -> list[Job]:
    """Where there is more time than a short run has."""
    equal = as_much_as("llama.checkpoint.size")
    middle = half("gpt-1b.size")
    auto = {"EBBTIDE_BUDGET": "auto"}
    limited = {"EBBTIDE_BUDGET": "cuda=16GiB"}

    def trainer(row: str, way: str, seconds: float, **more: Any) -> Job:
        command = child("trainer_child.py", "", way, 20)
        return Job(f"trainer.{row}", command, seconds, 17.6, **more)

    def resnet(row: str, steps: int, seconds: float, gib: float, **more: Any) -> Job:
        command = child("gpu_child.py", "resnet-152", "plain", steps)
        return Job(f"resnet-152.{row}", command, seconds, gib, **more)

    record = {"EBBTIDE_RECORD": "/dev/null"}
    size = resnet("size", SIZE_STEPS, 8, 28.0, environment=record, extra=True)
    found = [
        llama("llama.as-checkpoint", "plain", 32, 40, 15.6, budget=equal),
        trainer("checkpoint", "checkpoint", 25),
        trainer("budget", "plain", 40, environment=limited),
        gpt("unmanaged.expandable", "plain", 16, 6, 22.0, environment=EXPANDABLE),
        gpt("checkpoint.expandable", "checkpoint", 16, 6, 12.5, environment=EXPANDABLE),
        dataclasses.replace(
            gpt("half.expandable", "plain", 32, 17, 16.6, budget=middle),
            environment=EXPANDABLE,
        ),
        gpt("save_on_cpu", "save_on_cpu", 10, 15, 16.0),
        gpt("compile", "compile=0.5", 20, 60, 22.7),
        llama("llama22.checkpoint", "checkpoint", 8, 12, 33.4),
        resnet("unmanaged", 16, 12, 28.0),
        resnet("half", 32, 30, 16.0, budget=half(size.name)),
        llama("llama22.auto", "plain", 20, 90, 76.0, environment=auto),
    ]
    return [size, *(dataclasses.replace(j, alone=True, extra=True) for j in found)]


def memcheck(tool: str) -> Job:
    """compute-sanitizer over the offload path."""
    name = "gemm_bf16"
    command = (
        *(tool, "--tool", "memcheck", "--error-exitcode", "1"),
        *(str(HERE / "gpu_program.py"), name, str(STEPS)),
    )
    environment = {**REPEATABLE, **WAYS["offloaded"]}
    budget = half(f"case.{name}.size")
    gib = CASES[name][2] + 2 * CONTEXT
    return Job(
        f"case.{name}.memcheck", command, 150, gib, environment, budget, extra=True
    )


def every_job(sanitizer: str | None = None) -> list[Job]:
    return [
        *[job for name in CASES for job in case(name)],
        *sizes(),
        *bench(),
        *extras(),
        *([memcheck(sanitizer)] if sanitizer else []),
    ]
