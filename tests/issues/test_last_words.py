"""The closing lines of a run, however it ends."""

import json
import os
import signal
from pathlib import Path

import pytest

import cases
import harness
from run import PYTHON, run

# Argument: the signal that the process sends itself in the sixth step, or 0.
STOPPED = """
import os, sys, torch
layer = torch.nn.Linear(512, 512)
for step in range(8):
    layer(torch.randn(2048, 512)).tanh().sum().backward()
    if step == 5 and sys.argv[1] != "0": os.kill(os.getpid(), int(sys.argv[1]))
"""

# Parent and child train, in this order: parent, child, parent.
PARENT = """
import torch, torch.multiprocessing
def train(steps):
    layer = torch.nn.Linear(512, 512)
    for step in range(steps): layer(torch.randn(2048, 512)).tanh().sum().backward()
if __name__ == "__main__":
    train(3)
    child = torch.multiprocessing.get_context("spawn").Process(target=train, args=(5,))
    child.start()
    child.join()
    train(1)
"""


@pytest.mark.parametrize("number", [0, signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_a_signal_ends_has_a_closing_line_and_a_report(
    number: int, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    # A step takes 14 MiB: something has to be evicted.
    options = ["--budget=13MiB", f"--report={report}"]
    program = [PYTHON, "-c", STOPPED, str(int(number))]
    done = run([str(harness.EBBTIDE), "run", *options, "--", *program])
    plain = run(program)
    assert done.returncode == plain.returncode == -number
    *rest, closing = done.stderr.splitlines()
    assert rest == plain.stderr.splitlines()
    assert closing.startswith("ebbtide: peak ")
    steps = json.loads(report.read_text())["steps"]
    # SIGINT is an exception in Python; another signal ends the process at once.
    assert steps == {0: 8, signal.SIGINT: 6}.get(number, steps)
    assert f", {steps} steps" in closing
    assert steps > 0


def test_a_child_that_trains_leaves_its_parent_its_report(tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(PARENT)
    report = tmp_path / "report.json"
    report.write_text('{"pid": 1, "of": "a run before"}')
    os.utime(report, (1, 1))
    options = ["--budget=16MiB", f"--report={report}"]
    program = [PYTHON, str(tmp_path / "parent.py")]
    done = run([str(harness.EBBTIDE), "run", *options, "--", *program])
    assert done.returncode == 0, done.stderr
    assert json.loads(report.read_text())["steps"] == 4
    (other,) = tmp_path.glob("report.pid*.json")
    assert json.loads(other.read_text())["steps"] == 5


def test_a_run_that_strict_has_ended_does_not_fit_its_budget() -> None:
    case = cases.within("outside", "14MiB", "--strict")
    assert case.status == 1
    assert case.report["reason"] == "no memory was found for 40.00 MiB"
    assert "nothing done (no memory was found for 40.00 MiB)" in case.lines[-1]


def test_memory_over_budget_outside_of_steps_is_told() -> None:
    case = cases.same("outside", "14MiB")
    assert case.report["over_budget_steps"] == 0
    assert "; OVER BUDGET outside of steps" in case.lines[-1]


def test_a_folder_in_ram_is_refused_before_the_program_starts() -> None:
    done = run(
        [
            harness.EBBTIDE,
            "run",
            "--budget=1GiB",
            "--offload-dir=/dev/shm",
            "--",
            "true",
        ]
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "--offload-dir /dev/shm: " in done.stderr
    assert "expected a folder on a disk" in done.stderr


def test_an_import_of_torch_that_fails_is_not_taken_for_an_option_of_python() -> None:
    program = "import sys; sys.modules['torch.nn'] = None; import torch"
    done = run([harness.EBBTIDE, "run", "--budget=1GiB", "--", PYTHON, "-c", program])
    assert done.returncode == 1
    *_, line = done.stderr.splitlines()
    assert line.startswith("ebbtide: off: `import torch` did not come to its end")


def test_doctor_asks_the_python_that_it_is_installed_for() -> None:
    done = run([harness.EBBTIDE, "doctor"], PATH="/usr/bin:/bin")
    (line,) = [each for each in done.stdout.splitlines() if " python: " in each]
    assert line.endswith(PYTHON)
