"""A run that is killed leaves a trace that lacks only its last instants."""

import json
import random
import re
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from run import PYTHON, clean_environment, run
from test_timeline_command import PROGRAM, timeline
from trace_file import Trace

# Says after each step when it was, by the clock that the trace has.
TRAINING = """
import time, torch
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(6)])
x = torch.randn(1024, 256)
while True:
    model.zero_grad()
    model(x).sigmoid().mean().backward()
    print(time.monotonic_ns(), flush=True)
"""
MANY_OPS = """
import torch
x = torch.randn(128, 128, requires_grad=True)
for _ in range(3):
    y = x
    for _ in range(2000):
        y = y.sigmoid()
    y.mean().backward()
"""
MOST_LOST = 1_000_000_000  # nanoseconds


def killed_after(seconds: float, environment: Mapping[str, str]) -> list[int]:
    """Steps that ended before the kill, as the job saw it."""
    process = subprocess.Popen(
        [PYTHON, "-c", TRAINING],
        env={**clean_environment(), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    time.sleep(seconds)
    process.kill()
    output, errors = process.communicate()
    assert process.returncode == -signal.SIGKILL, errors
    # The last line may be cut off.
    return [int(line) for line in (first + output).split("\n")[:-1]]


def check(seconds: float, budget: str | None, folder: Path) -> None:
    trace = folder / "run.ebbtide"
    environment = {"EBBTIDE_RECORD": str(trace)}
    if budget is not None:
        environment["EBBTIDE_BUDGET"] = budget
    ended = killed_after(seconds, environment)
    killed = ended[-1]
    read = Trace(trace)
    assert not read.complete
    # A step's record is written when the next one begins.
    told = [step.end for step in read.steps if step.end]
    expected = sum(end < killed - MOST_LOST for end in ended)
    assert len(told) >= expected - 1
    assert len(read.events) >= expected
    if ended[0] < killed - MOST_LOST:
        assert read.last > killed - MOST_LOST
    page = folder / "out.html"
    done = run([PROGRAM, "timeline", trace, "-o", page])
    assert done.returncode == 0
    assert '"complete":false' in page.read_text()


def moments(count: int) -> list[tuple[float, str | None]]:
    rng = random.Random(9)
    budgets = [None, "8MiB"]
    return [(rng.uniform(0.0, 2.5), budgets[i % 2]) for i in range(count)]


@pytest.mark.parametrize(("seconds", "budget"), moments(4))
def test_nothing_before_the_last_second_is_missing(
    seconds: float, budget: str | None, tmp_path: Path
) -> None:
    check(seconds, budget, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(("seconds", "budget"), moments(100))
def test_nothing_is_missing_wherever_it_was_killed(
    seconds: float, budget: str | None, tmp_path: Path
) -> None:
    check(seconds, budget, tmp_path)


@pytest.mark.parametrize("budget", [None, "8MiB"])
def test_a_trace_without_room_for_all_steps_has_the_last(
    budget: str | None, tmp_path: Path
) -> None:
    trace, report = tmp_path / "run.ebbtide", tmp_path / "report.json"
    script = TRAINING.replace("while True", "for _ in range(100)")
    done = run(
        [PYTHON, "-c", script],
        EBBTIDE_RECORD=f"{trace},max=100KiB",
        EBBTIDE_REPORT=str(report),
        **({} if budget is None else {"EBBTIDE_BUDGET": budget}),
    )
    assert done.returncode == 0, done.stderr
    assert trace.stat().st_size <= 100 << 10
    reported = json.loads(report.read_text())
    read = Trace(trace)
    assert read.complete
    assert read.detail_end == 0
    assert [step.index for step in read.steps] == list(range(100))
    assert len(read.left_out) > 10
    assert read.left_out == sorted(set(read.left_out))
    assert 99 not in read.left_out
    # The recorded part of a step is all of it: live bytes come up to its peak.
    for step in read.steps:
        inside = [e.live for e in read.events if step.begin < e.time < step.end]
        if step.index not in read.left_out:
            # Small blocks are recorded with the next large one.
            assert 0 <= step.peak - max(inside) < 64 << 10
            assert step.peak == reported["step_peaks"][step.index]
        else:
            assert inside == []
    told = run([PROGRAM, "explain", trace])
    assert told.returncode == 0, told.stderr
    assert "run: 100 steps" in told.stdout
    said = re.search(r"of (\d+) steps only times and peaks were recorded", told.stdout)
    assert said is not None
    assert int(said[1]) == len(read.left_out)
    page = timeline(trace, tmp_path / "out.html")
    assert '"recorded_until":-1' in page
    gaps = json.loads(page.split('"gaps":', 1)[1].split(',"budgets"', 1)[0])
    steps = [step for gap in gaps for step in range(gap[0], gap[1] + 1)]
    assert steps == read.left_out
    for name in ("out.json", "out.pickle"):
        done = run([PROGRAM, "timeline", trace, "-o", tmp_path / name])
        assert (done.returncode, done.stderr) == (0, "")


def test_a_first_step_without_room_is_cut_and_says_so(tmp_path: Path) -> None:
    trace = tmp_path / "run.ebbtide"
    done = run([PYTHON, "-c", MANY_OPS], EBBTIDE_RECORD=f"{trace},max=100KiB")
    assert done.returncode == 0, done.stderr
    read = Trace(trace)
    assert read.complete
    assert read.detail_end > 0
    page = timeline(trace, tmp_path / "out.html")
    assert '"recorded_until":-1' not in page


def test_a_wrong_bound_is_named(tmp_path: Path) -> None:
    record = f"{tmp_path}/run.ebbtide,max=1parsec"
    done = run([PYTHON, "-c", "import torch"], EBBTIDE_RECORD=record)
    assert done.returncode == 0
    assert f"EBBTIDE_RECORD={record}" in done.stderr
