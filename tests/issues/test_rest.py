"""Steps that need more, after steps that fit without a plan.

A job rests once its steps fit. A larger budget let it rest where a smaller one did
not, and what was saved at rest could not be evicted: the pgd program kept 31 MiB and
was over 40 MiB in 14 of its 84 steps.
"""

import pytest

import cases


@pytest.mark.parametrize(
    ("name", "budget"),
    [
        ("p63_pgd", "31MiB"),
        ("p63_pgd", "35MiB"),
        ("p63_pgd", "40MiB"),
        ("p63_pgd", "48MiB"),
        ("p65_more_iterations", "30MiB"),
        ("p65_more_iterations", "45MiB"),
        ("p65_more_iterations", "60MiB"),
        # The optimizer has no state before the fourth backward pass.
        ("accumulate", "48MiB"),
        ("accumulate", "60MiB"),
    ],
)
def test_a_larger_budget_is_held_as_a_smaller_one(name: str, budget: str) -> None:
    case = cases.same(name, budget, "--strict")
    assert case.report["over_budget_steps"] == 0
    assert case.report["peak"] <= case.report["budget"]


def test_a_larger_step_at_rest_gets_a_plan_once_it_comes_again() -> None:
    """It comes every fourth step, so a job that rests after two never records it."""
    report = cases.same("p65_more_iterations", "45MiB").report
    assert report["steps_by_state"]["idle"] > 0
    assert report["plans"]


def test_steps_at_rest_are_counted() -> None:
    report = cases.same("p65_more_iterations", "60MiB").report
    assert report["steps"] == sum(report["steps_by_state"].values()) == 36
