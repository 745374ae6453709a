"""Jobs live within budgets from the planner's floor to the unmanaged peak."""

import functools
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import budget_matrix
import harness
from budget_matrix import ALLOCATORS, JOBS, WAYS, Ends, Run
from run import run
from same import Zygote

LONG = bool(os.environ.get("EBBTIDE_LONG"))
BUDGETS = 20 if LONG else 3
STEPS = 60 if LONG else 12
# A step of the Trainer has two passes, and all are of other lengths.
TRAINER_STEPS = 60 if LONG else 6
STEADY_STEPS = 40
# The jobs of bench/jobs, whose numbers can be computed.
EXACT_JOBS = JOBS[3:]
EXACT_STEPS = 6

# Ends of the jobs as ./dev test has them, by `budget_matrix.ends`; ./dev long, whose
# models are deeper, finds its own.
ENDS = {
    "lm": Ends(825182720, 825182720, 1302331392, 1317011456),
    "llama": Ends(889529344, 889267200, 1619001344, 1677721600),
    "trainer": Ends(949780992, 948732416, 2174746624, 1499463680),
    "gpt": Ends(1283124224, 1215168000, 6213861376, 6144655360),
    "resnet": Ends(616384000, 616384000, 1516240896, 1189085184),
    "unet": Ends(1444115968, 1444115968, 2520776704, 2281701376),
    "encdec": Ends(921539072, 921539072, 7516192768, 7220494336),
    "lstm": Ends(2429167616, 2429167616, 5731516416, 5727322112),
}


def cells(*short: str) -> Iterator[Any]:
    """Job, allocator and way; all but `short`, where it is given, are long."""
    for job, allocator, way in itertools.product(JOBS, ALLOCATORS, WAYS):
        name = f"{job}-{allocator}-{way}"
        marks: list[Any] = []
        if short and name not in short:
            marks.append(pytest.mark.long)
        yield pytest.param(job, allocator, way, id=name, marks=marks)


@pytest.fixture(scope="module")
def process() -> Iterator[Zygote]:
    with budget_matrix.device() as zygote:
        yield zygote


@functools.cache
def ends(process: Zygote, job: str) -> Ends:
    return budget_matrix.ends(process, job, deep=True) if LONG else ENDS[job]


def budgets(process: Zygote, job: str, allocator: str, way: str) -> list[int]:
    return ends(process, job).budgets(allocator, way, BUDGETS)


@pytest.mark.parametrize(("job", "allocator", "way"), cells())
def test_a_job_lives_within_each_budget(
    process: Zygote, job: str, allocator: str, way: str
) -> None:
    sizes = budgets(process, job, allocator, way)
    if not LONG:  # each of a job's budgets once, in one way or another
        turn = (JOBS.index(job) + list(WAYS).index(way)) % len(sizes)
        sizes = sizes[turn : turn + 1]
    complaints: list[str] = []
    for size in sizes:
        steps = TRAINER_STEPS if job == "trainer" else STEPS
        run = Run(job, allocator, way, size, steps, deep=LONG)
        done = budget_matrix.start(process, job, run.environment)
        complaints += budget_matrix.complaints(run, done)
    assert complaints == []


@pytest.mark.parametrize(
    ("job", "allocator", "way"),
    cells("lm-native-recompute", "encdec-native-recompute"),
)
def test_a_plan_uses_the_whole_budget(
    process: Zygote, job: str, allocator: str, way: str
) -> None:
    _, size, _ = ends(process, job).budgets(allocator, way, 3)
    run = Run(job, allocator, way, size, STEADY_STEPS, deep=LONG)
    done, used = budget_matrix.follow(
        process, run, getattr(ends(process, job), allocator)
    )
    assert list(budget_matrix.complaints(run, done)) == []
    assert used is not None, f"{run}: no plan is followed at its end"
    print(f"{run}: {used}")
    assert list(used.complaints(with_time=LONG)) == []


def test_a_step_that_follows_a_plan_evicts_no_more_than_planned(
    process: Zygote, tmp_path: Path
) -> None:
    size, *_ = ENDS["gpt"].budgets("native", "recompute", BUDGETS)
    trace = tmp_path / "run.ebbtide"
    environment = Run("gpt", "native", "recompute", size, STEPS).environment
    done = budget_matrix.start(
        process, "gpt", environment | {"EBBTIDE_RECORD": str(trace)}, finish=True
    )
    assert done.exit == 0, done.errors
    (plan,) = done.report["plans"]
    assert len(plan["steps"]) >= 5
    evictions = evictions_by_step(trace, tmp_path / "trace.json")
    for step in plan["steps"]:
        assert set(evictions[step]) == {"plan"}


def evictions_by_step(trace: Path, path: Path) -> dict[int, list[str]]:
    """For each step, "plan" or "demand" for each eviction, by what asked for it."""
    page = run([harness.EBBTIDE, "timeline", trace, "-o", path])
    assert page.returncode == 0, page.stderr
    events = json.loads(path.read_text())["traceEvents"]
    begins = {
        event["ts"]: int(event["name"].removeprefix("step "))
        for event in events
        if event["ph"] == "X" and event["name"].startswith("step ")
    }
    evictions: dict[int, list[str]] = {}
    for event in events:
        if event.get("cat") in ("drop", "offload"):
            begin = max(ts for ts in begins if ts <= event["ts"])
            evictions.setdefault(begins[begin], []).append(event["args"]["by"])
    return evictions


@pytest.mark.long
@pytest.mark.parametrize("allocator", ALLOCATORS)
@pytest.mark.parametrize("job", EXACT_JOBS)
def test_a_job_keeps_its_bits_in_each_way(job: str, allocator: str) -> None:
    with budget_matrix.device(exact=True) as process:
        found = budget_matrix.ends(process, job, exact=True)
        plain = budget_matrix.unmanaged(
            process, job, allocator, EXACT_STEPS, deep=False, exact=True
        )
        expected = budget_matrix.printed(plain)
        assert len(expected) > EXACT_STEPS
        for way in WAYS:
            _, size, _ = found.budgets(allocator, way, 3)
            run = Run(job, allocator, way, size, EXACT_STEPS, exact=True)
            done = budget_matrix.start(process, job, run.environment)
            assert done.notes == plain.notes
            assert list(budget_matrix.complaints(run, done, expected)) == []
