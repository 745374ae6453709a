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
GOLDEN_CALLS: dict[str, dict[str, float]] = json.loads(GOLDEN.read_text())
CORE = "libebbtide_cuda.so"
# Each budget is less than the program reserves without one: 254 MiB with 24 layers.
RECOMPUTED = {"EBBTIDE_BUDGET": "cuda=80MiB", "EBBTIDE_OFFLOAD_DIR": "none"}
DEEP = {"LAYERS": "24"}
# Its plan recomputes nothing.
DEEP_COPIED = DEEP | {"EBBTIDE_BUDGET": "cuda=196MiB"}
DEEP_RECOMPUTED = DEEP | {
    "EBBTIDE_BUDGET": "cuda=190MiB",
    "EBBTIDE_OFFLOAD_DIR": "none",
}


@dataclasses.dataclass
class Told:
    copied: int  # bytes, by the first step
    # Calls of the last step of each state, by function and library.
    calls: dict[str, Counter[str]]


def told(**variables: str) -> Told:
    # Nothing is computed, and bytes that no kernel has written are to be alike.
    nothing = {"CUDASIM_BYTES": "0"}
    done = run([PYTHON, PROGRAM], **simulator.ENVIRONMENT, **nothing, **variables)
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


@pytest.fixture(scope="module")
def deep() -> Told:
    simulator.check_built()
    return told(**DEEP)


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


def check_few(active: Counter[str], plain: Counter[str]) -> None:
    """At most 1.25 times the unmanaged calls, beside those of recomputed ops.

    A recomputed random op asks whether its stream is being captured.
    """

    def kernels(calls: Counter[str]) -> int:
        starts = ("cudaLaunch", "cublas")
        return sum(calls[name] for name in calls if name.startswith(starts))

    recomputed = kernels(active) - kernels(plain)
    assert recomputed > 0
    assert active.total() <= 1.25 * plain.total() + 2 * recomputed


def test_a_step_that_recomputes_makes_the_calls_that_it_made(managed: Told) -> None:
    assert ours(managed.calls["active"]) == GOLDEN_CALLS["recomputes within 80 MiB"]


def test_a_step_that_recomputes_makes_hardly_more_calls_than_an_unmanaged_one(
    managed: Told, unmanaged: Told
) -> None:
    check_few(managed.calls["active"], unmanaged.calls["unmanaged"])


def test_a_step_of_24_layers_that_recomputes_makes_hardly_more_calls(
    deep: Told,
) -> None:
    active = told(**DEEP_RECOMPUTED).calls["active"]
    # Some plans leave one block beside the planned addresses, and its stream is marked.
    most = GOLDEN_CALLS["recomputes within 190 MiB, at most"]
    for function, calls in ours(active).items():
        assert calls <= most.get(function, 0), (function, calls)
    check_few(active, deep.calls["unmanaged"])


def test_a_step_that_copies_makes_hardly_more_calls_than_an_unmanaged_one(
    deep: Told,
) -> None:
    """At most 1.25 times its calls, and two for each copy.

    Which copies a plan has follows from times; what each of them takes does not.
    """
    steady, plain = told(**DEEP_COPIED).calls["steady"], deep.calls["unmanaged"]
    most, made = GOLDEN_CALLS["a copy within 196 MiB, at most"], ours(steady)
    copies = made["cudaMemcpyAsync"]
    assert made.keys() == most.keys()
    assert all(made[name] <= most[name] * copies for name in made), made
    of_core = sum(n for name, n in steady.items() if name.split()[1] == CORE)
    assert steady.total() - of_core == plain.total()
    assert plain.total() + sum(made.values()) <= 1.25 * plain.total() + 2 * copies


def test_only_flags_are_copied_to_prove_that_ops_repeat(
    managed: Told, unmanaged: Told
) -> None:
    assert managed.copied - unmanaged.copied <= 64 << 10


def test_a_refusal_to_pin_host_memory_is_said_once() -> None:
    simulator.check_built()
    done = run(
        [PYTHON, PROGRAM],
        **simulator.ENVIRONMENT,
        EBBTIDE_BUDGET="cuda=80MiB",
        EBBTIDE_RECOMPUTE="0",
        CUDASIM_FAIL="cudaHostRegister:0:-1:2",
    )
    assert done.returncode == 0, done.stderr
    said = "host memory is not pinned, so the job waits for copies: cudaHostRegister"
    assert done.stderr.count(said) == 1, done.stderr
