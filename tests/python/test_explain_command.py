"""`ebbtide explain`: what filled a run's memory, why, and what budgets would do."""

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
            time.sleep(2)
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
    # A kept value is made once: its extra time is the plan's.
    for doubt in answer["doubts"]:
        upper = doubt["median"] + doubt["quartiles"]
        assert doubt["moves"] == pytest.approx(upper - doubt["time"], abs=1)
    slow = answer["outliers"][0]
    assert "Slow" in slow["name"]
    assert slow["most"] > 2e9 > 10 * slow["median"]


def test_text_for_people(trace: Path) -> None:
    done = run([PROGRAM, "explain", trace])
    assert done.returncode == 0, done.stderr
    rows = done.stdout.splitlines()
    assert re.match(
        r"measured \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ on .*, \d+ MHz, by the host's "
        r"steady clock; ebbtide \d.*, torch 2\.",
        rows[0],
    )
    for begin in [
        r"run: 10 steps of .* ms \(median\), peak .*iB, no budget in step \d",
        r"  at the highest sample: .*saved .*iB",
        r"peak of the run: .*iB; \d+ are known by name, .*iB are not",
        r"plan \(keeps all\): keep: time .* ms",
        r"floor without offloading: .*iB by the best plan known.*; every plan needs .*",
        r"floor with offloading: every plan needs .*iB, for .*",
        r"what each \d+\.00 .*B of budget buys",
        r" +moves ms",
        r"slow once: stage \d+ Slow.* took 2\d\d\d\.",
        r"not known: what offloading would buy",
    ]:
        assert any(re.match(begin, row) for row in rows), begin


def test_the_numbers_add_up(trace: Path) -> None:
    answer = json.loads(run([PROGRAM, "explain", trace, "--json"]).stdout)
    peak, plan, budgets = answer["peak"], answer["plan"], answer["budgets"]
    assert peak["source"] == "trace"
    assert peak["bytes"] == answer["run"]["peak"]
    assert peak["bytes"] == sum(answer["run"]["live_by_kind"].values())
    assert 0 < len(peak["largest"]) <= 10
    assert peak["count"] >= len(peak["largest"])
    sizes = [holder["bytes"] for holder in peak["largest"]]
    assert sizes == sorted(sizes, reverse=True)
    assert peak["other"] + sum(sizes) <= peak["bytes"]
    assert all(holder["done"] == "" for holder in peak["largest"])
    assert any("[256, 256]" in holder["name"] for holder in peak["largest"])
    floor = answer["floor"]["without_spilling"]
    made_of = floor["other"] + sum(value["bytes"] for value in floor["values"])
    assert made_of == floor["proven"] <= floor["known"] <= plan["peak"]
    rows = budgets["rows"]
    assert all(row["budget"] % budgets["unit"] == 0 for row in rows)
    times = [row["without_spilling"] for row in rows]
    assert times == sorted(times, reverse=True)
    assert times[-1] == pytest.approx(plan["time"] + plan["tail_time"])
    # Nothing is managed without a budget, and that is said.
    assert answer["prediction"] == []
    assert any(each.startswith("coverage: ") for each in answer["unknown"])


def test_the_same_file_gives_the_same_numbers(trace: Path) -> None:
    once = run([PROGRAM, "explain", trace, "--json"])
    assert once.stdout == run([PROGRAM, "explain", trace, "--json"]).stdout


def test_with_a_budget_the_plan_is_the_one_for_it(trace: Path) -> None:
    kept = json.loads(run([PROGRAM, "explain", trace, "--json"]).stdout)["plan"]
    words = ["--budget", f"{kept['peak'] - 1}B", "--time-limit", "0.5", "--json"]
    done = run([PROGRAM, "explain", trace, *words])
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)["plan"]
    assert plan["peak"] < kept["peak"]
    assert plan["source"] == "made for --budget"
    done = run([PROGRAM, "explain", trace, "--budget", "1B"])
    assert done.returncode == 1
    assert "infeasible" in done.stderr


def test_a_run_inside_a_budget(trace: Path, tmp_path: Path) -> None:
    whole = json.loads(run([PROGRAM, "explain", trace, "--json"]).stdout)
    budget = (whole["plan"]["peak"] + whole["floor"]["without_spilling"]["known"]) // 2
    path, report = tmp_path / "run.ebbtide", tmp_path / "report.json"
    options = [f"--budget={budget}B", f"--record={path}", f"--report={report}"]
    done = run([PROGRAM, "run", *options, "--", PYTHON, "-c", TRAINING])
    assert done.returncode == 0, done.stderr
    reported = json.loads(report.read_text())
    done = run([PROGRAM, "explain", path, "--json"])
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["run"]["budget"] == budget
    assert answer["run"]["complete"]
    assert answer["run"]["state"] == reported["state"]
    assert answer["plan"]["source"] in ("trace", "made for its budget")
    assert answer["coverage"] == reported["saved"]
    evicted, tiers = answer["run"]["evictions"], reported["bytes_by_tier"]
    assert sum(each["dropped"] for each in evicted) == tiers["dropped"]
    assert sum(each["spilled"] for each in evicted) == tiers["disk"]
    assert evicted
    assert sum(plan["steps"] for plan in answer["prediction"]) == sum(
        len(plan["steps"]) for plan in reported["plans"]
    )


def test_a_trace_without_a_repeated_step_is_explained_as_far_as_it_goes(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run.ebbtide"
    once = TRAINING.replace("range(10)", "range(1)")
    done = run([PROGRAM, "run", f"--record={path}", "--", PYTHON, "-c", once])
    assert done.returncode == 0, done.stderr
    done = run([PROGRAM, "explain", path])
    assert done.returncode == 0, done.stderr
    assert "not known: the floor, other budgets and decisions: " in done.stdout
    done = run([PROGRAM, "explain", path, "--budget=1MiB"])
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no profile in it" in done.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "expected a run that `ebbtide run --record` wrote, or the JSON of"),
        ("log of a run", "expected a run that `ebbtide run --record` wrote"),
        ('{"steps":12}', "expected a run that `ebbtide run --record` wrote"),
        ('{"kind":', "expected a JSON document"),
        ('{"kind":"chain"}', "expected this member, it is missing"),
        (
            '{"kind":"profile","version":1,"values":[],"ops":[],"stages":[],"tail":0,'
            '"tail_time":0,"d2h":0,"h2d":0,"host":-1}',
            "budget: expected more than 0, got 0",
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
