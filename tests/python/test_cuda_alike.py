"""Random programs on the simulated device whose steps look alike, but differ in a
number, a mask, a branch, a module, a rate or Python's noise, have the bits of their
unmanaged runs under plans (programs/cuda_alike.py)."""

import collections

import pytest

from cuda_seeds import Totals, run, zygote

EACH = 12  # seeds of a test: two of each kind of difference
ALL = 200
PROGRAM = "cuda_alike"


def run_all(first: int, last: int) -> None:
    """Most of these must follow a plan, recompute, and only then begin to differ."""
    totals: Totals = collections.Counter()
    with zygote(PROGRAM) as process:
        for seed in range(first, last):
            done = run(process, seed, totals, PROGRAM)
            before = done.work["before changes"]
            totals["differ under a plan"] += before["followed"] > 0
            totals["recompute"] += done.replayed > 0
    assert totals["runs"] == last - first
    assert totals["differ under a plan"] >= (last - first) / 2, totals
    assert totals["recompute"] >= (last - first) / 2, totals


def test_steps_that_only_look_alike() -> None:
    run_all(0, EACH)


def test_a_backward_pass_that_fails_turns_the_recorder_on_again() -> None:
    """The first op of the next step was not recorded, and tried one step later."""
    with zygote(PROGRAM) as process:
        run(process, 19, collections.Counter(), PROGRAM)


@pytest.mark.long
@pytest.mark.parametrize("first", range(EACH, ALL, 47))
def test_many_steps_that_only_look_alike(first: int) -> None:
    run_all(first, min(first + 47, ALL))
