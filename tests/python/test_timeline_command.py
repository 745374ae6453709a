"""`ebbtide timeline`: from a recorded job to a page and a Perfetto trace."""

import json
import re
import shlex
from pathlib import Path

import pytest

import harness
from run import PYTHON, job, run
from trace_file import Trace

PROGRAM = harness.EBBTIDE


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of a job that ran without a budget."""
    path = Path(tmp_path_factory.mktemp("trace")) / "run.ebbtide"
    done = run([PROGRAM, "run", f"--record={path}", "--", *job("lstm")])
    assert done.returncode == 0, done.stderr
    return path


def timeline(trace: Path, out: Path) -> str:
    done = run([PROGRAM, "timeline", trace, "-o", out])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return out.read_text()


def test_the_page_holds_the_run_and_loads_nothing(trace: Path, tmp_path: Path) -> None:
    page = timeline(trace, tmp_path / "out.html")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert found is not None
    data = json.loads(found[1])
    assert data["complete"] is True
    assert len(data["steps"]) > 0
    assert data["peak"] >= max(step[3] for step in data["steps"]) > 0
    assert data["curve"]["rows"] > 10
    loads = re.findall(r"<(?:link|img|iframe|script)\b[^>]*(?:src|href)=", page)
    assert loads == []
    assert "sourceMappingURL" not in page


TRAINING = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.Linear(256, 256))
optimizer = torch.optim.AdamW(model.parameters())
x = torch.randn(256, 256)
for _ in range(6):
    model.zero_grad()
    model(x).sigmoid().mean().backward()
    optimizer.step()
    x = x * 2  # the curve has a point where bytes come or go
"""


def test_a_page_lies_beside_the_trace_unless_it_is_named(
    trace: Path, tmp_path: Path
) -> None:
    beside = tmp_path / "run.ebbtide"
    beside.write_bytes(trace.read_bytes())
    page = tmp_path / "run.html"
    done = run([harness.EBBTIDE, "timeline", beside])
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{page}\n", "")
    assert page.read_text().startswith("<!DOCTYPE html>")
    page.write_text(page.read_text()[:2000])  # an older page is replaced
    assert run([PROGRAM, "timeline", beside]).returncode == 0
    assert page.stat().st_size > 2000


@pytest.mark.parametrize("name", ["run.ebbtide", "run.html"])
def test_no_file_of_others_is_replaced_unless_it_is_named(
    trace: Path, tmp_path: Path, name: str
) -> None:
    beside = tmp_path / name
    beside.write_bytes(trace.read_bytes())
    page = tmp_path / "run.html"
    if page != beside:
        page.write_text("<title>Of mine</title>")
    before = page.read_bytes()
    done = run([PROGRAM, "timeline", beside])
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{page}: there already, and no page of ebbtide timeline" in done.stderr
    assert page.read_bytes() == before
    assert run([PROGRAM, "timeline", beside, "-o", page]).returncode == 0
    assert page.read_bytes() != before


def test_a_folder_that_cannot_be_written_is_named(trace: Path, tmp_path: Path) -> None:
    beside = tmp_path / "run.ebbtide"
    beside.write_bytes(trace.read_bytes())
    (tmp_path / "run.html.part").mkdir()  # root may write everywhere else
    done = run([PROGRAM, "timeline", beside])
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{tmp_path}/run.html: cannot write" in done.stderr


def test_the_last_line_of_a_recorded_run_names_the_command(tmp_path: Path) -> None:
    folder = tmp_path / "it's here"
    folder.mkdir()
    for path in (tmp_path / "run.ebbtide", folder / "run.ebbtide"):
        done = run([PROGRAM, "run", f"--record={path}", "--", PYTHON, "-c", TRAINING])
        assert done.returncode == 0, done.stderr
        closing = done.stderr.splitlines()[-1]
        found = re.search(r"; to see it: ebbtide (timeline .*)$", closing)
        assert found is not None, closing
        words = shlex.split(found[1])
        assert words == ["timeline", str(path)]
        assert run([PROGRAM, *words]).stdout == f"{path.with_suffix('.html')}\n"


def test_a_record_that_is_no_file_is_not_named() -> None:
    done = run([PROGRAM, "run", "--record=/dev/null", "--", PYTHON, "-c", TRAINING])
    assert done.returncode == 0, done.stderr
    assert "ebbtide timeline" not in done.stderr


def test_the_curve_tells_weights_optimizer_and_saved_tensors_apart(
    tmp_path: Path,
) -> None:
    trace = tmp_path / "run.ebbtide"
    done = run([PROGRAM, "run", f"--record={trace}", "--", PYTHON, "-c", TRAINING])
    assert done.returncode == 0, done.stderr
    events = json.loads(timeline(trace, tmp_path / "out.json"))["traceEvents"]
    curve = [event["args"] for event in events if event["name"] == "live bytes"]
    most = {kind: max(at[kind] for at in curve) for kind in curve[0]}
    weights = 2 * 256 * 256 * 4  # biases are small blocks, which are other
    assert most["parameters"] == most["gradients"] == weights
    assert most["optimizer"] == 2 * weights
    assert most["saved"] == weights  # output of each layer but the second


def test_blocks_from_before_the_first_step_are_told_once(tmp_path: Path) -> None:
    path = tmp_path / "run.ebbtide"
    done = run([PROGRAM, "run", f"--record={path}", "--", PYTHON, "-c", TRAINING])
    assert done.returncode == 0, done.stderr
    trace = Trace(path)
    begin = trace.steps[0].begin
    # Two weights and the input.
    blocks = [event.changed for event in trace.events if event.time < begin]
    assert blocks == [0, 1, 2]


def test_a_cut_trace_is_shown_as_far_as_it_goes(trace: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.ebbtide"
    whole = trace.read_bytes()
    cut.write_bytes(whole[: len(whole) // 2])
    done = run([PROGRAM, "timeline", cut, "-o", tmp_path / "out.html"])
    assert done.returncode == 0
    assert f"{cut}: byte " in done.stderr or done.stderr == ""
    assert '"complete":false' in (tmp_path / "out.html").read_text()


@pytest.mark.parametrize(
    ("name", "expected"),
    [("out.txt", ".pickle (for memory_viz)"), ("missing/out.html", "missing/out.html")],
)
def test_a_wrong_output_is_named(
    trace: Path, tmp_path: Path, name: str, expected: str
) -> None:
    done = run([PROGRAM, "timeline", trace, "-o", tmp_path / name])
    assert done.returncode == 2
    assert expected in done.stderr


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "profile.json"
    other.write_text('{"kind":"profile"}')
    done = run([PROGRAM, "timeline", other, "-o", tmp_path / "out.html"])
    assert done.returncode == 2
    assert f"{other}: not a trace of ebbtide" in done.stderr
