"""Numbers that change from step to step: a running average, an annealed weight.

Each made another kind of step of every step, so that no plan was ever made, and `fit`
had no answer.
"""

import pytest

import cases
import harness
from run import run

PROGRAMS = [
    *(f"meter {kind}" for kind in ("none", "average", "anneal")),
    *(f"item {kind}" for kind in ("item", "tensor", "attached", "clip")),
]


@pytest.mark.parametrize("words", PROGRAMS)
def test_steps_that_differ_in_a_number_are_of_one_kind(words: str) -> None:
    report = cases.same(words, "20MiB", "--strict").report
    # A first step may lack what the later ones add to.
    assert report["signatures"]["remembered"] <= 3
    assert report["signatures"]["plans_made"] > 0
    assert report["over_budget_steps"] == 0


@pytest.mark.parametrize("words", ["meter anneal", "item attached"])
def test_fit_answers_where_a_number_changes(words: str) -> None:
    done = run([harness.EBBTIDE, "fit", "--", *cases.program(words)])
    assert done.returncode == 0, done.stderr
