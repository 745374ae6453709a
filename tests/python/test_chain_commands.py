"""`ebbtide plan` and `curve` of chains, against a table of known times.

tests/data/chains.json has optimal times by solver and budget, in slots. Its
exact ones come from an exhaustive search, which has a test of its own
(tests/planner/chain_oracle_test.cc); here they bound what a solver may claim.
"""

import json
import random
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import harness
from run import run

TABLE = json.loads((harness.ROOT / "tests/data/chains.json").read_text())
SOLVERS = ("rotor", "floating", "unpinned", "unpinned-floating")

# Most time of the two programs that may drop a saved stage's input, for chain B, by
# budget.
MOST = {
    "unpinned": {16: 175, 20: 106, 26: 91},
    "unpinned-floating": {16: 166, 20: 106, 26: 91},
}

KNOWN = [
    pytest.param(
        known["name"], known["chain"], entry, id=f"{known['name']}-{entry['budget']}"
    )
    for known in TABLE["instances"]
    for entry in known["expected"]
]


def ebbtide(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    return run([harness.EBBTIDE, *words])


def written(chain: dict[str, Any], folder: Path) -> Path:
    path = folder / "chain.json"
    path.write_text(json.dumps(chain))
    return path


def planned(path: Path, budget: int, solver: str) -> "subprocess.CompletedProcess[str]":
    words = ["--budget", str(budget), "--solver", solver, "--json"]
    return ebbtide("plan", path, *words)


@pytest.mark.parametrize(("name", "chain", "entry"), KNOWN)
def test_solvers_find_the_times_that_are_known(
    tmp_path: Path, name: str, chain: dict[str, Any], entry: dict[str, Any]
) -> None:
    path = written(chain, tmp_path)
    budget, known = entry["budget"], entry["time"]
    for solver in SOLVERS:
        done = planned(path, budget, solver)
        plan = json.loads(done.stdout)
        if known["rotor"] is None:
            assert (done.returncode, plan["feasible"]) == (1, False)
            least = re.search(r"least feasible budget is (\d+)$", done.stderr.strip())
            assert least is not None and int(least[1]) == plan["least_budget"] > budget
            assert planned(path, plan["least_budget"], solver).returncode == 0
            continue
        assert done.returncode == 0, done.stderr
        assert plan["peak"] <= budget and plan["rounding_loss"] == 0
        if solver in known:
            assert plan["time"] == known[solver]
        exact = "exact-unpinned" if "unpinned" in solver else "exact-pinned"
        assert plan["time"] >= known.get(exact, 0)
        if name == "B" and budget in MOST.get(solver, {}):
            assert plan["time"] <= MOST[solver][budget]


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_curve_has_the_plans_of_its_budgets(tmp_path: Path, solver: str) -> None:
    known = next(k for k in TABLE["instances"] if k["name"] == "B")
    path = written(known["chain"], tmp_path)
    done = ebbtide("curve", path, "--solver", solver, "--json")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert {p["rounding_loss"] for p in printed} == {0}
    points = {p["budget"]: p["time"] for p in printed}
    assert list(points) == sorted(points)
    assert len(points) > 5
    for budget, time in points.items():
        assert json.loads(planned(path, budget, solver).stdout)["time"] == time
    assert planned(path, min(points) - 1, solver).returncode == 1
    assert "-0.00" not in ebbtide("curve", path, "--solver", solver).stdout


def large_chain(stages: int) -> dict[str, Any]:
    """Sizes in bytes that have no common divisor."""
    rng = random.Random(1)
    x = [rng.randrange(10**6, 10**7) for _ in range(stages + 1)]
    return {
        "kind": "chain",
        "fw": [rng.randrange(1, 100) for _ in range(stages)],
        "bw": [rng.randrange(1, 200) for _ in range(stages + 1)],
        "x": x,
        "xb": [x[0], *(size + rng.randrange(10**7) for size in x[1:])],
        "ft": [0] * stages,
        "bt": [0] * (stages + 1),
    }


def test_a_curve_does_not_depend_on_threads(tmp_path: Path) -> None:
    path = written(large_chain(60), tmp_path)
    words: list[str | Path] = ["curve", path, "--solver", "unpinned", "--json"]
    one, two = (ebbtide(*words, "--threads", n) for n in ("1", "2"))
    assert one.returncode == 0, one.stderr
    losses = [p["rounding_loss"] for p in json.loads(one.stdout)]
    assert losses[0] > losses[-1] == 0
    assert (one.stdout, one.stderr) == (two.stdout, two.stderr)


def test_pofo_says_what_continuous_copies_would_take(tmp_path: Path) -> None:
    known = next(k for k in TABLE["instances"] if k["name"] == "B")
    lanes = {"bandwidth": {"d2h": 0.5, "h2d": 0.5}}
    path = written(known["chain"] | lanes, tmp_path)
    words: list[str | Path] = ["plan", path, "--budget", "20B", "--continuous"]
    done = ebbtide(*words, "--json")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert plan["solver"] == "pofo"
    assert sum(known["chain"]["fw"]) < plan["continuous_time"] <= plan["time"]
    assert "if bytes left while they are copied" in ebbtide(*words).stdout
    other = ebbtide(*words, "--solver", "rotor")
    assert other.returncode == 2
    assert "continuous: expected solver pofo, got rotor" in other.stderr


def chain_with_weights() -> dict[str, Any]:
    chain = large_chain(8) | {"bandwidth": {"d2h": 4 * 10**5, "h2d": 4 * 10**5}}
    sizes = {"bytes": 10**7, "grad": 10**7, "state": 2 * 10**7}
    weights = [{"stages": [stage], **sizes} for stage in range(8)]
    return chain | {"weights": weights}


def test_weights_leave_the_device_and_come_back(tmp_path: Path) -> None:
    path = written(chain_with_weights(), tmp_path)
    least = json.loads(planned(path, 1 << 40, "weights").stdout)["least_budget"]
    times = {}
    for solver in ["weights", "joint", "greedy-star"]:
        file = tmp_path / f"{solver}.json"
        words: list[str | Path] = ["plan", path, "--solver", solver, "-o", file]
        done = ebbtide(*words, "--budget", f"{least * 5 // 4}B")
        assert done.returncode == 0, done.stderr
        plan = json.loads(file.read_text())
        moved = {a["value"] for a in plan["actions"] if a["do"] == "restore"}
        assert {"weight", "state"} <= moved
        assert plan["peak"] <= plan["budget"]
        assert plan["time"] >= plan["lower_bound_time"] > 0
        times[solver] = plan["time"]
        assert ebbtide("check", path, file).returncode == 0
        plan["actions"].remove(next(a for a in plan["actions"] if a["do"] == "restore"))
        file.write_text(json.dumps(plan))
        assert ebbtide("check", path, file).returncode == 1
    assert times["joint"] <= times["weights"] <= times["greedy-star"]
    assert planned(path, least - 1, "weights").returncode == 1


def test_weights_are_not_dropped_by_solvers_that_do_not_plan_them(
    tmp_path: Path,
) -> None:
    path = written(chain_with_weights(), tmp_path)
    done = planned(path, 1 << 40, "rotor")
    assert done.returncode == 2
    assert f"{path}: weights: expected none" in done.stderr


@pytest.mark.parametrize("words", [["curve"], ["plan", "--budget", "8B"]])
def test_a_profile_takes_no_threads(tmp_path: Path, words: list[str]) -> None:
    path = tmp_path / "profile.json"
    path.write_text(
        '{"kind":"profile","version":1,"values":[],"ops":[],"stages":[],"tail":0,'
        '"tail_time":0,"d2h":0,"h2d":0,"host":-1}'
    )
    done = ebbtide(*words, path, "--threads", "2")
    assert done.returncode == 2
    assert f"{path}: --threads: expected 1 for a profile, got 2" in done.stderr
