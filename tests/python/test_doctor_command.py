"""`ebbtide doctor` on this machine; tests/cli/doctor_test.cc makes machines up."""

import json
import os
import re
import shutil
from importlib.metadata import version
from pathlib import Path

import harness
from run import run

PROGRAM = harness.EBBTIDE
VENV = str(harness.PYTHON.parent)


def test_this_machine_is_fit_for_cpu_mode() -> None:
    path = f"{VENV}:{os.environ['PATH']}"
    done = run([PROGRAM, "doctor", "--json"], PATH=path, EBBTIDE_BUDGET="1GiB")
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    assert answer["fit"] is True
    findings = {each["name"]: each for each in answer["findings"]}
    for name in ["library", "python", "torch", "entry point", "RAM", "variables"]:
        assert findings[name]["state"] == "ok", findings[name]
        assert findings[name]["advice"] == ""
    assert findings["torch"]["what"].startswith(version("torch"))
    assert all(
        each["state"] in ("ok", "limited", "missing") for each in findings.values()
    )
    bad = [each for each in findings.values() if each["state"] != "ok"]
    assert all(each["advice"] for each in bad)


def test_what_keeps_ebbtide_away_is_named() -> None:
    done = run(
        [PROGRAM, "doctor"],
        PATH=f"{VENV}:{os.environ['PATH']}",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
        EBBTIDE_OFFLOAD_DIR="/dev/shm",
        EBBTIDE_BUGDET="1GiB",
        EBBTIDE_LOG="loud",
        PYTORCH_ALLOC_CONF="backend:cudaMallocAsync",
    )
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert all(re.match(r"(ok|limited|missing) +\S.*: ", line) for line in lines)
    assert all(("->" in line) != line.startswith("ok ") for line in lines)
    for begin in [
        "missing  autoload: TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps torch from",
        "limited  offloading: offload directory /dev/shm is on tmpfs",
        "limited  EBBTIDE_BUGDET: nothing reads this variable -> set EBBTIDE_BUDGET",
        "missing  variables: EBBTIDE_LOG=loud: expected off, line or debug",
        "limited  PYTORCH_ALLOC_CONF: backend:cudaMallocAsync",
    ]:
        assert any(line.startswith(begin) for line in lines), (begin, lines)


def test_a_python_that_does_not_answer_is_not_fit(tmp_path: Path) -> None:
    # A copy, since a python beside the program goes before one on PATH.
    (tmp_path / "lib").symlink_to(PROGRAM.parent.parent / "lib")
    folder = tmp_path / "bin"
    folder.mkdir()
    program = shutil.copy(PROGRAM, folder / "ebbtide")
    python = folder / "python"
    for script, why in [
        ("exit 3", "it does not start"),
        ("echo hello", "its answer is not what was expected"),
    ]:
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
        done = run([program, "doctor"], PATH=str(folder))
        assert done.returncode == 1
        assert f"missing  python: {python}: {why} -> " in done.stdout
    python.unlink()
    done = run([program, "doctor"], PATH=str(folder))
    assert done.returncode == 0  # C++ programs need none
    assert "limited  python: no python on PATH -> " in done.stdout


# The functions of the driver's library that a program needs.
DRIVER = """
int cuInit(unsigned flags) { return RESULT; }
int cuDriverGetVersion(int* version) { *version = 12080; return 0; }
int cuGetErrorName(int error, const char** name) {
  *name = "CUDA_ERROR_NO_DEVICE";
  return error != 100;
}
"""


def driver_line(folder: Path, source: str, *flags: str) -> tuple[int, str]:
    """The message if the loader finds this driver, and there is no python."""
    folder.mkdir()
    library = folder / "libcuda.so.580.1"
    (folder / "driver.c").write_text(source)
    command: list[str | Path] = [
        "cc",
        "-shared",
        "-fPIC",
        *flags,
        "-o",
        library,
        folder / "driver.c",
    ]
    assert run(command).returncode == 0
    (folder / "libcuda.so.1").symlink_to(library.name)
    done = run([PROGRAM, "doctor"], PATH="/nowhere", LD_LIBRARY_PATH=str(folder))
    (line,) = [each for each in done.stdout.splitlines() if "driver: " in each]
    return done.returncode, line.replace(str(library.resolve()), "FILE")


def test_the_driver_that_the_loader_finds_is_named(tmp_path: Path) -> None:
    assert driver_line(tmp_path / "fine", DRIVER, "-DRESULT=0") == (
        0,
        "ok       driver: for CUDA 12.8, FILE",
    )


def test_a_driver_that_does_not_start_says_why(tmp_path: Path) -> None:
    for name, source, result, why in [
        ("none", DRIVER, "100", "cuInit failed with CUDA_ERROR_NO_DEVICE (100)"),
        ("other", DRIVER, "803", "cuInit failed with error 803"),
        ("empty", "int nothing;", "0", "it has no cuInit"),
        ("crash", "int cuInit(int f) { __builtin_trap(); }", "0", "ended by signal 4"),
    ]:
        status, line = driver_line(tmp_path / name, source, f"-DRESULT={result}")
        assert status == 0  # CPU mode needs none
        assert line.startswith("missing  driver: "), line
        assert why in line, line
        assert "nothing for CPU mode; else see what nvidia-smi says" in line


def test_every_variable_that_is_read_is_known() -> None:
    sources = [
        *harness.ROOT.glob("hooks/*.cc"),
        *harness.ROOT.glob("hooks/*.c"),
        *harness.ROOT.glob("allocator/**/*.cc"),
        *harness.ROOT.glob("python/ebbtide/*.py"),
    ]
    read = {
        name
        for source in sources
        for name in re.findall(r'"(EBBTIDE_[A-Z_]+)"', source.read_text())
    }
    assert "EBBTIDE_BUDGET" in read
    known = re.findall(
        r'"(EBBTIDE_[A-Z_]+)",', (harness.ROOT / "cli/doctor_variables.cc").read_text()
    )
    assert read - set(known) == {"EBBTIDE_VERSION"} & read
