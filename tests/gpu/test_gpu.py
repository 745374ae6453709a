"""What only a device can show: bits, peaks and budgets with its own kernels.

pytest -m gpu tests/gpu        (`./dev gpu` does it, from an installed wheel)
"""

import shutil

import pytest

import gpu_program
import gpu_trial

pytestmark = pytest.mark.gpu

WAYS = list(gpu_trial.WAYS)
CASES = list(gpu_program.CASES)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES)
def test_a_managed_step_has_the_unmanaged_bits(case: str, way: str) -> None:
    done = gpu_trial.managed(case, way)
    assert done.bits == gpu_trial.unmanaged(case).bits, done.lines
    assert not any("off:" in line for line in done.lines), done.lines
    recomputed, moved = done.report["ops_replayed"], done.report["bytes_spilled"]
    if way == "recomputed":
        assert (recomputed > 0, moved) == (True, 0)
    elif way == "offloaded":
        assert (recomputed, moved > 0) == (0, True)
    else:
        assert recomputed + moved > 0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES)
def test_no_step_reserves_more_than_the_budget(case: str, way: str) -> None:
    budget = gpu_trial.half(case)
    done = gpu_trial.managed(case, way)
    for number, step in enumerate(done.peaks):
        waste = step["reserved"] - step["allocated"]
        print(f"step {number}: {step}, budget {budget}, waste {waste}")
        assert step["reserved"] <= budget
    # The device's own count has all that a process takes of it.
    assert done.peak("device") < gpu_trial.unmanaged(case).peak("device")


@pytest.mark.parametrize("case", CASES)
def test_the_plan_that_stays_peaks_where_it_said(case: str) -> None:
    """Those before it were short of memory where segments leave no room."""
    done = gpu_trial.managed(case, "planned")
    plans = [plan for plan in done.report["plans"] if plan["steps"]]
    assert plans, done.report["reason"]
    last = max(plans, key=lambda plan: plan["steps"][-1])
    for number in last["steps"]:
        allocated = done.peaks[number]["allocated"]
        print(f"step {number}: {allocated}, planned {last['predicted_peak']}")
        assert abs(allocated / last["predicted_peak"] - 1) <= 0.01


def test_memcheck_finds_nothing_in_the_offload_path() -> None:
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        pytest.skip("compute-sanitizer is not on this machine")
    case = "gemm_bf16"
    budget = f"cuda={gpu_trial.half(case)}B"
    done = gpu_trial.train(
        case,
        {"EBBTIDE_BUDGET": budget, **gpu_trial.WAYS["offloaded"]},
        tool=[tool, "--tool", "memcheck", "--error-exitcode", "1"],
    )
    assert done.report["bytes_spilled"] > 0
    assert done.bits == gpu_trial.unmanaged(case).bits
