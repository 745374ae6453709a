"""Random programs do what they do without us (programs/stress.py)."""

import pytest

from same import RECOMPUTE, SPILLING, Zygote


def run(zygote: Zygote, seeds: range) -> None:
    evicted = {"none": 0, "folder": 0}
    for seed in seeds:
        case = f"stress.seed_{seed}"
        for folder, environment in (("none", RECOMPUTE), ("folder", SPILLING)):
            done = zygote.same(case, environment)
            assert not any("off:" in line for line in done.lines), done.lines
            evicted[folder] += done.replayed + done.spilled
    assert min(evicted.values()) > 5 * len(seeds), evicted


def test_random_programs(zygote: Zygote) -> None:
    run(zygote, range(30))


@pytest.mark.long
def test_many_random_programs(zygote: Zygote) -> None:
    run(zygote, range(30, 400))
