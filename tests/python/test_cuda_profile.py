"""CUPTI's records of steps on the simulated device, and cases without any."""

import functools
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import harness
import simulator
from run import PYTHON, our_lines, run

PROGRAMS = harness.ROOT / "tests" / "python" / "programs"
LONG = bool(os.environ.get("EBBTIDE_LONG"))
SCHEDULES = ("eager", "ontime", "late", "race", "random")
FEW = ("late", "race")
JOBS = {
    "gpt": ("--size", "small", "--batch", "2", "--steps", "3"),
    "resnet": ("--size", "full", "--steps", "3"),
    "unet": ("--size", "full", "--steps", "3"),
    "encdec": ("--size", "full", "--steps", "3"),
    "lstm": ("--size", "full", "--steps", "3"),
}
CUPTI = {"EBBTIDE_CUPTI": "1", "EBBTIDE_RECORD": "/dev/null", "CUPTISIM_TELL": "1"}
CLEAN = "cuptisim: enabled 0, pending 0"

Done = subprocess.CompletedProcess[str]


def start(program: str, *arguments: str, **environment: str) -> Done:
    done = run(
        [PYTHON, PROGRAMS / program, *arguments],
        PYTHONPATH=f"{simulator.FACE}:{harness.JOBS}",
        **simulator.SMALL_WORKSPACES,
        **environment,
    )
    assert done.returncode == 0, done.stderr
    return done


@functools.cache
def train(name: str, schedule: str, **environment: str) -> tuple[list[str], Any, Done]:
    """Losses and the hash, what CUPTI and the clock say, and the rest."""
    done = start("cuda_profile.py", schedule, name, *JOBS[name], **environment)
    return *simulator.trained(done.stdout), done


@functools.cache
def unmanaged(name: str) -> list[str]:
    """The control, that the schedule does not change the bits, is in test_cuda_jobs."""
    return train(name, "eager")[0]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "gpt" else pytest.mark.long)
        for name in JOBS
    ],
)
def test_all_work_of_the_device_is_accounted_for(name: str) -> None:
    for schedule in SCHEDULES if LONG else FEW:
        result, left, done = train(name, schedule, **CUPTI)
        assert result == unmanaged(name)
        assert left["broken"] is None
        cupti = left["cupti"]
        assert cupti["refused"] == ""
        # The last one ends with the program.
        assert cupti["windows"] == len(cupti["steps"]) >= 2
        kinds = ("attributed", "own", "unattributed")
        total = sum(step[kind] for step in cupti["steps"] for kind in kinds)
        assert total == pytest.approx(left["work_ns"], rel=1e-3)
        # Nothing is evicted; the optimizer and the sums of gradients are no ops.
        assert all(step["own"] == 0 for step in cupti["steps"])
        assert sum(step["attributed"] for step in cupti["steps"]) > total / 2
        assert CLEAN in done.stderr
        closing = our_lines(done.stderr)[-1]
        assert re.search(r"CUPTI timed \d+ steps, \d+\.\d % of what", closing)
        assert not any("CUDA events" in line for line in our_lines(done.stderr))


def test_what_ebbtide_does_itself_is_no_ops_work() -> None:
    result, left, _ = train("gpt", "late", **CUPTI, EBBTIDE_BUDGET="22MiB")
    assert result == unmanaged("gpt")
    steps = left["cupti"]["steps"]
    assert steps[0]["own"] > 0  # with a budget each op is tried once
    free = train("gpt", "late", **CUPTI)[1]["cupti"]["steps"]
    assert {step["attributed"] for step in steps + free} == {steps[0]["attributed"]}


@functools.cache
def plain(when: str) -> Done:
    return start("cuda_profiler.py", when)


