"""A CUDA call of a step fails: the program sees what it would see without us, and
of the calls that only we make, nothing (cuda_faults.py, which also runs one)."""

import os
from collections.abc import Iterable, Iterator

import pytest

from cuda_faults import MANAGED, SAME, Fault, Faults, zygote

LONG = bool(os.environ.get("EBBTIDE_LONG"))
# In the first step streams are made and memory is pinned, in the other one a plan
# is followed. None is needed for the first: behind it one that is searched for would
# be most of the time.
STEPS = {0: MANAGED | {"EBBTIDE_TEST_PLANS": "1"}, 5: MANAGED}
ERRORS = (2, 304)  # no memory, and one of the operating system
SAMPLE = 10  # calls of each step and error
PARTS = 50 if LONG else 1  # every call is too much for one test

PRODUCTS = ("cublasSgemm_v2", "cublasGemmEx")  # names in torch 2.11 and 2.15
OUR_COPY = "cudaMemcpyAsync libebbtide"

# PyTorch's errors from a call that it makes in tight memory alone.
TOLD = ("AcceleratorError", "OutOfMemoryError")


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Faults, dict[int, Faults]]]:
    """The training unmanaged and managed, for each of the steps."""
    with zygote() as process:
        managed = {step: Faults(process, how) for step, how in STEPS.items()}
        yield Faults(process, {}), managed


def alike(plain: Faults, fault: Fault, site: str) -> set[tuple[str, ...]]:
    """Results of the same fault, without ebbtide, for calls from there."""
    calls = [k for k, other in enumerate(plain.calls(fault.step)) if other == site]
    faults = (
        Fault(fault.step, calls[i], fault.error, fault.breaks)
        for i in sorted({0, len(calls) - 1})
        if calls
    )
    return {plain.result(other).outcome for other in faults}


def check(plain: Faults, managed: Faults, fault: Fault) -> None:
    result = managed.result(fault)
    where = (fault, result)
    if not result.site:
        return  # the last calls of a step: threads of ours make a few more or less
    if result.outcome[0] != "exit":
        managed.check(result.done, result.outcome, fault.step)
    if result.ours:
        assert result.outcome == SAME, where
        said = [
            line for line in result.done.lines if ": off" in line or "no more" in line
        ]
        assert said == [], where
        return
    # PyTorch itself ends the process where some of its calls fail.
    expected = alike(plain, fault, result.site)
    if result.for_us and result.outcome == SAME:
        return
    if expected:
        assert result.outcome in expected, (expected, where)
    else:
        assert result.outcome == SAME or result.outcome[0] in TOLD, where


def chosen(calls: list[str], step: int, error: int, part: int) -> Iterable[int]:
    """Every call, or some: such as came from different places, as far as it goes."""
    if LONG:
        return range(part, len(calls), PARTS)
    first = {site: call for call, site in reversed([*enumerate(calls)])}
    ours = sorted(c for site, c in first.items() if "libebbtide" in site)
    others = sorted(c for site, c in first.items() if "libebbtide" not in site)
    shift = step + error
    picked = [
        sorted(group)[shift % max(1, len(group) // most) :: max(1, len(group) // most)]
        for group, most in ((ours, 7), (others, 3))
    ]
    return [call for group in picked for call in group][:SAMPLE]


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("step", STEPS)
def test_a_fault_that_passes(
    both: tuple[Faults, dict[int, Faults]], step: int, error: int, part: int
) -> None:
    plain, managed = both[0], both[1][step]
    calls = managed.calls(step)
    assert any("libebbtide" in site for site in calls), calls
    for call in chosen(calls, step, error, part):
        check(plain, managed, Fault(step, call, error))


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("step", STEPS)
def test_a_fault_that_breaks_the_device(
    both: tuple[Faults, dict[int, Faults]], step: int, part: int
) -> None:
    """The step ends as PyTorch ends it, whoever has made the call.

    Where that was us, PyTorch's next call says it: cuBLAS by a RuntimeError. After the
    last copy of a first step, whose bytes are compared on the host, no call follows,
    and it raised an error of ours.
    """
    plain, managed = both[0], both[1][step]
    calls = managed.calls(step)
    wanted = set()
    for function in ("cudaLaunchKernel", PRODUCTS):
        sites = [site.startswith(function) for site in plain.calls(step)]
        fault = Fault(step, sites.index(True), 719, breaks=True)
        wanted.add(plain.result(fault).outcome[0])
    assert wanted == {"AcceleratorError", "RuntimeError"}, wanted
    copies = [k for k, site in enumerate(calls) if site.startswith(OUR_COPY)]
    some = [*range(7, len(calls), len(calls) // 4), copies[-1]]
    for call in range(part, len(calls), PARTS) if LONG else some:
        result = managed.result(Fault(step, call, 719, breaks=True))
        assert not result.site or result.outcome[0] in wanted, result
        assert not result.site or result.outcome[1].startswith("CUDA error"), result
