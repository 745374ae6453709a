"""Trainers people use (trainers/): the same numbers below a lower peak."""

from pathlib import Path

import pytest

from trainers_bench import TRAINERS, budget_for, execute

SHORT = ("... with LoRA (PEFT)", "torchvision, as its reference")
# Their other bytes alone are above that budget: the floor is printed.
BELOW_THE_FLOOR = (
    *("... with gradient_checkpointing", "... with both"),
    "timm, as its train.py",
)
RESUMED = ("transformers Trainer", "Lightning Trainer", "accelerate, bfloat16")


def marked(name: str) -> object:
    return pytest.param(name, marks=() if name in SHORT else pytest.mark.long)


@pytest.mark.parametrize("name", [marked(name) for name in TRAINERS])
def test_a_trainer_does_not_notice(name: str) -> None:
    words = TRAINERS[name]
    plain = execute(words)
    assert len(plain.printed) > 6
    assert plain.lines == []
    counted = execute(words, EBBTIDE_RECORD="/dev/null")
    # The control: two runs without a budget are equal.
    assert counted.printed == plain.printed
    budget = budget_for(counted)
    done = execute(words, EBBTIDE_BUDGET=f"{budget}B")
    assert done.printed == plain.printed, done.lines
    assert done.report["peak"] < counted.report["peak"], done.lines
    if name in BELOW_THE_FLOOR:
        assert "the budget is below the floor of" in done.lines[-1], done.lines
        return
    assert done.report["peak"] <= budget < counted.report["peak"], done.lines
    assert done.report["over_budget_steps"] == 0, done.lines
    assert len(done.lines) == 1, done.lines


@pytest.mark.parametrize(
    "name", ["torchvision, as its reference", *map(marked, RESUMED)]
)
def test_a_checkpoint_is_resumed_under_another_budget(
    name: str, tmp_path: Path
) -> None:
    words = TRAINERS[name]
    counted = execute(words, EBBTIDE_RECORD="/dev/null")
    endings = {}
    for way, (first, then) in {
        "unmanaged": ("", ""),
        "managed": (f"{budget_for(counted)}B", f"{budget_for(counted) * 5 // 4}B"),
    }.items():
        folder = tmp_path / way
        folder.mkdir()
        where = ("--folder", str(folder))
        begun = execute(words, *where, "--steps", "3", EBBTIDE_BUDGET=first)
        ended = execute(words, *where, "--resume", EBBTIDE_BUDGET=then)
        assert begun.printed[-1] != ended.printed[-1]
        endings[way] = begun.printed + ended.printed
    assert endings["managed"] == endings["unmanaged"]
