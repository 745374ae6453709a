"""The launcher matrix: however a job is started, it is managed and nothing changes."""

import json
import re
import subprocess
from pathlib import Path

import pytest

import harness
import simulator
from launchers import JOB, LAUNCHERS, Start, under
from run import PYTHON, clean_environment, our_lines, run

# The others are as these to us.
ALSO_SHORT = ("torchrun", "fork", "no autoload", "embedded interpreter", "C++ program")
DISABLED = "ebbtide: EBBTIDE_DISABLE is set: ebbtide will do nothing"


def execute(
    start: Start, folder: Path, options: tuple[str, ...] = (), **variables: str
) -> "subprocess.CompletedProcess[str]":
    """`options`: of `ebbtide run`; none: without it."""
    return subprocess.run(
        under(start, options) if options else start.command,
        cwd=folder,
        env={**clean_environment(), **start.environment, **variables},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
        check=False,
    )


def printed(output: str) -> list[str]:
    """Lines but times, in an order that does not depend on who was first."""
    lines = [re.sub(" seconds .*|^median .*", "", line) for line in output.split("\n")]
    return sorted(line.strip() for line in lines)


def closing(errors: str) -> list[str]:
    return [line for line in our_lines(errors) if " steps" in line]


@pytest.fixture(scope="session")
def budget(tmp_path_factory: pytest.TempPathFactory) -> int:
    """Bytes for half of what the job saves."""
    return half_of([PYTHON, JOB], tmp_path_factory.mktemp("budget"))


@pytest.fixture(scope="session")
def cpp_budget(mlp: Path, tmp_path_factory: pytest.TempPathFactory) -> int:
    return half_of([str(mlp), "--size", "small"], tmp_path_factory.mktemp("budget"))


def half_of(command: list[str], folder: Path) -> int:
    report = folder / "report.json"
    options = ["--record", "/dev/null", "--report", str(report)]
    run([harness.EBBTIDE, "run", *options, "--", *command])
    seen = json.loads(report.read_text())
    return int(seen["persistent"] + seen["peak_activations"] // 2)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ALSO_SHORT else pytest.mark.long)
        for name in LAUNCHERS
    ],
)
def test_a_launcher(name: str, budget: int, cpp_budget: int, tmp_path: Path) -> None:
    start = LAUNCHERS[name](tmp_path)
    plain = execute(start, tmp_path)
    assert plain.returncode == start.exit, plain.stderr
    assert printed(plain.stdout).count("") <= 2, plain.stdout
    assert any("hash" in line for line in plain.stdout.split("\n"))
    assert our_lines(plain.stderr) == []

    amount = cpp_budget if start.cpp else budget
    for limit, binds in ((f"{amount}B", True), ("8GiB", False)):
        report = tmp_path / "report.json"
        done = execute(start, tmp_path, ("--budget", limit, "--report", str(report)))
        check_same(done, plain)
        if not start.says:
            seen = json.loads(report.read_text())
            assert (seen["ops_replayed"] > 0) == binds
            assert seen["peak"] <= seen["budget"]
            assert our_lines(done.stderr) == []
        elif start.managed:
            check_managed(start, done.stderr, binds=binds)
        else:
            first, last = our_lines(done.stderr)
            assert "TORCH_DEVICE_BACKEND_AUTOLOAD=0 is set" in first
            assert "TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps" in last

    off = execute(start, tmp_path, ("--budget", "1MiB"), EBBTIDE_DISABLE="1")
    check_same(off, plain)
    assert DISABLED in our_lines(off.stderr)
    assert len([line for line in our_lines(off.stderr) if line != DISABLED]) == (
        0 if start.managed else 1
    )


def check_same(
    done: "subprocess.CompletedProcess[str]", plain: "subprocess.CompletedProcess[str]"
) -> None:
    assert done.returncode == plain.returncode, done.stderr
    assert printed(done.stdout) == printed(plain.stdout)


def check_managed(start: Start, errors: str, *, binds: bool) -> None:
    """One line of each process that trains, and no other line of ours."""
    lines = our_lines(errors)
    assert lines == closing(errors), errors
    assert len(lines) == start.processes, errors
    for line in lines:
        peak = re.search(r"peak (\S+ \S+) of (\S+ \S+)", line)
        assert peak is not None, line
        assert ("recomputed" in line) == binds, line
        assert ("fits its budget" in line) != binds, line
        assert "OVER BUDGET" not in line, line


def test_loading_calls_nothing_of_cuda() -> None:
    """On the simulated device, whose calls are counted: no context, no probe."""
    simulator.check_built()
    script = (
        "import cudasim; before = cudasim.all_calls(); import torch; import sys;"
        "loaded = 'libebbtide_cuda' in open('/proc/self/maps').read();"
        "print(cudasim.all_calls() - before, loaded, torch.cuda.is_initialized())"
    )
    counted = {}
    for budget in ("", "8GiB", "cuda=80%", "cuda:0=1GiB,cpu=8GiB"):
        done = run(
            [PYTHON, "-c", script], EBBTIDE_BUDGET=budget, **simulator.ENVIRONMENT
        )
        counted[budget] = done.stdout
        assert done.returncode == 0, done.stderr
    calls = counted.pop("").split()[0]
    assert set(counted.values()) == {f"{calls} True False\n"}, (calls, counted)


def test_a_copy_of_the_mark_does_not_keep_ebbtide_out() -> None:
    """A process id in a variable outlives exec, and containers use it again."""
    script = (
        "import os, sys;"
        "os.environ['EBBTIDE_LOADED_PID'] = str(os.getpid());"
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    done = run([PYTHON, "-c", script, JOB], EBBTIDE_BUDGET="8GiB")
    assert len(closing(done.stderr)) == 1, done.stderr
    assert "another copy" not in done.stderr
