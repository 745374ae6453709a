"""`ebbtide run`: what the program it becomes sees, and what it refuses."""

from pathlib import Path

import pytest

import ebbtide
import harness
from run import PYTHON, run

PROGRAM = harness.EBBTIDE
SHOW = ["/usr/bin/env"]


def shown(*arguments: str | Path, **variables: str) -> dict[str, str]:
    """The environment of a program that was run with these options."""
    done = run([PROGRAM, "run", *arguments, "--", *SHOW], **variables)
    assert (done.returncode, done.stderr) == (0, "")
    lines = (line.partition("=") for line in done.stdout.splitlines())
    return {name: value for name, _, value in lines}


def refusal(*arguments: str | Path, **variables: str) -> str:
    done = run([PROGRAM, "run", *arguments, "--", "true"], **variables)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    return done.stderr


def test_every_option_becomes_its_variable(tmp_path: Path, preload: Path) -> None:
    seen = shown(
        "--budget=cuda:0=8GiB,cpu=50%",
        "--host-budget=2GB",
        f"--offload-dir={tmp_path}",
        "--offload-limit=1.5GiB",
        f"--record={tmp_path}/run.ebbtide,max=1GiB",
        f"--report={tmp_path}/report.json",
        "--verify=7",
        "--strict",
    )
    ours = {k: v for k, v in seen.items() if k.startswith("EBBTIDE_")}
    assert ours == {
        "EBBTIDE_BUDGET": "cuda:0=8GiB,cpu=50%",
        "EBBTIDE_HOST_BUDGET": "2GB",
        "EBBTIDE_OFFLOAD_DIR": str(tmp_path),
        "EBBTIDE_OFFLOAD_LIMIT": "1.5GiB",
        "EBBTIDE_RECORD": f"{tmp_path}/run.ebbtide,max=1GiB",
        "EBBTIDE_REPORT": f"{tmp_path}/report.json",
        "EBBTIDE_VERIFY": "7",
        "EBBTIDE_STRICT": "1",
        "EBBTIDE_PROGRESS": "1",
    }
    assert Path(seen["LD_PRELOAD"]).resolve() == preload.resolve()


def test_only_what_was_said_is_set(preload: Path) -> None:
    seen = shown("--budget=1GiB", LD_PRELOAD="libm.so.6", EBBTIDE_VERIFY="3")
    ours = {k: v for k, v in seen.items() if k.startswith("EBBTIDE_")}
    assert ours == {
        "EBBTIDE_BUDGET": "1GiB",
        "EBBTIDE_VERIFY": "3",
        "EBBTIDE_PROGRESS": "1",
    }
    first, second = seen["LD_PRELOAD"].split(":")
    assert Path(first).resolve() == preload.resolve()
    assert second == "libm.so.6"


def test_relative_paths_outlive_a_change_of_directory() -> None:
    seen = shown("--record=run.ebbtide", "--offload-dir=.")
    assert seen["EBBTIDE_RECORD"] == str(Path.cwd() / "run.ebbtide")
    assert Path(seen["EBBTIDE_OFFLOAD_DIR"]).resolve() == Path.cwd()
    assert shown("--budget=1GiB", "--offload-dir=none")["EBBTIDE_OFFLOAD_DIR"] == "none"


def test_offload_options_have_an_older_name(tmp_path: Path) -> None:
    seen = shown(f"--spill-dir={tmp_path}", "--spill-limit=1GiB", "--budget=1GiB")
    assert seen["EBBTIDE_OFFLOAD_DIR"] == str(tmp_path)
    assert seen["EBBTIDE_OFFLOAD_LIMIT"] == "1GiB"
    older = {"EBBTIDE_SPILL_DIR": "none", "EBBTIDE_SPILL_LIMIT": "none"}
    done = run([PROGRAM, "doctor"], **older)
    assert "offloading: EBBTIDE_OFFLOAD_DIR=none forbids it" in done.stdout
    assert "EBBTIDE_SPILL_LIMIT=none: " in done.stdout
    newer = {"EBBTIDE_OFFLOAD_DIR": "/dev/shm", "EBBTIDE_OFFLOAD_LIMIT": "1GiB"}
    done = run([PROGRAM, "doctor"], **older, **newer)
    assert "offloading: offload directory /dev/shm is on tmpfs" in done.stdout
    assert "EBBTIDE_SPILL_LIMIT=none" not in done.stdout


