"""The page of two runs over one axis: `ebbtide timeline a.ebbtide b.ebbtide`."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import harness
from browser import Page, browser
from run import PYTHON, job, run
from test_timeline_page import SHOTS, background
from trace_file import Trace

PROGRAM = harness.EBBTIDE


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browser() as tab:
        yield tab


def record(trace: Path, *options: str, steps: int = 8) -> None:
    command = job("gpt", "--steps", str(steps), "--threads", "1")
    done = run([PROGRAM, "run", *options, f"--record={trace}", "--", *command])
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run with all the memory it wants, and one of more steps within less."""
    folder = Path(tmp_path_factory.mktemp("two"))
    free, held = folder / "free.ebbtide", folder / "held.ebbtide"
    record(free)
    record(held, f"--budget={int(0.6 * peak_of(Trace(free)))}B", steps=12)
    return free, held


@pytest.fixture
def shown(page: Page, traces: tuple[Path, Path]) -> Page:
    file = traces[0].with_name("free-held.html")
    if not file.exists():
        done = run([PROGRAM, "timeline", *traces])
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{file}\n", "")
    page.prefer("light")
    page.errors.clear()
    page.requests.clear()
    page.open(file)
    return page


def peak_of(trace: Trace) -> int:
    return max(step.peak for step in trace.steps)


def text_of(page: Page, element: str) -> str:
    text: str = page.run(f"document.getElementById('{element}').textContent")
    return text


def table(page: Page, element: str) -> dict[str, list[str]]:
    rows = page.run(
        f"[...document.querySelectorAll('#{element} tbody tr')]"
        ".map((row) => [...row.children].map((cell) => cell.textContent))"
    )
    return {name: cells for name, *cells in rows}


def mib(size: int) -> str:
    return f"{size / 2**20:.{2 if size < 10 << 20 else 1}f} MiB"


def test_it_draws_without_an_error_and_asks_for_nothing(shown: Page) -> None:
    for key in ("e", "d", "0", "e", "d"):
        shown.press(key)
    shown.run("new Promise((done) => setTimeout(done, 200))")
    assert shown.errors == []
    assert len(shown.requests) == 1


def test_differences_are_named(shown: Page, traces: tuple[Path, Path]) -> None:
    free, held = (Trace(path) for path in traces)
    peaks = [peak_of(free), peak_of(held)]
    rows = table(shown, "differences")
    less = f"{mib(peaks[0] - peaks[1])} (-{100 - 100 * peaks[1] / peaks[0]:.1f} %)"
    assert rows["peak"] == [mib(peaks[0]), mib(peaks[1]), "-" + less]
    assert rows["steps"][:2] == ["8", "12"]
    assert rows["budget"][0] == "\u2013"
    assert rows["dropped a step"][0] == rows["offloaded a step"][0] == "0 B"
    assert rows["recomputing a step"][1] != "0" or rows["offloaded a step"][1] != "0 B"
    summary = text_of(shown, "summary")
    assert re.match(
        r"Against free.ebbtide, the peak of held.ebbtide is"
        rf" {re.escape(mib(peaks[0] - peaks[1]))} \(\d+ %\) lower"
        r" and its median step .* (longer|shorter)",
        summary,
    ), summary
    assert table(shown, "rows")
    assert "different commands" in text_of(shown, "warnings")  # other --steps


def points(page: Page, chart: str) -> list[list[float | None]]:
    found: list[list[float | None]] = page.run(
        f"Array.from({{length: timeline.view.{chart}.numRows()}}, (_, row) =>"
        f" [0, 1, 2].map((i) => timeline.view.{chart}.getValue(row, i)))"
    )
    return found


def test_curves_and_step_times_are_those_of_the_traces(
    shown: Page, traces: tuple[Path, Path]
) -> None:
    runs = [Trace(path) for path in traces]
    rows: list[Any] = points(shown, "times")
    for i, trace in enumerate(runs, 1):
        seen = {row[0]: row[i] for row in rows}
        for step in trace.steps:
            assert seen[step.index] == step.end - step.begin
    for i, trace in enumerate(runs, 1):
        curve = [row for row in points(shown, "curve") if row[i] is not None]
        assert max(row[i] or 0 for row in curve) == peak_of(trace)
        # Steps with one number stand at one place.
        step = trace.steps[3]
        inside = [row[i] or 0 for row in curve if 3 <= (row[0] or 0) < 4]
        assert max(inside) == step.peak
    shown.press("e")
    data = json.loads(text_of(shown, "data"))
    begins = {step[1] / 1e9 for each in data["runs"] for step in each["steps"]}
    assert begins <= {row[0] for row in points(shown, "times")}


def window_of(page: Page, chart: str) -> list[float]:
    found: list[float] = page.run(f"timeline.view.{chart}.xAxisRange()")
    return found


def test_both_charts_zoom_together(shown: Page) -> None:
    shown.run("timeline.view.curve.updateOptions({dateWindow: [2, 4]})")
    assert window_of(shown, "times") == window_of(shown, "curve") == [2, 4]
    shown.press("0")
    assert window_of(shown, "times") == window_of(shown, "curve") != [2, 4]


def test_it_is_dark_where_the_system_is_and_on_demand(shown: Page) -> None:
    """Left in build/timeline-shots, for people."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    for scheme, is_light in (("light", True), ("dark", False)):
        shown.prefer(scheme)
        assert (min(background(shown)) > 200) == is_light
        file = SHOTS / f"two-runs-{scheme}.png"
        shown.screenshot(file)
        assert file.stat().st_size > 30_000
    shown.press("d")
    assert min(background(shown)) > 200
    assert shown.errors == []


def test_a_run_without_steps_is_compared_too(
    page: Page, traces: tuple[Path, Path], tmp_path: Path
) -> None:
    empty = tmp_path / "empty.ebbtide"
    done = run([PYTHON, "-c", "import torch"], EBBTIDE_RECORD=str(empty))
    assert done.returncode == 0
    cut = tmp_path / "cut.ebbtide"
    cut.write_bytes(traces[0].read_bytes()[:50_000])
    for pair in ((empty, traces[1]), (traces[0], cut), (empty, empty)):
        file = tmp_path / "out.html"
        done = run([PROGRAM, "timeline", *pair, "-o", file])
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        page.errors.clear()
        page.open(file)
        page.press("e")
        assert page.errors == []
        data = json.loads(text_of(page, "data"))
        assert [each["file"] for each in data["runs"]] == [str(path) for path in pair]
        assert text_of(page, "summary").startswith("Against ")


def test_two_runs_are_a_page_only(traces: tuple[Path, Path], tmp_path: Path) -> None:
    done = run([PROGRAM, "timeline", *traces, "-o", tmp_path / "out.json"])
    assert done.returncode == 2
    expected = "out.json: expected a name that ends in .html (a page), for two runs"
    assert expected in done.stderr
    other = tmp_path / "other.txt"
    other.write_text("no trace")
    done = run([PROGRAM, "timeline", traces[0], other, "-o", tmp_path / "out.html"])
    assert done.returncode == 2
    assert f"{other}: not a trace of ebbtide" in done.stderr
    assert not (tmp_path / "out.html").exists()
