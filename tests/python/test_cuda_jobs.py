"""The jobs train on the simulated device, under budgets, with the same bits."""

import dataclasses
import functools
import itertools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import harness
import simulator
from run import PYTHON, our_lines, run

PROGRAM = harness.ROOT / "tests" / "python" / "programs" / "cuda_job.py"
SCHEDULES = ("eager", "ontime", "late", "race", "random")
FEW = ("late", "race")  # the two that find most
LONG = bool(os.environ.get("EBBTIDE_LONG"))
TINY = 16 << 10

# Arguments, and how much of what autograd holds has to go. PyTorch's allocator
# reserves pieces of 2 or 20 MiB: far below these budgets what stays alive keeps too
# many of them.
JOBS = {
    "gpt": (("--size", "small", "--batch", "16", "--steps", "4"), (0.2, 0.35, 0.5)),
    "resnet": (("--size", "full", "--steps", "3"), (0.1, 0.2, 0.3)),
    "unet": (("--size", "full", "--steps", "3"), (0.1, 0.2, 0.3)),
    "encdec": (("--size", "full", "--steps", "3"), (0.2, 0.4, 0.6)),
    "lstm": (("--size", "full", "--steps", "2"), (0.2, 0.4, 0.6)),
}
# Long enough for a plan to be settled on, and for an arena to follow it.
STEADY = {
    "gpt": ("--size", "small", "--batch", "48", "--steps", "80"),
    "resnet": ("--size", "full", "--batch", "64", "--steps", "60"),
    "unet": ("--size", "full", "--steps", "56"),
    "encdec": ("--size", "full", "--steps", "44"),
    "lstm": ("--size", "full", "--steps", "30"),
}
# PyTorch's allocator has the device's memory in these, for large requests.
SEGMENT = 2 << 20


@dataclasses.dataclass
class Trained:
    """The output of a job, its remaining memory, and ebbtide's lines."""

    result: list[str]  # losses and the hash
    left: dict[str, Any]
    report: dict[str, Any]
    lines: list[str]


def train(name: str, schedule: str, environment: Mapping[str, str]) -> Trained:
    job, _, is_steady = name.partition("-")
    arguments = STEADY[job] if is_steady else JOBS[job][0]
    done = run(
        [PYTHON, PROGRAM, schedule, job, *arguments],
        PYTHONPATH=f"{simulator.FACE}:{harness.JOBS}",
        **simulator.SMALL_WORKSPACES,
        **environment,
    )
    assert done.returncode == 0, done.stderr
    result, left = simulator.trained(done.stdout)
    report = environment.get("EBBTIDE_REPORT")
    return Trained(
        result,
        left,
        json.loads(Path(report).read_text()) if report else {},
        our_lines(done.stderr),
    )


@functools.cache
def unmanaged(name: str) -> Trained:
    """The control, two unmanaged runs being equal, is checked."""
    first, second = (train(name, schedule, {}) for schedule in ("eager", "late"))
    assert first.result == second.result
    assert first.left["peak"] == second.left["peak"]
    assert first.lines == []
    return first


def managed(name: str, schedule: str, folder: Path, **variables: str) -> Trained:
    report = {"EBBTIDE_REPORT": str(folder / f"{name}-{schedule}.json")}
    trained = train(name, schedule, report | variables)
    assert trained.result == unmanaged(name).result, trained.lines
    left = trained.left
    assert (left["broken"], left["hazards"]) == (None, [])
    # Memory that the job has released is not held otherwise; the last graph is a tiny
    # one.
    assert left["live"] - unmanaged(name).left["live"] < TINY
    assert left["in_snapshot"] == left["reserved"]
    assert left["active_in_snapshot"] == left["live"]
    assert not any("off:" in line for line in trained.lines), trained.lines
    return trained


@functools.cache
def watched(name: str, folder: Path) -> Trained:
    return managed(name, "late", folder, EBBTIDE_RECORD="/dev/null")


def budget(name: str, share: float, folder: Path) -> int:
    """Most that is alive in the job, less that share of what autograd holds."""
    job = watched(name, folder)
    saved = job.report["peak_activations"]
    return int(job.left["allocated_peak"] - share * saved)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "gpt" else pytest.mark.long)
        for name in JOBS
    ],
)
def test_a_job_keeps_its_bits_within_three_budgets(name: str, tmp_path: Path) -> None:
    every = list(itertools.product(JOBS[name][1], SCHEDULES))
    # Eight of fifteen: each budget and each schedule.
    for share, schedule in every if LONG else every[::2]:
        limit = budget(name, share, tmp_path)
        done = managed(name, schedule, tmp_path, EBBTIDE_BUDGET=f"{limit}B")
        assert done.left["reserved_peak"] <= limit
        report = done.report
        assert report["ops_replayed"] + report["bytes_spilled"] > 0, done.lines


@pytest.mark.parametrize(
    ("variables", "recomputes", "moves"),
    [
        ({"EBBTIDE_OFFLOAD_DIR": "none"}, True, False),
        ({"EBBTIDE_RECOMPUTE": "0"}, False, True),
    ],
)
def test_each_way_alone_keeps_the_bits(
    variables: dict[str, str], recomputes: bool, moves: bool, tmp_path: Path
) -> None:
    limit = budget("gpt", 0.3, tmp_path)
    for schedule in SCHEDULES if LONG else FEW:
        done = managed(
            "gpt", schedule, tmp_path, EBBTIDE_BUDGET=f"{limit}B", **variables
        )
        assert (done.report["ops_replayed"] > 0) == recomputes
        assert (done.report["bytes_spilled"] > 0) == moves


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(name, marks=() if name == "gpt" else pytest.mark.long)
        for name in STEADY
    ],
)
def test_steps_that_repeat_are_served_from_planned_addresses(
    job: str, tmp_path: Path
) -> None:
    name = f"{job}-steady"
    limit = budget(name, JOBS[job][1][1], tmp_path)
    for schedule in SCHEDULES if LONG else FEW:
        done = managed(
            *(name, schedule, tmp_path),
            EBBTIDE_BUDGET=f"{limit}B",
            EBBTIDE_TEST_WAIT="1",
        )
        assert done.left["reserved_peak"] <= limit
        arena = done.report["cuda"]["devices"]["cuda:0"]["arena"]
        assert arena["state"] == "serving", arena
        assert arena["planned"] > 1000, arena
        # Four steps of another plan may come before it is laid out for that.
        assert arena["elsewhere"] < arena["planned"] / 5, arena
        # Only the last graphs of the process are others.
        assert arena["retreats"] <= 2, arena
        assert arena["height"] <= 1.01 * arena["bound"], arena
        # A step reserves what it is planned to take, in whole pages, and what lies
        # beside it. The last graphs may have been laid out anew.
        reserved = min(done.left["reserved_peaks"][1:-2]) - arena["beside"]
        assert reserved >= arena["height"], arena
        assert reserved <= 1.01 * arena["height"] + SEGMENT, arena


def test_random_plans_keep_the_bits(tmp_path: Path) -> None:
    limit = budget("gpt", 0.1, tmp_path)
    for seed, schedule in itertools.product("12", SCHEDULES if LONG else FEW):
        done = managed(
            *("gpt", schedule, tmp_path),
            EBBTIDE_BUDGET=f"{limit}B",
            EBBTIDE_TEST_PLANS=seed,
        )
        assert done.report["signatures"]["plans_made"] > 0
