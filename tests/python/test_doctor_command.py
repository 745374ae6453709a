"""`ebbtide doctor` on this machine; tests/cli/doctor_test.cc makes machines up."""

import json
import os
import re
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
        EBBTIDE_SPILL_DIR="/dev/shm",
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
        "limited  spilling: spill directory /dev/shm is on tmpfs",
        "limited  EBBTIDE_BUGDET: nothing reads this variable -> set EBBTIDE_BUDGET",
        "missing  variables: EBBTIDE_LOG=loud: expected off, line or debug",
        "limited  PYTORCH_ALLOC_CONF: backend:cudaMallocAsync",
    ]:
        assert any(line.startswith(begin) for line in lines), (begin, lines)


def test_a_python_that_does_not_answer_is_not_fit(tmp_path: Path) -> None:
    python = tmp_path / "python"
    for script, why in [
        ("exit 3", "it does not start"),
        ("echo hello", "its answer is not what was expected"),
    ]:
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
        done = run([PROGRAM, "doctor"], PATH=str(tmp_path))
        assert done.returncode == 1
        assert f"missing  python: {python}: {why} -> " in done.stdout
    python.unlink()
    done = run([PROGRAM, "doctor"], PATH=str(tmp_path))
    assert done.returncode == 0  # C++ programs need none
    assert "limited  python: no python on PATH -> " in done.stdout


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
