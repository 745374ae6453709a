"""The twin of an H100: tests/cudasim/twin.py, and ./dev bench twin in a small form."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import harness
import simulator
import twin_bench

sys.path.insert(0, str(simulator.FACE))
import twin

GIB = 1 << 30
PROGRAMS = Path(__file__).with_name("programs")
DEVICE = json.loads((twin.MEASURED / "device.json").read_text())
OP_HOST_US = 7.0


def run(
    program: Path, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    host = twin.HostTime(OP_HOST_US, OP_HOST_US)
    return subprocess.run(
        [sys.executable, twin.__file__, str(program), *arguments],
        env={
            **harness.clean_environment(),
            **twin.environment(simulator.LIBRARIES, host),
            **variables,
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_calls_ops_copies_and_memory_are_those_of_the_device() -> None:
    done = run(PROGRAMS / "twin_probe.py")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["name"] == DEVICE["name"]
    assert found["total"] == pytest.approx(79.18 * GIB, rel=1e-4)
    # One launch, and what Python and PyTorch take for an op.
    assert found["host"] == DEVICE["launch_us"] * 1e3 + OP_HOST_US * 1e3
    event_ns = 1500
    (line,) = (
        line
        for line in twin.TABLE.read_text().splitlines()
        if line.endswith("\tmm BFloat16[8192,1792] BFloat16[1792,1792]")
    )
    known = float(line.split("\t")[0])
    assert found["product"] == pytest.approx(known + event_ns, abs=100)
    # By the roofline of the largest product that was measured.
    share = (4096 / 8192) ** 3
    roofline = share * DEVICE["mm8192_bf16_ms"] * 1e6
    assert found["unknown"] == pytest.approx(roofline + 2500 + event_ns, abs=100)
    assert GIB / (found["copy"] - event_ns) == pytest.approx(54.6, rel=0.002)
    assert GIB / (found["copy_both"] - event_ns) == pytest.approx(48.4, rel=0.002)
    assert (found["flag"], found["item"], found["read"]) == (True, 0, 0)
    # 60 GiB of the device and 20 of pinned memory are used, and 20 read.
    assert found["resident"] < 1 * GIB


def test_the_probe_of_devices_finds_the_device_that_was_measured() -> None:
    done = run(
        harness.ROOT / "bench" / "gpu" / "device_probe.py",
        CUDASIM_OP_HOST_US="0",
        CUDASIM_BACKWARD_OP_HOST_US="0",
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    # Values measured beside it are no rates; memory of the host is the machine's; the
    # first call of the driver set it up.
    others = ("hostRegister_rc", "touch", "_beside_copies_", "malloc_cached")
    first = [f"cuda{call}_{size}MiB" for call in ("Malloc", "Free") for size in (2, 20)]
    kept = {
        name: value
        for name, value in DEVICE.items()
        if not any(part in name for part in (*others, *first))
    }
    assert len(kept) > 30
    for name, value in kept.items():
        if isinstance(value, str):
            assert found[name] == value, name
        else:
            # item() also copies, which was not measured.
            off = 0.06 if name == "item_us" else 0.03
            assert found[name] == pytest.approx(value, rel=off), name


def test_an_op_table_that_is_wrong_is_refused_with_its_line(tmp_path: Path) -> None:
    table = tmp_path / "op_times.tsv"
    table.write_text("# of a test\n-5\tmm Float[1,1] Float[1,1]\n")
    done = run(PROGRAMS / "twin_probe.py", CUDASIM_OP_TIMES=str(table))
    assert done.returncode == 1
    assert f"twin.py: {table}:2: mm Float[1,1] Float[1,1]: '-5' is not" in done.stderr
    missing = run(PROGRAMS / "twin_probe.py", CUDASIM_OP_TIMES="/nowhere/times.tsv")
    assert missing.returncode == 1
    assert "twin.py: /nowhere/times.tsv: cannot be read" in missing.stderr


def test_a_device_file_that_is_wrong_is_refused_with_its_entry(tmp_path: Path) -> None:
    device = tmp_path / "device.json"
    device.write_text(json.dumps({**DEVICE, "event_record_us": -1}))
    done = run(PROGRAMS / "twin_probe.py", CUDASIM_DEVICE_FILE=str(device))
    assert done.returncode != 0
    assert f"{device}: event_record_us is -1" in done.stderr


def test_two_rows_of_full_size_are_what_the_device_did() -> None:
    names = ("gpt-1b.unmanaged", "gpt-1b.checkpoint")
    rows = [row for row in twin_bench.ROWS if row.name in names]
    runs = twin_bench.run_all(rows)
    found = {name: one.figures for name, one in runs.items()}
    assert twin_bench.complaints(found) == []
    assert found["gpt-1b.checkpoint"]["ratio"] == pytest.approx(1.169, abs=0.02)
    assert max(one.resident for one in runs.values()) < 1 * GIB
    # Nothing in it depends on the machine.
    again = twin_bench.run_all(rows[:1])
    assert again["gpt-1b.unmanaged"].figures == found["gpt-1b.unmanaged"]


ROWS: dict[str, dict[str, Any]] = {
    name: dict(row) for name, row in twin_bench.MEASURED.items()
}


def complaints(name: str, **other: Any) -> list[str]:
    return twin_bench.complaints({name: {**ROWS[name], **other}})


def test_of_the_device_itself_only_deaths_are_named() -> None:
    died = {
        name: f"{name}: {row['died']}" for name, row in ROWS.items() if "died" in row
    }
    assert sorted(twin_bench.complaints(ROWS)) == sorted(died.values())


def test_what_is_known_not_to_hold_is_accepted_and_said() -> None:
    name = "gpt-1b.checkpoint.expandable"
    found = {name: {**ROWS[name], "reserved": 14164164608}}
    assert twin_bench.complaints(found) == []
    (known,) = twin_bench.unmet(found)
    assert known.startswith(f"{name}: reserved is 14164164608, was 13346275328: ")


def test_each_figure_that_is_off_is_named() -> None:
    assert complaints("gpt-1b.unmanaged", seconds=0.1335) == [
        "gpt-1b.unmanaged: seconds is 0.1335, was 0.1267"
    ]
    assert complaints("llama.checkpoint", host=0.25) == [
        "llama.checkpoint: host is 0.25, was 0.3239"
    ]
    assert complaints("llama.mid", ratio=1.17) == ["llama.mid: ratio is 1.17, was 1.11"]
    (allocated,) = complaints("llama.unmanaged", allocated=45 * GIB)
    assert allocated.startswith("llama.unmanaged: allocated is 48318382080, was")
    assert twin_bench.complaints({"trainer.budget": {"died": "step 4: no"}}) == [
        "trainer.budget: step 4: no"
    ]
    budget = ROWS["gpt-1b.half"]["budget"]
    assert complaints("gpt-1b.half", reserved=budget + 1) == [
        f"gpt-1b.half: {budget + 1} reserved of {budget}"
    ]


def test_without_transformers_its_rows_are_left_out_and_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    ran: list[str] = []

    def run_all(rows: list[twin_bench.Row]) -> dict[str, twin_bench.Run]:
        ran.extend(row.name for row in rows)
        return {row.name: twin_bench.Run({"died": "no run"}, 0) for row in rows}

    monkeypatch.setattr(twin_bench, "run_all", run_all)
    monkeypatch.setattr(sys, "argv", ["twin_bench.py"])
    assert twin_bench.main() == 0
    said = capsys.readouterr().err
    assert ran
    assert all(name.startswith("gpt-1b.") for name in ran)
    for name in ("llama.mid", "trainer.budget", "llama22.checkpoint"):
        assert f"'{name}'" in said


def test_a_step_is_steady_from_the_first_of_three_alike() -> None:
    assert twin_bench.steady([9, 5, 1, 1, 1, 1, 1, 1]) == 2
    assert twin_bench.steady([1, 9, 1, 1.04, 1, 9, 1, 1]) == 2
    assert twin_bench.steady([1, 2, 3, 4]) == 4
