"""Weights leave the simulated device for pinned memory and are back in time."""

from collections.abc import Iterator

import pytest

import harness
import simulator
from programs.weights import ON_CUDA
from run import PYTHON
from run import run as run_program
from same import Outcome, Zygote

SCHEDULES = ("late", "race")
BUDGET = ON_CUDA.state_bytes // 3


@pytest.fixture(scope="module")
def process() -> Iterator[Zygote]:
    environment = simulator.ENVIRONMENT | {"CUDASIM_DEVICES": "2"}
    with Zygote("programs.cuda_weights", environment=environment) as zygote:
        yield zygote


def run(process: Zygote, name: str, schedule: str, **more: str) -> Outcome:
    environment = {"RANDOM_SCHEDULE": schedule, **more}
    done = process.run(f"cuda_weights.{name}", environment, seconds=60)
    assert done.exit == 0, done.errors
    assert dict(done.notes)["device"] == ["None"], "broken, or hazards"
    return done


def moved(process: Zygote, name: str, schedule: str, budget: int = BUDGET) -> Outcome:
    plain = run(process, name, "eager")
    done = run(
        process, name, schedule, EBBTIDE_BUDGET=f"cuda={budget}B", EBBTIDE_WEIGHTS="1"
    )
    assert done.notes == plain.notes, done.lines
    assert done.report["weights"]["is_on"], done.lines
    assert done.report["weights"]["bytes_out"] > 3 * budget
    assert done.work["memory"]["reserved"] <= budget < plain.work["memory"]["reserved"]
    return done


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    "name",
    [
        *("loops", "lists", "fused", "accumulated", "momentum", "tied"),
        *("averaged", "saved", "mixed_lists", "scaled", "on_two_streams"),
    ],
)
def test_three_times_the_budget_trains(
    process: Zygote, name: str, schedule: str
) -> None:
    moved(process, name, schedule)


def test_slices_give_what_the_whole_lists_do(process: Zygote) -> None:
    """Three segments of 2 MiB hold two lists, and ops take up to three."""
    moved(process, "every_list_op", "late", budget=6 << 20)


def test_what_an_op_reads_finds_room_in_a_few_segments() -> None:
    """A GPT in a third of its state, of which one segment of 20 MiB is the most."""
    program = harness.ROOT / "tests" / "python" / "programs" / "cuda_job.py"
    job = ["late", "gpt", "--size", "full", "--batch", "1", "--steps", "3"]
    face = {"PYTHONPATH": f"{simulator.FACE}:{harness.JOBS}"}
    results = []
    for bounds in ({}, {"EBBTIDE_BUDGET": "25888085B", "EBBTIDE_WEIGHTS": "1"}):
        done = run_program(
            [PYTHON, program, *job], **face, **simulator.SMALL_WORKSPACES, **bounds
        )
        assert done.returncode == 0, done.stderr
        results.append(simulator.trained(done.stdout))
    (plain, _), (bounded, left) = results
    assert bounded == plain
    assert left["reserved_peak"] <= 25888085
    assert (left["broken"], left["hazards"]) == (None, [])
