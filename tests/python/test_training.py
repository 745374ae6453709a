"""Random training loops do what they do without us (programs/training.py), on
demand and under random plans, spilling and not, alone and two at once."""

import collections
import random
from collections.abc import Iterable

import pytest

from same import RECOMPUTE, SPILL, SPILLING, Outcome, Zygote

Totals = collections.Counter[str]


def check(case: str, done: Outcome) -> None:
    """Nothing is left over, and what did not fit has been told."""
    assert not any("off:" in line for line in done.lines), (case, done.lines)
    assert done.report["held"]["saved_tensors"] == 0, (case, done.report)
    assert done.report["held"]["disk"] == 0, (case, done.report)
    grown = done.work.get("grown", {})
    assert not any(grown.values()), (case, grown)
    if done.report["over_budget_steps"] > 0:
        assert any("over budget: " in line for line in done.lines), (case, done.lines)


def count(totals: Totals, mode: str, done: Outcome) -> None:
    totals[f"{mode} shadow"] += done.steps("shadow")
    totals[f"{mode} active"] += done.steps("active")
    totals[f"{mode} steady"] += done.steps("steady")
    totals[f"{mode} replayed"] += done.replayed
    totals[f"{mode} spilled"] += done.spilled
    totals[f"{mode} restored"] += int(done.report["bytes_restored"])
    totals[f"{mode} over"] += done.report["over_budget_steps"]
    totals[f"{mode} steps"] += done.report["steps"]


def run(zygote: Zygote, cases: Iterable[str]) -> Totals:
    totals: Totals = collections.Counter()
    for case in cases:
        name = f"training.{case}"
        draw = random.Random(case)
        wanted = int(zygote.same(name, {"EBBTIDE_RECORD": "/dev/null"}).report["peak"])
        for folder, forced in (("none", RECOMPUTE), (str(SPILL), SPILLING)):
            evicted = zygote.same(name, forced)
            check(case, evicted)
            # What eviction on demand gets down to, and a little more.
            least = min(wanted, int(evicted.report["peak"] * 1.05))
            for mode in ("demand", "plans"):
                budget = least + draw.random() * (wanted - least)
                env = {"EBBTIDE_BUDGET": f"{int(budget)}B", "EBBTIDE_SPILL_DIR": folder}
                if mode == "plans":
                    env["EBBTIDE_TEST_PLANS"] = str(draw.randrange(1 << 30))
                done = zygote.same(name, env)
                check(case, done)
                kind = "moving" if folder != "none" else "rebuilding"
                count(totals, f"{kind} {mode}", done)
    return totals


@pytest.mark.parametrize("first", range(0, 20, 5))
def test_random_training_loops(zygote: Zygote, first: int) -> None:
    totals = run(zygote, (f"seed_{seed}" for seed in range(first, first + 5)))
    print(totals)
    raise AssertionError


@pytest.mark.parametrize("first", range(0, 8, 4))
def test_two_random_training_loops_at_once(zygote: Zygote, first: int) -> None:
    totals = run(zygote, (f"both_{seed}" for seed in range(first, first + 4)))
    print(totals)
    raise AssertionError


@pytest.mark.long
@pytest.mark.parametrize("first", range(20, 320, 25))
def test_many_random_training_loops(zygote: Zygote, first: int) -> None:
    run(zygote, (f"seed_{seed}" for seed in range(first, first + 25)))


@pytest.mark.long
@pytest.mark.parametrize("first", range(8, 308, 25))
def test_many_random_training_loops_at_once(zygote: Zygote, first: int) -> None:
    run(zygote, (f"both_{seed}" for seed in range(first, first + 25)))
