"""The output of the benches rivals, headline and prediction, and their complaints."""

import dataclasses
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import harness
import headline_bench
import interleaved
import prediction_bench
import rivals_bench
from interleaved import Launch, Turns
from run import PYTHON, run

MIB = harness.MIB
PLAN = prediction_bench.Row(
    job="gpt",
    threads=1,
    way="55 % offload",
    offloads=True,
    steps=36,
    predicted=0.5,
    measured=0.51,
    spread=0.02,
    predicted_peak=200 * MIB,
    peak=201 * MIB,
    identical=True,
)
RIVAL = rivals_bench.Row(
    job="gpt",
    way="checkpoint",
    rival=True,
    budget=None,
    peak=100,
    seconds=0.5,
    spread=0.02,
    to_unmanaged=1.4,
    identical=True,
)
OURS = dataclasses.replace(RIVAL, way="ebbtide", rival=False, budget=90, peak=90)


def bench(name: str) -> list[dict[str, Any]]:
    file = harness.ROOT / "bench" / f"{name}_bench.py"
    done = run([PYTHON, file, "--quick", "--json", "--threads", "1"])
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def test_rivals_prints_a_row_for_every_way() -> None:
    rows = {row["way"]: row for row in bench("rivals")}
    assert list(rows) == [
        "unmanaged",
        "unmanaged again",
        "checkpoint",
        "offload",
        "offload to the page cache",
        "ebbtide at checkpoint's peak",
        "ebbtide at offload's peak",
    ]
    assert all(row["identical"] for row in rows.values())
    assert rows["checkpoint"]["peak"] < rows["unmanaged"]["peak"]
    ours = rows["ebbtide at checkpoint's peak"]
    assert ours["peak"] <= ours["budget"] == rows["checkpoint"]["peak"]
    assert rows["checkpoint"]["at_its_peak"] > 0


def test_headline_prints_what_is_left_of_the_activations() -> None:
    rows = bench("headline")
    ways = ["unmanaged", "hooks", "joint", "recompute", "offload"]
    assert [row["way"] for row in rows] == ways
    assert all(row["identical"] for row in rows)
    for row in rows[2:]:
        assert row["asked"] == 2
        assert row["peak"] <= row["budget"]
        assert row["factor"] >= 2
        assert row["factor"] == rows[0]["activations"] / row["activations"]


def test_prediction_prints_a_row_for_every_plan_that_was_followed() -> None:
    rows = bench("prediction")
    assert {row["way"] for row in rows} <= {"60 % offload", "60 % recompute"}
    for row in rows:
        assert row["identical"]
        assert row["steps"] >= 2
        assert min(row["predicted"], row["measured"]) > 0
        if not row["offloads"]:
            off = abs(row["peak"] - row["predicted_peak"])
            assert off <= max(row["predicted_peak"] // 100, MIB)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({}, None),
        ({"measured": 0.53}, "0.5300 s a step, predicted 0.5000, unmanaged spread 2.0"),
        ({"measured": 0.53, "spread": 0.07}, None),
        ({"measured": 0.47}, "0.4700 s a step"),
        ({"peak": 197 * MIB}, "peak 197.0 MiB, predicted 200.0"),
        ({"peak": 2 * MIB, "predicted_peak": MIB}, None),
        ({"identical": False}, "loss or hash differs"),
    ],
)
def test_a_prediction_that_fails_is_complained_of(
    change: dict[str, Any], complaint: str | None
) -> None:
    complaints = list(dataclasses.replace(PLAN, **change).complaints())
    assert len(complaints) == (complaint is not None)
    if complaint is not None:
        assert complaints[0].startswith("gpt, 1 threads, 55 % offload: ")
        assert complaint in complaints[0]


def test_a_rival_is_compared_with_every_run_of_ebbtide() -> None:
    lower = dataclasses.replace(OURS, budget=80, peak=80, seconds=0.45)
    larger = dataclasses.replace(OURS, budget=120, peak=120, seconds=0.3)
    slow = dataclasses.replace(OURS, budget=60, peak=60, seconds=0.7)
    rival = dataclasses.replace(RIVAL)
    rivals_bench.judge([rival, OURS, lower, larger, slow])
    assert (rival.at_its_peak, rival.at_its_time) == (0.45, 80)
    assert list(rival.complaints()) == []
    rivals_bench.judge([rival, slow])
    assert [line.split(": ", 1)[1] for line in rival.complaints()] == [
        "ebbtide takes 0.7000 s a step at its peak, it 0.5000",
        "no run of ebbtide is as fast",
    ]


def test_the_largest_batch_is_found_to_an_eighth() -> None:
    tried: list[int] = []

    def fits(size: int) -> bool:
        tried.append(size)
        return size <= 77

    found = headline_bench.largest(fits, 8, 1000)
    assert 77 - 77 // 8 <= found <= 77
    assert len(tried) < 12
    assert headline_bench.largest(lambda size: size < 8, 8, 1000) == 0
    assert 18 <= headline_bench.largest(lambda _: True, 8, 20) <= 20


STEPS = """
import sys, time
for i in range(int(sys.argv[1])):
    time.sleep(0.01)
    with open(sys.argv[2], "a") as order:
        order.write(sys.argv[3])
    print(f"step {i} loss 0x1p+0 seconds 0.01", flush=True)
print("hash 00")
print("median 0.01")
"""


def test_programs_that_run_in_turn_do_all_their_steps(tmp_path: Path) -> None:
    turns = Turns(first=3, rounds=4, length=3)
    order = tmp_path / "order"
    command = [sys.executable, "-c", STEPS, str(turns.steps), str(order)]
    launches = {name: Launch([*command, name]) for name in ("a", "b")}
    ran = interleaved.interleave(launches, turns)
    assert turns.counted() == [4, 5, 7, 8, 10, 11, 13, 14]
    for timed in ran.values():
        assert len(timed.run.seconds) == 15
        assert len(timed.seconds()) == 8
        assert timed.seconds(among=[0, 3, 4]) == [timed.run.seconds[4]]
    # In turn, and not one after the other.
    assert order.read_text().count("ab") > turns.rounds / 2


def test_a_program_that_fails_is_named() -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no such shape')"]
    with pytest.raises(harness.JobError, match=re.escape("a: exit 1\nno such shape")):
        interleaved.interleave({"a": Launch(command)}, Turns(1, 1, 2))
