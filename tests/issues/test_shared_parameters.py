"""Parameters that other processes train at the same time: Hogwild, A3C.

A recipe that had read such a parameter found other bytes in backward, and the job died
with an error of ours.
"""

import json
from pathlib import Path

import pytest

import cases
import harness
from run import PYTHON, run

# Every saved tensor but the input is made by an op that reads a parameter.
SCALED = """
import sys, torch, torch.multiprocessing
how = sys.argv[1]
weights = [torch.nn.Parameter(torch.full((1,), 1 + k / 8)) for k in range(8)]
if how != "alone":
    torch.multiprocessing.set_sharing_strategy(how)
    for weight in weights: weight.share_memory_()
ones = torch.ones(1 << 18)
for step in range(4):
    hidden = ones
    for weight in weights: hidden = hidden * weight
    hidden.sum().backward()
print([weight.grad.item() for weight in weights])
"""


def test_a_job_whose_parameters_another_process_trains_goes_on() -> None:
    case = cases.within("p10b_hogwild_race", "56MiB", "--strict")
    assert (case.status, case.output) == (0, "exits [0, 0]\n"), case.errors


@pytest.mark.parametrize("how", ["alone", "file_descriptor", "file_system"])
def test_no_recipe_reads_a_shared_parameter(how: str, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    program = [PYTHON, "-c", SCALED, how]
    options = [f"--report={report}", "--budget=6MiB"]
    done = run([str(harness.EBBTIDE), "run", *options, "--", *program])
    assert done.returncode == 0, done.stderr
    assert done.stdout == run(program).stdout
    found = json.loads(report.read_text())
    assert (found["ops_replayed"] > 0) == (how == "alone")
    assert found["bytes_spilled"] > 0 or how == "alone"
