"""PyTorch's memory snapshots as input of `ebbtide replay`."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import harness
import simulator
from run import PYTHON, run

PROGRAM = Path(__file__).parent / "programs" / "snapshot.py"


def replay(path: Path, *options: str) -> Any:
    done = run([harness.EBBTIDE, "replay", path, "--json", *options])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(path: Path, snapshot: Any) -> str:
    path.write_bytes(pickle.dumps(snapshot))
    done = run([harness.EBBTIDE, "replay", path])
    assert done.returncode == 2
    return done.stderr


def entry(action: str, address: int, size: int) -> dict[str, Any]:
    return {"action": action, "addr": address, "size": size, "stream": 0}


def block(state: str, address: int, size: int) -> dict[str, Any]:
    return {"state": state, "address": address, "requested_size": size, "size": 512}


def snapshot(entries: list[Any], blocks: list[Any]) -> dict[str, Any]:
    segment = {"device": 1, "stream": 0, "blocks": blocks}
    elsewhere = {"device": 0, "stream": 0, "blocks": [block("active_allocated", 1, 7)]}
    return {"segments": [elsewhere, segment], "device_traces": [[], entries]}


@pytest.mark.parametrize("before", [0, 5])
def test_what_pytorch_held_at_most_is_the_bound(before: int, tmp_path: Path) -> None:
    simulator.check_built()
    path = tmp_path / "snapshot.pickle"
    done = run([PYTHON, PROGRAM, path, str(before)], **simulator.ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout)
    assert replay(path)["lower_bound"] == theirs["requested"]
    if before == 0:
        native = replay(path, "--policy", "native")
        assert native["height"] == theirs["reserved"]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_lives_are_those_of_the_entries(protocol: int, tmp_path: Path) -> None:
    # Numbers and strings of every width: addresses above 32 bits, long names.
    far = 1 << 46
    entries = [
        entry("alloc", far, 70000),
        entry("free_completed", 3, 10),  # there before the history
        {"action": "snapshot" * 40, "time": 0.5, "none": None, "flags": (True, False)},
        entry("alloc", 3, 200),
        entry("free_requested", far, 70000),
        entry("free_completed", far, 70000),
        entry("alloc", 4, 3000),
        entry("free_completed", 3, 200),
    ]
    blocks = [
        block("active_allocated", 4, 3000),
        block("active_allocated", 5, 40000),  # all the time
        block("active_pending_free", 3, 5),  # allocated while nothing was recorded
        block("inactive", 6, 1 << 40),
    ]
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(snapshot(entries, blocks), protocol=protocol))
    out = tmp_path / "out.csv"
    answer = replay(path, "-o", str(out))
    names = [line.split(",")[0] for line in out.read_text().splitlines()[1:]]
    assert names == ["0", "0x3", "3", "6", "0x5", "0x3 at the end"]
    assert answer["instant"] == 4  # entries count from 1
    assert set(answer["witness"]) == {"0", "3", "0x5"}
    assert answer["lower_bound"] == 70000 + 200 + 40000


def test_what_is_no_snapshot_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s.pickle"
    assert "expected a snapshot with the lists segments" in refused(path, [1])
    assert "expected a history" in refused(path, snapshot([], []))
    double = snapshot([entry("alloc", 16, 1), entry("alloc", 16, 1)], [])
    expected = f"{path}: device_traces[1][1]: expected 0x10 to be freed before"
    assert expected in refused(path, double)
    double = snapshot([entry("free_completed", 16, 1)] * 2, [])
    assert "device_traces[1][1]: expected 0x10 to be allocated" in refused(path, double)
    bare = snapshot([{"action": "alloc"}], [])
    assert "expected the numbers addr, size and stream" in refused(path, bare)
    bare = snapshot([entry("alloc", 16, 1)], [{}])
    assert "segments[1]: blocks[0]: expected state, address" in refused(path, bare)
    two = snapshot([entry("alloc", 16, 1)], [])
    two["device_traces"] *= 2
    assert "expected the history of one device, got 1 and 3" in refused(path, two)
    assert "size of at least 1" in refused(path, snapshot([entry("alloc", 1, -5)], []))


def test_what_names_a_class_is_refused_and_nothing_is_called(tmp_path: Path) -> None:
    path = tmp_path / "s.pickle"
    text = refused(path, {"segments": Path("x")})
    assert "expected None, a truth value, a number, a string, a list" in text


def test_every_shortened_snapshot_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.pickle"
    whole = pickle.dumps(snapshot([entry("alloc", 16, 300)], [block("inactive", 1, 1)]))
    for size in range(1, len(whole), 7):
        path.write_bytes(whole[:size])
        done = run([harness.EBBTIDE, "replay", path])
        assert done.returncode == 2
        assert f"{path}: byte " in done.stderr


@pytest.mark.parametrize(
    ("share", "budget"), [("0", "39MiB"), ("60", "")], ids=["managed", "two streams"]
)
def test_a_step_of_a_job_is_recorded_and_placed(
    share: str, budget: str, tmp_path: Path
) -> None:
    path = tmp_path / "snapshot.pickle"
    child = harness.ROOT / "bench" / "replay_child.py"
    job = ("gpt", "--size", "small", "--batch", "16")
    done = run(
        [PYTHON, child, path, "12" if budget else "4", share, *job],
        **{
            **simulator.SMALL_WORKSPACES,
            "PYTHONPATH": f"{simulator.FACE}:{harness.JOBS}",
            **({"EBBTIDE_BUDGET": budget} if budget else {}),
        },
    )
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout)
    plan = replay(path)
    assert 0.5 * theirs["live"] < plan["lower_bound"] <= theirs["live"]
    assert plan["height"] <= 1.01 * plan["lower_bound"]
    assert replay(path, "--policy", "native")["height"] > 1.1 * plan["height"]
