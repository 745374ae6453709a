"""The page of `ebbtide timeline` in a real browser."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import harness
from browser import Page, browser
from run import clean_environment, job, run
from trace_file import Trace

PROGRAM = harness.EBBTIDE
JOBS = ["gpt", "resnet", "lstm", "unet", "vit"]
SHOTS = harness.ROOT / "build" / "timeline-shots"


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browser() as tab:
        yield tab


def record(name: str, folder: Path, share: float = 0.7) -> Path:
    """The trace of a job within a share of what it takes without a budget."""
    report = folder / f"{name}.json"
    # One thread: two wait for each other where the machine has other work.
    command = job(name, "--steps", "12", "--threads", "1")
    done = run(command, EBBTIDE_RECORD="/dev/null", EBBTIDE_REPORT=str(report))
    assert done.returncode == 0, done.stderr
    budget = int(json.loads(report.read_text())["peak"] * share)
    trace = folder / f"{name}.ebbtide"
    options = [f"--budget={budget}B", f"--record={trace}"]
    done = run([PROGRAM, "run", *options, "--", *command])
    assert done.returncode == 0, done.stderr
    return trace


def export(trace: Path) -> Path:
    file = trace.with_suffix(".html")
    done = run([PROGRAM, "timeline", trace, "-o", file])
    assert (done.returncode, done.stderr) == (0, "")
    return file


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record("gpt", Path(tmp_path_factory.mktemp("page")))


@pytest.fixture
def shown(page: Page, trace: Path) -> Page:
    file = trace.with_suffix(".html")
    if not file.exists():
        export(trace)
    page.prefer("light")
    page.errors.clear()
    page.requests.clear()
    page.open(file)
    return page


def window(page: Page) -> tuple[float, float]:
    first, last = page.run("timeline.view.chart.xAxisRange()")
    return first, last


def labels(page: Page) -> list[str]:
    found: list[str] = page.run(
        "[...document.querySelectorAll('#curve .dygraph-axis-label-x')]"
        ".map((label) => label.textContent)"
    )
    return found


def test_it_draws_without_an_error_and_asks_for_nothing(shown: Page) -> None:
    for key in ("p", "e", "u", "d", "+", "-", "0", ",", ".", "e", "u", "d"):
        shown.press(key)
    shown.run("new Promise((done) => setTimeout(done, 200))")
    assert shown.errors == []
    assert [each for each in shown.requests if not each.startswith("file:")] == []
    assert len(shown.requests) == 1


def rows_of(page: Page) -> tuple[Counter[int], int]:
    """The bytes of the listed blocks, and those of the rest."""
    rows: list[list[int]] = page.run(
        "[...document.querySelectorAll('#alive-rows tr[data-count]')]"
        ".filter((row) => row.dataset.cause !== 'away')"
        ".map((row) => [+row.dataset.bytes, +row.dataset.count])"
    )
    listed: Counter[int] = Counter()
    for size, count in rows:
        listed[size] += count
    rest = page.run("+document.querySelector('#alive-rows .rest td').dataset.bytes")
    return listed, int(rest)


def click_at_event(page: Page, event: int) -> None:
    """With the mouse, where the event is a few pixels wide."""
    if page.run("timeline.view.byEvent") is False:
        page.press("e")
    page.run(f"timeline.show({event - 20}, {event + 20})")
    place: Any = page.run(
        "(() => { const chart = timeline.view.chart;"
        " const box = document.getElementById('curve').getBoundingClientRect();"
        f" return [box.left + chart.toDomXCoord({event} + 0.5),"
        " box.top + 150]; })()"
    )
    page.click(*place)


def test_a_click_lists_who_is_alive(shown: Page, trace: Path) -> None:
    whole = Trace(trace)
    live = [event.live for event in whole.events]
    peak = live.index(max(live))
    for event in (peak, peak - 7, len(live) // 3, len(live) - 5):
        click_at_event(shown, event)
        alive = Trace(trace, until=event).alive
        sizes = Counter(block.bytes for block in alive.values())
        assert rows_of(shown) == (sizes, whole.events[event].rest), event
        title = shown.run("document.getElementById('alive-title').textContent")
        assert f"event {event:,}" in title
        assert ("at the peak" in title) == (event == peak)
    kinds = Counter(block.kind for block in Trace(trace, until=peak).alive.values())
    assert kinds["saved"] > 3


def test_the_reasons_name_ops_shapes_and_decisions(shown: Page) -> None:
    shown.press("p")
    text: str = shown.run("document.getElementById('alive-rows').textContent")
    assert "Backward0" in text
    assert "Float [" in text
    assert "a parameter" in text
    # As many blocks of equal size and reason as there are layers are one row.
    layers = shown.run(
        "[...document.querySelectorAll('#alive-rows td:nth-child(3)')]"
        ".map((cell) => [cell.textContent, cell.title])"
    )
    assert any("*" in name and "\n" in title for name, title in layers), layers


LONG = "torch.nn.modules.transformer.a_name_that_has_no_end.forward_of_a_layer"


def test_reasons_are_read_whole_in_a_window_of_1400_pixels(shown: Page) -> None:
    """They lay beyond the edge of the table, behind names that did not wrap."""
    shown.size(1400, 900)
    try:
        shown.press("p")
        shown.run(
            "document.querySelectorAll('#alive-rows td:nth-child(2),"
            " #alive-rows td:nth-child(3), #decisions td:first-child')"
            f".forEach((cell) => cell.append('{LONG} Float [8, 1024, 4096]'))"
        )
        for rows, column in [("#alive-rows tr", 4), ("#decisions tbody tr", 4)]:
            cells = shown.run(
                f"[...document.querySelectorAll('{rows} td:nth-child({column})')]"
                ".map((cell) => { const box = cell.getBoundingClientRect();"
                " const part = cell.closest('.scroll').getBoundingClientRect();"
                " return [box.left - part.left, part.right - box.right,"
                " box.right, box.width, cell.scrollWidth - cell.clientWidth]; })"
            )
            assert len(cells) > 3
            for left, beside, right, width, hidden in cells:
                assert left >= 0
                assert beside >= -0.5, (rows, beside)
                assert right <= 1400
                assert width >= 250, (rows, width)
                assert hidden <= 0
    finally:
        shown.size(1360, 1500)


def test_zoom_and_keys_change_the_axis(shown: Page) -> None:
    whole, before = window(shown), labels(shown)
    shown.press("+")
    zoomed = window(shown)
    assert zoomed[1] - zoomed[0] < 0.7 * (whole[1] - whole[0])
    assert labels(shown) != before
    shown.press("ArrowRight")
    assert window(shown)[0] > zoomed[0]
    shown.press("0")
    assert window(shown) == whole
    assert any("s" in label for label in before)
    shown.press("e")
    assert window(shown)[0] == 0
    assert all(label.replace(",", "").isdigit() for label in labels(shown) if label)


def test_a_drag_zooms(shown: Page) -> None:
    whole = window(shown)
    mouse = {"button": "left", "clickCount": 1}
    top = shown.run("document.getElementById('curve').getBoundingClientRect().top")
    send = shown.send
    send("Input.dispatchMouseEvent", type="mousePressed", x=400, y=top + 100, **mouse)
    for x in (500, 600, 700):
        send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=top + 100, **mouse)
    send("Input.dispatchMouseEvent", type="mouseReleased", x=700, y=top + 100, **mouse)
    zoomed = window(shown)
    assert whole[0] < zoomed[0] < zoomed[1] < whole[1]


def background(page: Page) -> list[int]:
    colour: str = page.run("getComputedStyle(document.body).backgroundColor")
    return [int(part) for part in colour[4:-1].split(",")]


def test_it_is_dark_where_the_system_is_and_on_demand(shown: Page) -> None:
    assert min(background(shown)) > 200
    shown.prefer("dark")
    assert max(background(shown)) < 60
    drawn = shown.run(
        "[...document.querySelector('#curve canvas').getContext('2d')"
        ".getImageData(200, 2, 1, 1).data]"
    )
    assert max(drawn[:3]) < 60 or drawn[3] == 0
    shown.press("d")
    assert min(background(shown)) > 200
    shown.prefer("light")
    shown.press("d")
    assert max(background(shown)) < 60


def test_it_prints_without_controls_and_all_rows(shown: Page) -> None:
    assert shown.pdf()[:5] == b"%PDF-"
    shown.send("Emulation.setEmulatedMedia", media="print")
    shape = "getComputedStyle(document.querySelector('{}')).{}"
    assert shown.run(shape.format("#bar", "display")) == "none"
    assert shown.run(shape.format("#alive-part .scroll", "maxHeight")) == "none"
    shown.send("Emulation.setEmulatedMedia", media="")


def test_the_unmanaged_step_and_other_budgets_are_there(shown: Page) -> None:
    data = json.loads(shown.run("document.getElementById('data').textContent"))
    assert data["plan"]["unmanaged_peak"] > data["peak"]
    assert len(data["plan"]["unmanaged"]) > 20
    budgets = [row["budget"] for row in data["explanation"]["budgets"]["rows"]]
    assert budgets == sorted(budgets)
    assert len(budgets) >= 2
    top = shown.run("timeline.view.chart.yAxisRange()[1]")
    shown.press("u")
    assert shown.run("timeline.view.chart.yAxisRange()[1]") > top


def test_the_numbers_are_those_of_explain(shown: Page, trace: Path) -> None:
    data = json.loads(shown.run("document.getElementById('data').textContent"))
    explained = run([PROGRAM, "explain", trace, "--json"])
    assert data["explanation"] == json.loads(explained.stdout)
    assert data["peak"] == data["explanation"]["run"]["peak"]
    assert data["whole_steps"] == data["explanation"]["run"]["steps"]
    rows = shown.run(
        "[...document.querySelectorAll('#decisions tbody tr')]"
        ".map((row) => [...row.children].map((cell) => cell.textContent))"
    )
    decisions = data["explanation"]["decisions"]
    assert [[row[0], row[2], row[3]] for row in rows] == [
        [each["name"], each["fate"], each["reason"]] for each in decisions
    ]
    assert decisions


def shoot(page: Page, file: Path, name: str) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    for scheme in ("light", "dark"):
        page.prefer(scheme)
        page.open(file)
        page.screenshot(SHOTS / f"{name}-{scheme}.png")
        page.press("p")
        page.press("u")
        page.screenshot(SHOTS / f"{name}-peak-{scheme}.png")
    assert page.errors == []


def test_screenshots_are_left_for_people(shown: Page, trace: Path) -> None:
    """In build/timeline-shots."""
    shoot(shown, trace.with_suffix(".html"), "gpt")
    assert (SHOTS / "gpt-peak-dark.png").stat().st_size > 30_000


@pytest.mark.long
@pytest.mark.parametrize("name", JOBS)
def test_screenshots_of_all_jobs(page: Page, name: str, tmp_path: Path) -> None:
    shoot(page, export(record(name, tmp_path)), name)


REPEATED = """
import torch
from torch import nn
model = nn.Sequential(*[nn.Linear(256, 256) for _ in range(6)])
for _ in range(100):
    model.zero_grad()
    model(torch.randn(1024, 256)).sigmoid().mean().backward()
