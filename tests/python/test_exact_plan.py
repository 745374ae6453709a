"""`ebbtide plan --solver checkmate`: the exact solver, in the program alone."""

import json
from pathlib import Path
from typing import Any

import pytest

import harness
from run import PYTHON, run

PROGRAM = harness.EBBTIDE

TRAINING = """
import torch
from torch import nn
model = nn.Sequential(*[layer for _ in range(4)
                        for layer in (nn.Linear(256, 256), nn.Tanh())])
x = torch.randn(256, 256)
for _ in range(4):
    model.zero_grad()
    model(x).sigmoid().mean().backward()
with open("/proc/self/maps") as maps:
    print("libhighs" in maps.read())
"""


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded job whose process has not seen the solver."""
    path = Path(tmp_path_factory.mktemp("trace")) / "run.ebbtide"
    done = run([PROGRAM, "run", f"--record={path}", "--", PYTHON, "-c", TRAINING])
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr
    return path


def plan(trace: Path, solver: str, budget: int, *more: str | Path) -> dict[str, Any]:
    words = ["--solver", solver, "--budget", f"{budget}B"]
    done = run([PROGRAM, "plan", trace, "--json", *words, *more])
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_exact_plan_is_the_fastest_and_valid(trace: Path, tmp_path: Path) -> None:
    peak = plan(trace, "keep", 1 << 30)["peak"]
    out = tmp_path / "plan.json"
    exact = plan(trace, "checkmate", peak - 1, "--time-limit", "10", "-o", out)
    graph = plan(trace, "graph", peak - 1, "--time-limit", "1")
    assert exact["solver"] == "checkmate"
    assert exact["peak"] < peak
    assert any(action["do"] == "recompute" for action in exact["actions"])
    assert graph["lower_bound_time"] <= exact["lower_bound_time"] == exact["time"]
    assert exact["time"] <= graph["time"]
    checked = run([PROGRAM, "check", trace, out])
    assert checked.returncode == 0, checked.stderr


def test_a_budget_that_nothing_fits_is_answered_with_no(trace: Path) -> None:
    words = ["--solver", "checkmate", "--budget", "1MiB"]
    done = run([PROGRAM, "plan", trace, *words])
    assert done.returncode == 1
    assert "solver checkmate has no plan within 1.00 MiB" in done.stderr
