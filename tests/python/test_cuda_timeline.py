"""A trace of a CUDA job has what the device did where the device did it."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

import harness
import simulator
from browser import browser
from chrome_file import ChromeTrace, nanos
from run import PYTHON, run

PROGRAM = harness.ROOT / "tests" / "python" / "programs" / "cuda_job.py"
ARGUMENTS = ("gpt", "--size", "small", "--batch", "16", "--steps", "6")
# The simulated device's time for a copy: 1 us for 4 KiB, and 2 us to begin; a third is
# the host's where the device waits for its call.
BYTES_PER_NANOSECOND = 4.096
STARTING = 2000
CALL = 1000
KINDS = ("forward", "backward", "recompute", "offload", "restore", "stall")


@pytest.fixture(scope="module", params=["eager", "late"])
def recorded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder of a job that drops and moves."""
    simulator.check_built()
    folder = Path(tmp_path_factory.mktemp("cuda"))
    trace, report = folder / "run.ebbtide", folder / "report.json"
    done = run(
        [PYTHON, PROGRAM, request.param, *ARGUMENTS],
        PYTHONPATH=f"{simulator.FACE}:{harness.JOBS}",
        EBBTIDE_BUDGET="24MiB",
        EBBTIDE_RECORD=os.fspath(trace),
        EBBTIDE_REPORT=os.fspath(report),
        CUDASIM_H2D_GBPS=str(BYTES_PER_NANOSECOND),
        CUDASIM_D2H_GBPS=str(BYTES_PER_NANOSECOND),
        CUDASIM_TFLOPS="1000000",  # products take what other kernels do
        **simulator.SMALL_WORKSPACES,
    )
    assert done.returncode == 0, done.stderr
    return folder


def shown(folder: Path, name: str) -> Path:
    out = folder / name
    done = run([harness.EBBTIDE, "timeline", folder / "run.ebbtide", "-o", out])
    assert (done.returncode, done.stderr) == (0, "")
    return out


@pytest.fixture(scope="module")
def trained(recorded: Path) -> tuple[ChromeTrace, dict[str, Any]]:
    """Its Chrome trace, and its report."""
    report = json.loads((recorded / "report.json").read_text())
    return ChromeTrace(shown(recorded, "run.json")), report


def test_readers_speak_of_host_memory(recorded: Path) -> None:
    explained = run([harness.EBBTIDE, "explain", recorded / "run.ebbtide"]).stdout
    chrome = ChromeTrace(shown(recorded, "run.json"))
    counters = {event["name"] for event in chrome.phase("C")}
    assert "host memory" in counters
    with browser() as page:
        page.open(shown(recorded, "page.html"))
        page.press("p")
        text = page.run("document.body.innerText")
        places = page.run("timeline.places")
    assert places == ["in host memory"]
    labels = json.dumps([*counters, *(e.get("cat") for e in chrome.phase("i"))])
    for said in (explained, text, labels):
        assert not re.search("(?i)spill|disk", said), said
    assert re.search("offloading", explained)
    assert "copies out" in text


def spans(chrome: ChromeTrace, kind: str) -> list[dict[str, Any]]:
    return [event for event in chrome.phase("X") if event.get("cat") == kind]


def test_every_lane_has_spans_and_they_nest(
    trained: tuple[ChromeTrace, dict[str, Any]],
) -> None:
    chrome, _ = trained
    chrome.check_nesting()
    chrome.check_threads()
    steps = [event for event in chrome.phase("X") if "cat" not in event]
    first = nanos(steps[0]["ts"])
    last = max(nanos(step["ts"]) + nanos(step["dur"]) for step in steps)
    for kind in KINDS:
        lane = spans(chrome, kind)
        assert lane, kind
        for span in lane:
            assert first <= nanos(span["ts"]) + nanos(span["dur"]) <= last, span


def test_copies_are_all_there_and_take_what_the_device_took(
    trained: tuple[ChromeTrace, dict[str, Any]],
) -> None:
    chrome, report = trained
    out, back = spans(chrome, "offload"), spans(chrome, "restore")
    assert sum(span["args"]["bytes"] for span in out) == report["bytes_spilled"]
    # Storages fetched early and released again were copied, too.
    assert sum(span["args"]["bytes"] for span in back) >= report["bytes_restored"]
    for span in [*out, *back]:
        due = span["args"]["bytes"] / BYTES_PER_NANOSECOND + STARTING
        assert -2 <= nanos(span["dur"]) - due <= CALL + 2, span


def test_ops_take_the_device_s_time_and_not_the_host_s(
    trained: tuple[ChromeTrace, dict[str, Any]],
) -> None:
    chrome, _ = trained
    # Calls and kernels take whole microseconds of its clock; few begin at the end of a
    # copy, which need not.
    forward = spans(chrome, "forward")
    beyond = [(nanos(span["dur"]) + 500) % 1000 - 500 for span in forward]
    assert sum(abs(rest) <= 2 for rest in beyond) >= 0.98 * len(beyond)
    assert all(nanos(span["dur"]) > 0 for span in spans(chrome, "recompute"))
