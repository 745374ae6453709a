"""tests/gpu and bench/gpu, as far as they can be tried without a device."""

import re
from pathlib import Path

import pytest

import harness
import simulator
from run import PYTHON, run

SUITE = harness.ROOT / "tests" / "gpu"
BENCH = harness.ROOT / "bench" / "gpu" / "gpu_bench.py"
LAUNCHER = Path(__file__).with_name("programs") / "gpu_on_simulator.py"
SIMULATED = {
    **simulator.ENVIRONMENT,
    "EBBTIDE_GPU_TESTS_LAUNCHER": str(LAUNCHER),
    "EBBTIDE_GPU_TESTS_SIZE": "tiny",
}


def pytest_on(arguments: list[str], variables: dict[str, str]) -> tuple[int, str]:
    command = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = run([*command, *arguments, str(SUITE)], **variables)
    return done.returncode, done.stdout + done.stderr


def test_without_a_device_all_of_it_is_deselected() -> None:
    status, said = pytest_on(["-m", "gpu"], {"CUDA_VISIBLE_DEVICES": ""})
    assert status == pytest.ExitCode.NO_TESTS_COLLECTED, said
    # Six programs in three ways twice, one plan each, and the sanitizer.
    assert re.search(r"\b43 deselected\b", said), said


def test_what_the_simulator_can_run_of_it_passes() -> None:
    # It has no cuDNN, no flash attention and no exact numbers of autocast's.
    # In these few steps it is chance which plan stays.
    chosen = "gemm_bf16 and not stays and not recomputed"
    status, said = pytest_on(["-m", "gpu", "-k", chosen], SIMULATED)
    assert status == pytest.ExitCode.OK, said
    assert re.search(r"\b4 passed, 39 deselected\b", said), said


@pytest.mark.long
def test_the_bench_writes_its_table(tmp_path: Path) -> None:
    out = tmp_path / "RESULTS-gpu.md"
    few = ["--rounds", "1", "--steps", "6", "--warm", "2", "--model", "gpt-1b"]
    done = run(
        [PYTHON, BENCH, *few, "--out", out],
        **SIMULATED,
        EBBTIDE_GPU_TESTS_NUMBERS="0",
    )
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^\| (.*?) \|.*\| ([\w. ]+) \|$", out.read_text(), re.M)
    # There is no compiler for the simulated device: a way that fails is said to.
    assert dict(rows)["compile=0.5"] == "failed"
    for way in ("unmanaged", "checkpoint", "ebbtide, half", "ebbtide, as checkpoint"):
        assert dict(rows)[way] == "same", way
