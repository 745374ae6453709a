"""Steps of many kinds: each kind has its plan, and is recognised by its first ops."""

import pytest

from programs import shapes
from same import SPILL, Outcome, Zygote


def within(
    zygote: Zygote, case: str, usual: str, share: float, **variables: str
) -> Outcome:
    """The case at a share of the saved bytes of another's step; no offloading by
    itself."""
    counted = zygote.same(f"shapes.{usual}", {"EBBTIDE_RECORD": "/dev/null"})
    activations = int(counted.report["peak_activations"])
    budget = int(counted.report["persistent"]) + int(share * activations)
    env = {"EBBTIDE_BUDGET": f"{budget}B", "EBBTIDE_OFFLOAD_DIR": "none"}
    done = zygote.same(f"shapes.{case}", env | variables, seconds=200)
    assert done.report["over_budget_steps"] == 0
    assert done.replayed + done.spilled > 0
    return done


def followed(done: Outcome, at_least: float) -> bool:
    """True if so many steps were as planned, or plans were slower than none.

    On a busy machine they may be measured so.
    """
    given_up = any("slower than evicting" in line for line in done.lines)
    return given_up or done.steps("active") + done.steps("steady") >= at_least


def test_each_of_forty_lengths_has_its_plan(zygote: Zygote) -> None:
    done = within(zygote, "forty_lengths", "longest", 0.6)
    kinds = done.report["signatures"]
    assert kinds["remembered"] <= kinds["bound"] == 128
    # About half of them are short of memory.
    assert kinds["plans_made"] >= 15
    # A length comes four times, and two of those are watched.
    assert followed(done, 1.5 * kinds["plans_made"]), done.report


def test_fewer_are_remembered_than_there_are(zygote: Zygote) -> None:
    done = within(zygote, "ten_lengths", "longest", 0.6, EBBTIDE_SIGNATURES="4")
    kinds = done.report["signatures"]
    assert kinds["bound"] == 4
    assert kinds["remembered"] == 4


@pytest.mark.long
def test_forty_lengths_ten_times(zygote: Zygote) -> None:
    done = within(zygote, "forty_lengths_ten_times", "longest", 0.6)
    kinds = done.report["signatures"]
    assert kinds["remembered"] <= kinds["bound"]
    assert followed(done, 5 * kinds["plans_made"]), done.report


def test_tasks_by_turns_have_a_plan_each(zygote: Zygote) -> None:
    done = within(zygote, "two_tasks", "two_tasks", 0.75)
    assert done.report["signatures"]["plans_made"] >= 2
    # All but two pairs of each that are watched.
    assert followed(done, 10), done.report


def test_a_tape_that_another_begins_with(zygote: Zygote) -> None:
    case = "one_goes_on_where_the_other_ends"
    done = within(zygote, case, case, 0.6)
    assert done.report["signatures"]["plans_made"] >= 2
    assert followed(done, 10), done.report


def test_a_short_batch_does_not_cost_the_rule_its_plan(zygote: Zygote) -> None:
    done = within(zygote, "a_short_batch_at_each_end", "longest", 0.6)
    assert done.report["signatures"]["plans_made"] >= 2
    assert followed(done, 16), done.report


@pytest.mark.parametrize("case", ["two_tasks", "a_short_batch_at_each_end"])
def test_by_turns_with_spilling(zygote: Zygote, case: str) -> None:
    usual = {"two_tasks": "two_tasks"}.get(case, "longest")
    done = within(zygote, case, usual, 0.75, EBBTIDE_OFFLOAD_DIR=str(SPILL))
    assert followed(done, 1), done.report
    assert done.report["signatures"]["plans_made"] >= 2


def test_a_bound_that_is_none(zygote: Zygote) -> None:
    env = {"EBBTIDE_SIGNATURES": "0", "EBBTIDE_BUDGET": "1GiB"}
    done = zygote.run("shapes.longest", env)
    assert "EBBTIDE_SIGNATURES=0: expected a number from 1 on" in done.errors


def test_the_lengths_are_forty() -> None:
    assert len(set(shapes.LENGTHS)) == 40
