"""CUDA calls of a step that follows a plan, beside those of an unmanaged one."""

import dataclasses
import json
from collections import Counter

import pytest

import harness
import simulator
from run import PYTHON, run

PROGRAM = harness.ROOT / "tests" / "python" / "programs" / "cuda_calls.py"
GOLDEN = harness.ROOT / "tests" / "golden" / "cuda_calls.json"
CORE = "libebbtide_cuda.so"
# Less than the program reserves without one.
RECOMPUTED = {"EBBTIDE_BUDGET": "cuda=80MiB", "EBBTIDE_SPILL_DIR": "none"}


@dataclasses.dataclass
class Told:
    copied: int  # bytes, by the first step
    # Of the last step of each state, by function and library.
    calls: dict[str, Counter[str]]


def told(**variables: str) -> Told:
    done = run([PYTHON, PROGRAM], **simulator.ENVIRONMENT, **variables)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    calls = {state: Counter(made) for state, made in found["calls"].items()}
    return Told(found["copied"], calls)


@pytest.fixture(scope="module")
def unmanaged() -> Told:
    simulator.check_built()
    return told()


@pytest.fixture(scope="module")
def managed() -> Told:
    return told(**RECOMPUTED)


def ours(calls: Counter[str]) -> dict[str, int]:
    """Calls of the core, but those that move pages before addresses are planned.

    A move waits for an event that it records.
    """
    named = (name.split() for name in sorted(calls))
    made = Counter(
        {
            function: calls[f"{function} {library}"]
            for function, library in named
            if library == CORE
        }
    )
    waits = made.pop("cudaEventSynchronize", 0)
    for function in [name for name in made if name.startswith("cuMem")]:
        del made[function]
    if waits:
        del made["cudaThreadExchangeStreamCaptureMode"]
        made["cudaEventRecord"] -= waits
    return dict(made)


def test_a_step_that_recomputes_makes_the_calls_that_it_made(managed: Told) -> None:
    assert ours(managed.calls["active"]) == json.loads(GOLDEN.read_text())


def test_a_step_that_recomputes_makes_hardly_more_calls_than_an_unmanaged_one(
    managed: Told, unmanaged: Told
) -> None:
    def kernels(calls: Counter[str]) -> int:
        starts = ("cudaLaunch", "cublas")
        return sum(calls[name] for name in calls if name.startswith(starts))

    active, plain = managed.calls["active"], unmanaged.calls["unmanaged"]
    recomputed = kernels(active) - kernels(plain)
    assert recomputed > 0
    # A random op that runs again asks whether its stream is being captured.
    assert active.total() <= 1.25 * plain.total() + 2 * recomputed


def test_only_flags_are_copied_to_prove_that_ops_repeat(
    managed: Told, unmanaged: Told
) -> None:
    assert managed.copied - unmanaged.copied <= 64 << 10