@pytest.mark.parametrize("status", [0, 1, 2, 77])
def test_the_exit_status_is_the_programs(status: int) -> None:
    exits = ["sh", "-c", f"exit {status}"]
    assert run([PROGRAM, "run", "--budget=1GiB", "--", *exits]).returncode == status


def test_a_signal_ends_it_as_it_ends_the_program() -> None:
    dies = ["sh", "-c", "kill -9 $$"]
    assert run([PROGRAM, "run", "--budget=1GiB", "--", *dies]).returncode == -9


def test_the_programs_own_options_reach_it() -> None:
    words = ["--budget", "-x", "--", "plan", "a b", ""]
    script = "import sys; print(sys.argv[1:])"
    done = run([PROGRAM, "run", "--budget", "1GiB", "--", PYTHON, "-c", script, *words])
    assert done.stdout == f"{words}\n"


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--budget=8GiX"], "--budget 8GiX: "),
        (["--budget=-1GiB"], "--budget -1GiB: "),
        (["--budget", "160"], "--budget 160: expected a unit, as 160MiB or 160GiB"),
        (["--budgett", "1GiB"], "ebbtide: unknown option --budgett\n"),
        (["--budget=1GiB", "--strictt"], "ebbtide: unknown option --strictt\n"),
        (["--host-budget=0"], "--host-budget 0: "),
        (["--budget=1GiB", "--offload-limit=many"], "--offload-limit many: "),
        (["--budget=1GiB", "--offload-dir=/missing"], "expected a directory on a disk"),
        (["--record=/missing/run.ebbtide"], "cannot write to /missing: "),
        (["--record=/"], "--record /: expected a file"),
        (["--record=run.ebbtide,max=1parsec"], "--record 1parsec: "),
        (["--budget=1GiB", "--verify=0"], "expected a number of steps above 0, or all"),
        ([], "expected --budget B or --record FILE"),
    ],
)
def test_what_is_wrong_is_named(arguments: list[str], names: str) -> None:
    assert names in refusal(*arguments)


def test_units_are_written_as_for_docker_and_slurm() -> None:
    for budget in ("8G", "800m", "160mib"):
        assert shown("--budget", budget)["EBBTIDE_BUDGET"] == budget


def test_the_version_is_the_packages() -> None:
    done = run([PROGRAM, "--version"])
    assert (done.returncode, done.stdout) == (0, f"ebbtide {ebbtide.__version__}\n")


def test_a_budget_from_outside_is_enough() -> None:
    assert shown(EBBTIDE_BUDGET="3GiB")["EBBTIDE_BUDGET"] == "3GiB"
    assert shown("--budget=1GiB", EBBTIDE_BUDGET="3GiB")["EBBTIDE_BUDGET"] == "1GiB"


def test_a_missing_program_is_named() -> None:
    done = run([PROGRAM, "run", "--budget=1GiB", "--", "no-such-program"])
    assert done.returncode == 2
    assert done.stderr == "ebbtide: no-such-program: command not found\n"
    done = run([PROGRAM, "run", "--budget=1GiB", "--", "/"])
    assert (done.returncode, done.stderr) == (2, "ebbtide: /: Permission denied\n")
    assert run([PROGRAM, "run", "--budget=1GiB"]).returncode == 2


@pytest.mark.parametrize(
    "variable", ["TORCH_DEVICE_BACKEND_AUTOLOAD=0", "EBBTIDE_DISABLE=1"]
)
def test_what_switches_it_off_is_said(variable: str) -> None:
    name, _, value = variable.partition("=")
    done = run([PROGRAM, "run", "--budget=1GiB", "--", "true"], **{name: value})
    assert done.returncode == 0
    assert done.stderr.startswith(f"ebbtide: {name}")
