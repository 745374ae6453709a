"""`ebbtide fit` answers for programs whose steps differ, and its number holds.

It refused programs in which no step was like the one before it, and planned for one
kind of step where others took more: a graph of another size, an evaluation.
"""

import re

import pytest

import cases
import harness
from run import run

LONG = """accumulate lengths p01_moe_ckpt p08_maml p15_gnn p19_per_sample p23_pinn
p30_varlen p33_kvcache p52_nested p63_pgd"""
PROGRAMS = [
    "evaluates",
    *(pytest.param(name, marks=pytest.mark.long) for name in LONG.split()),
]


def fit(words: str, *options: str) -> str:
    done = run([harness.EBBTIDE, "fit", *options, "--", *cases.program(words)])
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("words", PROGRAMS)
def test_the_recommended_budget_was_tried_and_holds(words: str) -> None:
    said = fit(words)
    last = re.findall(r"^  checked: (\d+) of (\d+) steps were over", said, re.M)[-1]
    assert last[0] == "0" and int(last[1]) > 1, said
    found = re.search(r"^recommended: --budget (\d+MiB),", said, re.M)
    assert found is not None, said
    case = cases.within(words, found[1])
    assert case.status == 0, case.errors
    assert case.report["over_budget_steps"] == 0, (said, case.lines)


def test_without_the_check_the_program_runs_once() -> None:
    said = fit("evaluates", "--no-check")
    assert "recommended: --budget " in said
    assert "checked" not in said
