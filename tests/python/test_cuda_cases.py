"""Programs that use CUDA in their own ways keep their bits on the simulated device."""

import json
from pathlib import Path
from typing import Any

import pytest

import harness
import simulator
from run import PYTHON, our_lines, run

PROGRAM = harness.ROOT / "tests" / "python" / "programs" / "cuda_cases.py"
SCHEDULES = ("ontime", "late", "race")


def case(name: str, schedule: str, **variables: str) -> tuple[Any, list[str]]:
    done = run(
        [PYTHON, PROGRAM, schedule, name],
        PYTHONPATH=str(simulator.FACE),
        CUDASIM_DEVICES="2",
        **simulator.SMALL_WORKSPACES,
        **variables,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), our_lines(done.stderr)


# Each with a budget that it does not fit.
CASES = {
    "plain": "5MiB",
    "retained_graph": "5MiB",
    "out_of_memory": "5MiB",
    "side_stream": "8MiB",
}


@pytest.mark.parametrize("name", CASES)
def test_its_bits_are_those_of_the_unmanaged_run(name: str, tmp_path: Path) -> None:
    plain, said = case(name, "eager")
    assert (plain["broken"], plain["hazards"], said) == (None, [], [])
    assert case(name, "late")[0] == plain
    report = tmp_path / "report.json"
    tight = {"EBBTIDE_BUDGET": CASES[name], "EBBTIDE_MIN_BYTES": "16KiB"}
    for schedule in SCHEDULES:
        managed, lines = case(name, schedule, EBBTIDE_REPORT=str(report), **tight)
        assert managed == plain, (schedule, lines)
        assert not any("off:" in line for line in lines), lines
        done = json.loads(report.read_text())
        assert done["ops_replayed"] + done["bytes_spilled"] > 0, (schedule, lines)
