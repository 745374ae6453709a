"""`ebbtide fit`: what it answers about a program, and what it refuses."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

import harness
from run import PYTHON, clean_environment, run

PROGRAM = harness.EBBTIDE

TRAINING = """
import sys, torch
from torch import nn
torch.manual_seed(1)
torch.set_num_threads(1)
model = nn.Sequential(*[layer for _ in range(6)
                        for layer in (nn.Linear(256, 256), nn.Tanh())])
x = torch.randn(512, 256)
for step in range(int(sys.argv[1])):
    model.zero_grad()
    model(x).sigmoid().mean().backward()
    print("step", step, flush=True)
sys.exit(int(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = Path(tmp_path_factory.mktemp("fit")) / "train.py"
    path.write_text(TRAINING)
    return path


def refusal(*arguments: str | Path, **variables: str) -> str:
    done = run([PROGRAM, "fit", *arguments], **variables)
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr


def mebibytes(pattern: str, text: str) -> float:
    found = re.search(pattern + r" ([\d.]+) MiB", text)
    assert found is not None, text
    return float(found[1])


def test_an_endless_program_is_stopped_and_answered(
    script: Path, tmp_path: Path
) -> None:
    endless = [PYTHON, str(script), "1000000000", "0"]
    done = run([PROGRAM, "fit", "--steps", "4", "--", *endless], TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    said = done.stdout
    assert re.match(rf"{PYTHON} .* steps watched; \d+ ops and \d+ backward ops", said)
    peak = mebibytes("peak", said)
    known = mebibytes("floor without offloading:", said)
    proven = re.search(r"every plan needs ([\d.]+) MiB, for (op|stage) \d+", said)
    assert (known if proven is None else float(proven[1])) <= known < peak
    assert mebibytes(r"floor with offloading to .*:", said) <= known
    curve = re.findall(r"^ +([\d.]+) MiB +([\d.]+) ms +\+([\d.]+) %", said, re.M)
    budgets = [float(budget) for budget, _, _ in curve]
    assert budgets == sorted(budgets)
    assert (budgets[-1], curve[-1][2]) == (peak, "0.0")
    costs = [float(cost) for _, _, cost in curve]
    assert costs == sorted(costs, reverse=True)
    # The program's output is not the answer.
    assert "step 3\n" in done.stderr
    assert "step 3\n" not in said
    assert list(tmp_path.iterdir()) == []


def test_the_recommended_budget_holds(script: Path) -> None:
    training = [PYTHON, str(script), "8", "0"]
    done = run([PROGRAM, "fit", "--", *training], EBBTIDE_OFFLOAD_DIR="none")
    assert done.returncode == 0, done.stderr
    assert "no offloading: EBBTIDE_OFFLOAD_DIR is none\n" in done.stdout
    found = re.search(
        r"^recommended: --budget (\d+MiB), .*\(\+(.*) %\)", done.stdout, re.M
    )
    assert found is not None, done.stdout
    assert float(found[2]) <= 5
    budget = ["--budget", found[1], "--offload-dir", "none", "--strict"]
    trained = run([PROGRAM, "run", *budget, "--", *training])
    assert trained.returncode == 0, trained.stderr


def test_a_program_that_ends_early_is_answered_and_said(script: Path) -> None:
    done = run([PROGRAM, "fit", "--", PYTHON, script, "5", "0"])
    assert done.returncode == 0, done.stderr
    first = done.stdout.splitlines()[0]
    assert ": 5 steps watched, ended with exit status 0; " in first


def test_a_program_that_fails_is_refused_with_its_end(script: Path) -> None:
    said = refusal("--", PYTHON, script, "1", "3")
    assert "ended with exit status 3 after 1 steps; expected a program that" in said
    said = refusal("--", "sh", "-c", "kill -9 $$")
    assert "ended by signal 9 (Killed) after 0 steps" in said


def test_a_program_that_never_trains_is_refused() -> None:
    said = refusal("--", PYTHON, "-c", "import torch; torch.ones(3).sum()")
    assert "ended with exit status 0 after 0 steps; expected a program that" in said
    assert "after 0 steps" in refusal("--", "true")


def test_wrong_usage_is_named() -> None:
    assert refusal("--", "no-such-program") == (
        "ebbtide: no-such-program: command not found\n"
    )
    assert "--device h100: expected cpu" in refusal("--device=h100", "--", "true")
    assert "--steps" in refusal("--steps=2", "--", "true")
    assert "--steps" in refusal("--steps=many", "--", "true")
    assert "CMD is required" in refusal()


def test_an_interrupt_ends_the_program_too(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    endless = f"echo $$ > {mark}; exec sleep 1000"
    process = subprocess.Popen(
        [str(PROGRAM), "fit", "--", "sh", "-c", endless],
        env={**clean_environment(), "TMPDIR": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 30
    while not (mark.exists() and mark.read_text()) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (2, "ebbtide: fit: interrupted\n")
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)
    assert list(tmp_path.iterdir()) == [mark]
