"""Random programs on the simulated device do what they do without us, whatever plan
is followed and in whatever order the device works, and nothing is left of them
(cuda_seeds.py, which also runs one seed alone)."""

import collections

import pytest

from cuda_seeds import SCHEDULES, Totals, run, zygote

EACH = 50  # seeds of a test


def run_all(first: int) -> None:
    """Among these, memory must have been given back in every way there is."""
    totals: Totals = collections.Counter()
    with zygote() as process:
        for seed in range(first, first + EACH):
            run(process, seed, totals)
    for done in ("active", "replayed", "spilled", "restored", *SCHEDULES):
        assert totals[done] > 0, totals


@pytest.mark.parametrize("first", range(0, 200, EACH))
def test_random_programs(first: int) -> None:
    run_all(first)


def test_what_memory_is_too_short_to_rebuild_is_out_of_memory() -> None:
    """A kept graph whose weights were written: it was another error."""
    with zygote() as process:
        run(process, 1043, collections.Counter())


@pytest.mark.long
@pytest.mark.parametrize("first", range(200, 10_000, EACH))
def test_many_random_programs(first: int) -> None:
    run_all(first)
