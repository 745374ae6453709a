"""`ebbtide explain`: how sure a recorded profile's times are, and where it matters."""

import json
import re
from pathlib import Path

import pytest

import harness
from run import PYTHON, run

PROGRAM = harness.EBBTIDE

# One step in the midst is slow in one op.
TRAINING = """
import time, torch
from torch import nn

class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2
    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        if step == 6:
            time.sleep(0.2)
        return gradient * 2

model = nn.Sequential(*[layer for _ in range(4)
                        for layer in (nn.Linear(256, 256), nn.Tanh())])
x = torch.randn(256, 256)
for step in range(10):
    model.zero_grad()
    Slow.apply(model(x)).sigmoid().mean().backward()
"""


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = Path(tmp_path_factory.mktemp("trace")) / "run.ebbtide"
    done = run([PROGRAM, "run", f"--record={path}", "--", PYTHON, "-c", TRAINING])
    assert done.returncode == 0, done.stderr
    return path


def test_ten_ops_at_most_and_the_one_that_was_slow(trace: Path) -> None:
    done = run([PROGRAM, "explain", trace, "--json"])
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    moves = [doubt["moves"] for doubt in answer["doubts"]]
    assert 0 < len(moves) <= 10
    assert moves == sorted(moves, reverse=True)
    assert all(move > 0 for move in moves)
    # What is kept is run once: what it takes longer, the plan does.
    for doubt in answer["doubts"]:
        upper = doubt["median"] + doubt["quartiles"]
        assert doubt["moves"] == pytest.approx(upper - doubt["time"], abs=1)
    slow = answer["outliers"][0]
    assert "Slow" in slow["name"]
    assert slow["most"] > 0.2e9 > 10 * slow["median"]


def test_a_table_for_people(trace: Path) -> None:
    done = run([PROGRAM, "explain", trace])
    assert done.returncode == 0, done.stderr
    measured, plan, header, *rows = done.stdout.splitlines()
    assert re.match(
        r"measured \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ on .*, \d+ MHz, by the host's "
        r"steady clock; ebbtide \d.*, torch 2\.",
        measured,
    )
    assert re.match(r"keep: time .* ms, peak .*iB", plan)
    assert header.split()[0] == "moves"
    assert any(re.search(r"slow once: stage \d+ Slow.* took 2\d\d\.", r) for r in rows)


def test_with_a_budget_the_plan_is_the_one_for_it(trace: Path) -> None:
    kept = json.loads(run([PROGRAM, "explain", trace, "--json"]).stdout)
    words = ["--budget", f"{kept['peak'] - 1}B", "--time-limit", "0.5", "--json"]
    done = run([PROGRAM, "explain", trace, *words])
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["peak"] < kept["peak"]
    done = run([PROGRAM, "explain", trace, "--budget", "1B"])
    assert done.returncode == 1
    assert "infeasible" in done.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "expected a JSON document"),
        ('{"kind":"chain"}', "expected this member, it is missing"),
        (
            '{"kind":"profile","version":1,"values":[],"ops":[],"stages":[],"tail":0,'
            '"tail_time":0,"d2h":0,"h2d":0,"host":-1}',
            "expected the spread of some op, there is none",
        ),
    ],
)
def test_bad_input_is_one_line(text: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "input.json"
    file.write_text(text)
    done = run([PROGRAM, "explain", file])
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"ebbtide: {file}: ")
    assert why in done.stderr


def test_a_bad_budget_is_one_line(trace: Path) -> None:
    done = run([PROGRAM, "explain", trace, "--budget", "much"])
    assert done.returncode == 2
    assert done.stderr.startswith("ebbtide: --budget: ")
