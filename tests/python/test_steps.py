"""The number of a run's steps: the same wherever it is printed."""

import json
import re
from pathlib import Path
from subprocess import CompletedProcess

import pytest

import harness
from run import PYTHON, run
from same import SPILL
from trace_file import Trace

PROGRAM = harness.EBBTIDE
TRAINING = """
import sys, torch, ebbtide
from torch import nn

steps, wrong = int(sys.argv[1]), int(sys.argv[2])
model = nn.Sequential(*[layer for _ in range(6)
                        for layer in (nn.Linear(256, 256), nn.Tanh())])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(512, 256)
for step in range(steps):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    if step == wrong:
        raise RuntimeError("of the script")
    loss.backward()
    optimizer.step()
    counted = ebbtide.report()
    assert counted["steps"] == step + 1 == len(counted["step_times"]), counted
    assert sum(counted["steps_by_state"].values()) == step + 1, counted
"""


def train(folder: Path, steps: int, wrong: int, budget: str) -> "CompletedProcess[str]":
    options = [f"--budget={budget}", f"--offload-dir={SPILL}"]
    files = [f"--record={folder / 'run.ebbtide'}", f"--report={folder / 'report.json'}"]
    words = [PYTHON, "-c", TRAINING, str(steps), str(wrong)]
    return run([PROGRAM, "run", *options, *files, "--", *words], EBBTIDE_LOG="debug")


def counts(folder: Path, errors: str) -> dict[str, list[int]]:
    """The number of steps, by the place that prints it."""
    said = {"closing line": [int(n) for n in re.findall(r", (\d+) steps; ", errors)]}
    rows = [int(n) for n in re.findall(r"ebbtide: step (\d+), ", errors)]
    assert rows == list(range(1, len(rows) + 1))
    said["progress"] = [len(rows)]
    report = json.loads((folder / "report.json").read_text())
    said["report"] = [
        report["steps"],
        len(report["step_times"]),
        len(report["step_peaks"]),
        sum(report["steps_by_state"].values()),
    ]
    trace = folder / "run.ebbtide"
    said["trace"] = [sum(step.end > 0 for step in Trace(trace).steps)]
    explained = run([PROGRAM, "explain", trace]).stdout
    said["explain"] = [int(n) for n in re.findall(r"run: (\d+) steps", explained)]
    page = folder / "page.html"
    assert run([PROGRAM, "timeline", trace, "-o", page]).returncode == 0
    text = re.search(r'id="data">(.*?)</script>', page.read_text(), re.S)
    assert text is not None
    data = json.loads(text[1])
    said["timeline"] = [data["whole_steps"], sum(s[2] >= 0 for s in data["steps"])]
    return said


@pytest.mark.parametrize("budget", ["6MiB", "5MiB"])
def test_twelve_steps_are_twelve_everywhere(tmp_path: Path, budget: str) -> None:
    done = train(tmp_path, 12, -1, budget)
    assert done.returncode == 0, done.stderr
    for who, numbers in counts(tmp_path, done.stderr).items():
        assert set(numbers) == {12}, (who, numbers, done.stderr)
    # Nothing is begun that the program has not begun.
    assert len(Trace(tmp_path / "run.ebbtide").steps) == 12


def test_a_step_that_an_error_ends_does_not_count(tmp_path: Path) -> None:
    done = train(tmp_path, 12, 5, "6MiB")
    assert "RuntimeError: of the script" in done.stderr
    for who, numbers in counts(tmp_path, done.stderr).items():
        assert set(numbers) == {5}, (who, numbers, done.stderr)
    begun = Trace(tmp_path / "run.ebbtide").steps
    assert [step.end > 0 for step in begun] == 5 * [True] + [False]


def test_a_run_that_rests_says_that_it_has_not_seen_all(tmp_path: Path) -> None:
    done = run(
        [PYTHON, "-c", TRAINING.partition("    counted")[0], "12", "-1"],
        EBBTIDE_BUDGET="1GiB",
        EBBTIDE_REPORT=str(tmp_path / "report.json"),
    )
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["rests"] == 1
    assert 0 < report["steps"] < 12
    assert sum(report["steps_by_state"].values()) == report["steps"]
    (line,) = [each for each in done.stderr.splitlines() if "ebbtide: " in each]
    assert line.endswith(f", {report['steps']} steps watched")
