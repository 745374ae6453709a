"""`ebbtide replay`: placements and allocators' policies on allocation traces."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import harness
from run import run

PROGRAM = harness.EBBTIDE
TRACES = harness.ROOT / "tests" / "data" / "traces"
POLICIES = ["plan", "native", "expandable", "firstfit", "bestfit", "rmm-pool"]


def replay(trace: Path, *arguments: str) -> Any:
    done = run([PROGRAM, "replay", trace, "--json", *arguments])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def buffers(path: Path) -> dict[str, tuple[int, int, int]]:
    with path.open() as file:
        return {
            row["id"]: (int(row["lower"]), int(row["upper"]), int(row["size"]))
            for row in csv.DictReader(file)
        }


@pytest.mark.parametrize("policy", POLICIES)
def test_no_two_live_buffers_share_an_address(policy: str, tmp_path: Path) -> None:
    trace = TRACES / "somas_resnet50.csv"
    out = tmp_path / "placement.csv"
    answer = replay(trace, "--policy", policy, "-o", str(out))
    with out.open() as file:
        offsets = {row["id"]: int(row["offset"]) for row in csv.DictReader(file)}
    lives = buffers(trace)
    assert offsets.keys() == lives.keys()
    placed = [(offsets[name], *lives[name]) for name in lives]
    for i, (x, a, b, size) in enumerate(placed):
        for y, c, d, other in placed[:i]:
            assert not (a < d and c < b and x < y + other and y < x + size)
    if policy == "plan":
        top = max(offset + size for offset, _, _, size in placed)
        assert top == answer["height"]


@pytest.mark.parametrize("name", ["somas_resnet50.csv", "somas_pangu_2.6B.csv"])
def test_a_plan_wastes_at_most_one_per_cent_and_the_bound_is_true(name: str) -> None:
    answer = replay(TRACES / name)
    lives = buffers(TRACES / name)
    at = answer["instant"]
    there = {n for n, (lower, upper, _) in lives.items() if lower <= at < upper}
    assert there == set(answer["witness"])
    assert sum(lives[n][2] for n in there) == answer["lower_bound"]
    assert answer["waste"] <= 1.0


def test_steps_go_on_from_one_state() -> None:
    answer = replay(TRACES / "somas_resnet50.csv", "--policy", "native", "--steps", "3")
    heights = [step["height"] for step in answer["steps"]]
    assert len(heights) == 3
    assert heights == sorted(heights)
    assert answer["height"] == heights[-1]


def test_bad_input_is_named(tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("id,lower,upper,size\na,0,1,many\n")
    done = run([PROGRAM, "replay", trace])
    assert done.returncode == 2
    assert f"{trace}:2: size: expected a whole number" in done.stderr
    trace.write_text("id,lower,upper,size\na,0,1,8\n")
    done = run([PROGRAM, "replay", trace, "--policy", "magic"])
    assert done.returncode == 2
    assert "--policy: expected plan, native" in done.stderr