"""


def test_steps_that_were_left_out_are_named_and_grey(
    page: Page, tmp_path: Path
) -> None:
    trace = tmp_path / "run.ebbtide"
    record = f"{trace},max=100KiB"
    done = run([harness.PYTHON, "-c", REPEATED], EBBTIDE_RECORD=record)
    assert done.returncode == 0, done.stderr
    left_out = Trace(trace).left_out
    page.errors.clear()
    page.prefer("light")
    page.open(export(trace))
    assert page.errors == []
    warning = page.run("document.getElementById('warnings').textContent")
    assert f"Of {len(left_out)} steps only times and peaks were recorded" in warning
    rows = page.run(
        "[...document.querySelectorAll('#steps tbody tr')]"
        ".filter((row) => row.lastChild.textContent === 'times and peak')"
        ".map((row) => +row.firstChild.textContent)"
    )
    assert rows == left_out
    # In the middle of the first gap, at the height of parameters.
    grey, known = page.run(
        "(() => { const chart = timeline.view.chart;"
        " const data = JSON.parse(document.getElementById('data').textContent);"
        " const [first, , begin, end] = data.gaps[0];"
        " const before = data.steps.find((step) => step[0] === first - 1);"
        " timeline.show(before[1] / 1e9, end / 1e9);"
        " const at = (nanos) => [...chart.hidden_ctx_.getImageData("
        " chart.toDomXCoord(nanos / 1e9), chart.toDomYCoord(1e5), 1, 1).data];"
        " return [at((begin + end) / 2), at((before[1] + before[2]) / 2)]; })()"
    )
    line = page.run(
        "getComputedStyle(document.documentElement).getPropertyValue('--line').trim()"
    )
    assert "#" + "".join(f"{part:02x}" for part in grey[:3]) == line
    assert grey != known


def test_a_trace_without_anything_is_a_page_too(page: Page, tmp_path: Path) -> None:
    trace = tmp_path / "empty.ebbtide"
    done = run(
        [harness.PYTHON, "-c", "import torch"],
        **{**clean_environment(), "EBBTIDE_RECORD": str(trace)},
    )
    assert done.returncode == 0
    page.errors.clear()
    page.open(export(trace))
    assert page.errors == []
