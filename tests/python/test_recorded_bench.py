"""Benches on recorded steps: the half of `./dev bench planner`, and bench blocks."""

import dataclasses
import json
from pathlib import Path

import pytest

import blocks_bench
import harness
import recorded
from run import PYTHON, run

TRAINING = """
import torch
from torch import nn
torch.set_num_threads(1)
model = nn.Sequential(*[layer for _ in range(4)
                        for layer in (nn.Linear(256, 256), nn.Tanh())])
x = torch.randn(512, 256)
for _ in range(5):
    model.zero_grad()
    model(x).sigmoid().mean().backward()
"""
GOOD = recorded.Row("gpt", 229, 85, 40, 1000, 2000, 500, 5.5, 5.0, 9.5, 0.1, "valid")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = Path(tmp_path_factory.mktemp("trace")) / "run.ebbtide"
    program = [PYTHON, "-c", TRAINING]
    done = run([harness.EBBTIDE, "run", f"--record={path}", "--", *program])
    assert done.returncode == 0, done.stderr
    return path


def test_budgets_lie_between_what_stays_and_the_unmanaged_peak(trace: Path) -> None:
    facts = json.loads(recorded.call(recorded.BUDGETS, trace, "0", "50", "100"))
    none, half, full = facts["budgets"]
    kept = recorded.plan(trace, 1 << 40, 1, "--solver", "keep")
    assert full == facts["unmanaged"] == kept["peak"]
    assert none == facts["fixed"] <= facts["floor"]
    assert none < half < full
    assert facts["time"] == kept["time"]


def test_a_row_below_the_floor_names_it(trace: Path) -> None:
    facts = json.loads(recorded.call(recorded.BUDGETS, trace, "0"))
    row = dataclasses.replace(GOOD, budget=facts["floor"] - 1, overhead=None)
    row.proven_floor = facts["floor"]
    recorded.fill(row, trace, facts["time"], 1)
    assert row.verdict.startswith("no plan, least known ")
    assert (row.overhead, row.gap, list(row.complaints())) == (None, None, [])
    row.budget = facts["floor"]
    assert list(row.complaints()) == [f"{row.name}: {row.verdict}"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({}, None),
        ({"overhead": 6.26}, "gpt at 40 %: gap 1.200, allowed 1.000"),
        ({"overhead": 6.26, "model": "resnet-50", "share": 15}, None),
        ({"seconds": 10.5}, "gpt at 40 %: planned in 10.50 s, allowed 10 s"),
        ({"first": None}, "gpt at 40 %: no plan within 1.0 s"),
        ({"verdict": "op 3"}, "gpt at 40 %: ebbtide check says op 3"),
    ],
)
def test_what_does_not_hold_is_complained_of(
    change: dict[str, float | str | None], complaint: str | None
) -> None:
    row = dataclasses.replace(GOOD)
    for field, value in change.items():
        setattr(row, field, value)
    assert list(row.complaints()) == ([] if complaint is None else [complaint])


def test_blocks_has_valid_plans_of_every_solver(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "trace_of", lambda _: trace)
    rows = list(blocks_bench.measure("small", [80, 90], 2))
    assert [row.share for row in rows] == [80, 90]
    for row in rows:
        assert list(row.overheads) == list(blocks_bench.SOLVERS)
        assert list(row.complaints()) == []
        assert row.verdicts["graph"] == row.verdicts["rockmate"] == "valid"
        assert (row.overheads["graph"] or 0) >= row.bound
    table = blocks_bench.show(rows).splitlines()
    assert table[0].count("|") == table[2].count("|") == len(blocks_bench.SOLVERS) + 5


def test_blocks_complains_of_a_graph_plan_that_a_chain_beats() -> None:
    solvers: dict[str, float | None] = dict.fromkeys(blocks_bench.SOLVERS, 5.0)
    verdicts = dict.fromkeys(blocks_bench.SOLVERS, "valid")
    row = blocks_bench.Row("m", 50, 100, 4.0, dict(solvers), {}, dict(verdicts), {})
    assert list(row.complaints()) == []
    row.overheads["rockmate"] = 4.5
    assert list(row.complaints()) == [
        "m at 50 %: rockmate 4.500, the graph planner 5.000"
    ]
    row.overheads = solvers | {"graph": None}
    assert len(list(row.complaints())) == len(solvers) - 1
    row = dataclasses.replace(row, overheads=solvers)
    row.verdicts = verdicts | {"rotor": "no"}
    assert list(row.complaints()) == ["m at 50 %, rotor: ebbtide check says no"]