def refused(done: Done) -> str:
    """The one line that says that events are used, and nothing is left behind."""
    said = [line for line in our_lines(done.stderr) if "CUDA events" in line]
    assert len(said) == 1, done.stderr
    assert CLEAN in done.stderr
    return said[0].removeprefix("ebbtide: times of ops are those of CUDA events; ")


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        ({"CUPTISIM_SUBSCRIBED": "1"}, "another profiler is active.*\\(39\\)"),
        ({"CUPTISIM_FAIL": "cuptiActivityEnable:0:-1:35"}, "INSUFFICIENT_PRIVILEGES"),
        ({"CUPTISIM_DROP_RECORDS": "100"}, "records were dropped"),
    ],
)
def test_where_cupti_refuses_events_are_used(
    environment: dict[str, str], why: str, tmp_path: Path
) -> None:
    variables = CUPTI | environment | {"EBBTIDE_RECORD": str(tmp_path / "run.ebbtide")}
    done = start("cuda_profiler.py", "never", **variables)
    assert re.search(why, refused(done))
    assert done.stdout == plain("never").stdout
    # The profile has times all the same.
    text = (tmp_path / "run.ebbtide").read_text(errors="replace")
    profile, _ = json.JSONDecoder().raw_decode(text, text.index('{"d2h"'))
    assert profile["kind"] == "profile"
    assert all(part["time"] > 0 for part in profile["ops"] + profile["stages"])


# Calls of torch to CUPTI; ebbtide makes more.
ASKED_BY_TORCH = """
ActivityDisable ActivityEnable ActivityEnableDriverApi
ActivityEnableCudaEventDeviceTimestamps ActivityEnableRuntimeApi ActivityFlushAll
ActivityGetNextRecord ActivityGetNumDroppedRecords ActivityPopExternalCorrelationId
ActivityPushExternalCorrelationId ActivityRegisterCallbacks
ActivityRegisterTimestampCallback ActivitySetAttribute EnableCallback EnableDomain
Finalize GetCallbackName GetResultString GetVersion Subscribe Unsubscribe"""


def test_without_a_cupti_to_use_events_are_used(tmp_path: Path) -> None:
    for built in simulator.LIBRARIES.iterdir():
        if built.name != "libcupti.so.13":
            (tmp_path / built.name).symlink_to(built)
    names = ASKED_BY_TORCH.split()
    functions = "".join(f"int cupti{name}() {{ return 1; }}\n" for name in names)
    (tmp_path / "cupti.c").write_text(functions)
    (tmp_path / "cupti.map").write_text("libcupti.so.13 { global: cupti*; };\n")
    command = ["gcc", "-shared", "-fPIC", "cupti.c", "-o", "libcupti.so.13"]
    command += ["-Wl,-soname,libcupti.so.13,--version-script=cupti.map"]
    subprocess.run(command, cwd=tmp_path, check=True)
    folder = {"CUDASIM_LIB": str(tmp_path)}
    done = start("cuda_profiler.py", "never", **CUPTI, **folder)
    said = [line for line in our_lines(done.stderr) if "CUDA events" in line]
    assert len(said) == 1, done.stderr
    assert said[0].endswith("CUPTI: libcupti.so.13 has no cuptiActivityGetAttribute")
    assert done.stdout == plain("never").stdout


@pytest.mark.parametrize("when", ["early", "midway"])
def test_the_trace_of_torchs_profiler_stays_complete(when: str) -> None:
    assert sum(json.loads(plain(when).stdout)["work"].values()) > 10
    done = start("cuda_profiler.py", when, **CUPTI)
    assert done.stdout == plain(when).stdout
    assert "torch.profiler" in refused(done)


def test_no_callback_stays_where_nothing_is_watched() -> None:
    found = json.loads(start("callbacks.py", "12", **CUPTI).stdout)
    assert found["loss"] == json.loads(start("callbacks.py", "12").stdout)["loss"]
    # Eight steps are recorded. That the next is not is known where it begins.
    assert [seen for seen, _ in found["inside"]] == [True] * 8 + [False] * 4
    assert [kinds > 0 for _, kinds in found["inside"]] == [True] * 8 + [False] * 4
    assert found["observed"] == [True] * 9 + [False] * 3
    assert [kinds > 0 for kinds in found["kinds"]] == [False] + [True] * 8 + [False] * 3


def test_no_callback_stays_where_the_job_fits_its_budget() -> None:
    found = json.loads(start("callbacks.py", "16", EBBTIDE_BUDGET="1GiB").stdout)
    assert found["observed"][:2] == [True] * 2
    assert found["observed"][-2:] == [False] * 2
