"""The steady state: a plan that only offloads is followed without the recorder."""

import pytest

from programs import steady
from same import SPILL, Outcome, Zygote

CASES = [
    name
    for name, value in vars(steady).items()
    if callable(value)
    and getattr(value, "__annotations__", {}).keys() == {"t", "return"}
    and name != "nothing_large_is_saved"  # nor evicted
]


def steadily(zygote: Zygote, case: str) -> Outcome:
    """The case at 60 % of the activations of a usual step, offloading allowed."""
    usual = "steady.every_step_the_same"
    counted = zygote.same(usual, {"EBBTIDE_RECORD": "/dev/null"})
    activations = int(counted.report["peak_activations"])
    budget = int(counted.report["peak"]) - activations * 2 // 5
    env = {"EBBTIDE_BUDGET": f"{budget}B", "EBBTIDE_OFFLOAD_DIR": str(SPILL)}
    done = zygote.same(f"steady.{case}", env)
    assert done.spilled > 0
    return done


def test_the_recorder_rests(zygote: Zygote) -> None:
    done = steadily(zygote, "every_step_the_same")
    given_up = any("slower than evicting" in line for line in done.lines)
    assert done.steps("steady") > 4 or given_up, done.report
    assert done.report["over_budget_steps"] == 0


def test_plans_are_priced_anew_as_steps_repeat(zygote: Zygote) -> None:
    # Made from the times of two steps; more are recorded before the recorder rests.
    done = steadily(zygote, "every_step_the_same")
    assert done.report["signatures"]["priced"] > 0


@pytest.mark.parametrize("case", CASES)
def test_any_doubt_keeps(zygote: Zygote, case: str) -> None:
    steadily(zygote, case)


# Eight in a row are recorded, and one in 64 from then on.
RECORDED_FIRST = 8


@pytest.mark.parametrize("case", [*CASES, "nothing_large_is_saved"])
def test_a_recorder_without_a_budget_rests_too(zygote: Zygote, case: str) -> None:
    done = zygote.same(f"steady.{case}", {"EBBTIDE_RECORD": "/dev/null"})
    assert done.steps("watch") >= RECORDED_FIRST
    assert done.steps("steady") > 0, done.report


def test_a_step_recorded_after_a_rest_is_recorded_whole(zygote: Zygote) -> None:
    # It began at its first save, lacked the ops before it, and was taken for a step
    # of another kind.
    case = "steady.many_steps_the_same"
    done = zygote.same(case, {"EBBTIDE_RECORD": "/dev/null"})
    assert done.report["signatures"]["remembered"] == 1
    assert done.steps("watch") == RECORDED_FIRST + 1, done.report
    assert done.steps("steady") == steady.MANY_STEPS - RECORDED_FIRST - 1


def test_steps_inside_an_optimizer_are_recorded(zygote: Zygote) -> None:
    # Without a budget the recorder leaves out what an optimizer's step does, and finds
    # by the first of these that they train.
    case = "steady.trained_by_its_optimizer"
    done = zygote.same(case, {"EBBTIDE_RECORD": "/dev/null"})
    assert done.report["signatures"]["remembered"] == 1
    assert done.steps("watch") == 1 + RECORDED_FIRST, done.report
    assert done.steps("steady") > 0


def test_plans_know_how_much_the_spill_file_holds(zygote: Zygote) -> None:
    done = zygote.same(
        "steady.every_step_the_same",
        {
            "EBBTIDE_BUDGET": "6MiB",
            "EBBTIDE_OFFLOAD_DIR": str(SPILL),
            "EBBTIDE_OFFLOAD_LIMIT": "3MiB",
        },
    )
    assert done.report["signatures"]["plans_made"] > 0, done.lines
    assert done.spilled > 3 << 20
    assert not any("no more offloading" in line for line in done.lines)


def test_a_pair_that_differs_is_recorded_from_the_next_on(zygote: Zygote) -> None:
    assert steadily(zygote, "fewer_saves").state != "steady"


def test_a_pair_that_an_exception_has_ended_is_over(zygote: Zygote) -> None:
    done = steadily(zygote, "exception_in_backward")
    # With the failing one: another has begun behind it.
    assert done.report["steps"] == steady.STEPS + 1, done.report
