"""tests/gpu and bench/gpu on the simulated device, in their small form."""

import re
import shutil
from pathlib import Path

import pytest

import gpu_jobs
import gpu_results
import harness
import simulator
from run import PYTHON, run

RUNNER = harness.ROOT / "tests" / "gpu" / "gpu_run.py"
PROGRAMS = Path(__file__).with_name("programs")
SIMULATED = {
    **simulator.ENVIRONMENT,
    "EBBTIDE_GPU_TESTS_LAUNCHER": str(PROGRAMS / "gpu_on_simulator.py"),
    "EBBTIDE_GPU_TESTS_SIZE": "tiny",
}
# Attention's own kernels have no numbers on that device.
WITHOUT_NUMBERS = ("attention_flash", "attention_efficient")


def measured(folder: Path, *arguments: str) -> tuple[gpu_results.Summary, str]:
    """The figures of a run, and its table."""
    places = ["--results", str(folder / "r.jsonl"), "--out", str(folder / "table.md")]
    done = run([PYTHON, RUNNER, *places, "--cores", "2", *arguments], **SIMULATED)
    assert (folder / "table.md").exists(), done.stderr
    found = gpu_results.summary(gpu_results.read(folder / "r.jsonl"))
    return found, (folder / "table.md").read_text()


def test_a_case_and_the_bench_run_to_their_table(tmp_path: Path) -> None:
    case = "case.gemm_bf16"
    jobs = [f"{case}.control?", f"{case}.planned", "gpt-1b.half", "llama.checkpoint"]
    found, table = measured(tmp_path, "--jobs", ",".join([*jobs, "gpt-1b.unmanaged"]))
    gemm = found["cases"]["gemm_bf16"]
    assert (gemm["steps"], gemm["controls_equal"]) == (12, 12)
    planned = gemm["ways"]["planned"]
    assert planned["equal"] == 12
    assert planned["recomputed"] + planned["moved"] > 0
    assert planned["reserved"] <= planned["budget"] < gemm["reserved"]
    rows = found["rows"]
    assert set(rows) == {"gpt-1b.unmanaged", "gpt-1b.half", "llama.checkpoint"}
    for name, row in rows.items():
        assert row["seconds"] > 0 and row["host"] > 0, name
    half = rows["gpt-1b.half"]
    assert half["reserved"] <= half["budget"] < rows["gpt-1b.unmanaged"]["reserved"]
    assert re.search(r"^\| gemm_bf16 \| 12 steps \| not run \|", table, re.M), table
    assert re.search(r"^\| gpt-1b.half \| 0.08 \| [\d.]+ \|", table, re.M), table


@pytest.mark.long
@pytest.mark.parametrize("case", gpu_jobs.CASES)
def test_each_case_runs_on_the_simulated_device(case: str, tmp_path: Path) -> None:
    found, table = measured(tmp_path, "--jobs", f"case.{case}.*", "--seconds", "280")
    told = found["cases"][case]
    assert told["controls_equal"] == 12, table
    for way in ("recomputed", "offloaded", "planned"):
        this = told["ways"][way]
        if (case, way) == ("gemm_autocast", "recomputed") and "died" in this:
            # PyTorch's segments leave no room for what is recomputed.
            assert "OutOfMemoryError" in this["died"]
            continue
        assert this["recomputed"] + this["moved"] > 0, table
        assert this["reserved"] <= this["budget"]
        assert case in WITHOUT_NUMBERS or this["equal"] == 12, table


@pytest.mark.long
def test_the_whole_bench_runs_on_the_simulated_device(tmp_path: Path) -> None:
    jobs = "gpt-1b.*,llama*,trainer.*,resnet*"
    found, table = measured(tmp_path, "--jobs", jobs, "--seconds", "900")
    wanted = [j.name for j in gpu_jobs.every_job() if j.alone]
    assert list(found["rows"]) == wanted
    unmeasured = {name for name, row in found["rows"].items() if "seconds" not in row}
    # There is no compiler for that device.
    assert unmeasured == {"gpt-1b.compile"}, table


def test_nothing_but_its_two_folders_is_needed(tmp_path: Path) -> None:
    for folder in ("tests/gpu", "bench/gpu"):
        shutil.copytree(harness.ROOT / folder, tmp_path / folder)
    runner = tmp_path / "tests" / "gpu" / "gpu_run.py"
    jobs = ["--jobs", "gpt-1b.checkpoint.size", "--cores", "2"]
    done = run([PYTHON, runner, *jobs], **SIMULATED)
    assert done.returncode == 0, done.stderr
    table = (tmp_path / "bench" / "results" / "gpu.md").read_text()
    assert "cudasim (no device)" in table
    records = gpu_results.read(tmp_path / "build/gpu/results/results.jsonl")
    assert [r["status"] for r in records if "job" in r] == ["done"]
