"""Functions of the Python package beside the environment."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import ebbtide
from ebbtide._views import Curve, Point, Report
from same import SPILL, Zygote

MIB = 1 << 20


def parsed(page: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<div>{page}</div>")


def test_a_budget_holds_inside_its_block(zygote: Zygote) -> None:
    env = {"EBBTIDE_BUDGET": "64MiB", "EBBTIDE_OFFLOAD_DIR": str(SPILL)}
    done = zygote.same("api.changes_its_budget", env)
    rows = re.findall(r"^(.*) (\d+) (\d+)$", done.output, re.MULTILINE)
    held = {name: int(size) for name, size, _ in rows}
    assert held["fits"] == held["fits again"] == 64 * MIB
    assert held["outer"] == held["outer again"] == 7 * MIB
    assert held["inner"] == 6 * MIB
    peaks = {name: int(size) for name, _, size in rows}
    assert peaks["outer"] <= 7 * MIB
    assert peaks["inner"] <= 6 * MIB
    assert peaks["fits"] > 7 * MIB
    assert f"after an error {7 * MIB}" in done.output
    assert done.report["over_budget_steps"] == 0


def test_of_blocks_that_do_not_nest_the_one_entered_last_holds(
    zygote: Zygote,
) -> None:
    done = zygote.same("api.overlaps_in_threads", {"EBBTIDE_BUDGET": "64MiB"})
    assert done.output.split() == ["20", "20", "64"]


def test_what_is_not_a_budget_is_refused(zygote: Zygote) -> None:
    done = zygote.run("api.asks_for_nonsense", {"EBBTIDE_BUDGET": "64MiB"})
    assert done.exit == 0, done.errors
    much, nothing, below, cuda, half = done.output.splitlines()
    for line in (much, nothing, below):
        assert line.startswith("ValueError: ebbtide.budget: ")
    assert cuda.startswith("RuntimeError: ebbtide.budget: cuda:0=1GiB: no such device")
    assert half == "TypeError: budget: expected a text or bytes, got 1.5"


def test_a_run_that_is_only_recorded_has_no_budget_to_change(zygote: Zygote) -> None:
    done = zygote.run("api.asks_for_nonsense", {"EBBTIDE_RECORD": "/dev/null"})
    assert done.exit == 0, done.errors
    assert "RuntimeError: ebbtide.budget: this program was started without" in (
        done.output
    )


def test_nothing_runs_here() -> None:
    assert ebbtide.report() == {}
    with pytest.raises(RuntimeError, match="ebbtide is not running"):
        ebbtide.curve()
    with pytest.raises(RuntimeError, match="ebbtide run"), ebbtide.budget("1GiB"):
        pass
    assert "not running" in ebbtide.report()._repr_html_()


@pytest.mark.parametrize(
    "env", [{"EBBTIDE_RECORD": "/dev/null"}, {"EBBTIDE_BUDGET": "64MiB"}]
)
def test_the_curve_of_the_job_so_far(zygote: Zygote, env: dict[str, str]) -> None:
    done = zygote.run("api.asks_for_its_curve", env)
    assert done.exit == 0, done.errors
    early, budgets, seconds, spilling = done.output.splitlines()
    assert early == "ebbtide: no curve: no step has been recorded to its end yet"
    sizes, times = json.loads(budgets), json.loads(seconds)
    assert sizes == sorted(sizes)
    assert times == sorted(times, reverse=True)
    assert 2 * MIB <= sizes[0] < sizes[-1] <= 12 * MIB
    assert all(0 < time < 10 for time in times)
    assert spilling.startswith("True " if "EBBTIDE_RECORD" in env else "False ")


REPORT = Report(
    peak=3 * MIB,
    budget=4 * MIB,
    steps=3,
    over_budget_steps=0,
    step_times=[0.3, 0.1, 0.2],
    step_peaks=[1 * MIB, 3 * MIB, 2 * MIB],
    state="active",
    bytes_by_tier={"device": 3 * MIB, "dropped": 2048, "disk": 5},
    reason="a <b> & c",
)


def test_a_report_is_the_dict_it_was_and_draws_itself() -> None:
    assert isinstance(REPORT, dict)
    assert json.loads(json.dumps(REPORT)) == REPORT
    page = parsed(REPORT._repr_html_())
    cells = {row[0].text: row[1].text for row in page.iter("tr")}
    assert cells["peak of the run"] == "3.00 MiB"
    assert cells["budget"] == "4.00 MiB"
    assert cells["step time"] == "200.0 ms (median)"
    assert cells["recomputed"] == "2.00 KiB"
    assert cells["copied away"] == "5 B"
    assert cells["because"] == "a <b> & c"
    (path,) = page.iter("{http://www.w3.org/2000/svg}path")
    heights = [float(y) for y in re.findall(r"(?:M\S+ |V)([\d.]+)", path.get("d", ""))]
    low, high, middle = heights
    assert low > middle > high  # down is up
    (limit,) = page.iter("{http://www.w3.org/2000/svg}line")
    assert float(limit.get("y1", "")) < high


def test_a_report_without_steps_draws_no_chart() -> None:
    empty = Report(REPORT, budget=-1, step_times=[], step_peaks=[], reason="")
    page = parsed(empty._repr_html_())
    assert list(page.iter("{http://www.w3.org/2000/svg}svg")) == []
    assert "<td>none</td>" in empty._repr_html_()


def test_a_curve_answers_and_draws_itself() -> None:
    curve = Curve([Point(10, 3.0), Point(20, 2.0)], [Point(5, 2.5)])
    assert curve.seconds_within(9) is None
    assert curve.seconds_within(19) == 3.0
    assert curve.seconds_within(1 << 40) == 2.0
    assert curve.seconds_within(9, offloading=True) == 2.5
    assert Curve([]).seconds_within(1, offloading=True) is None
    page = parsed(curve._repr_html_())
    assert len(list(page.iter("{http://www.w3.org/2000/svg}path"))) == 2
    assert [row[0].text for row in page.iter("tr")] == ["10 B", "20 B"]
    assert parsed(Curve([])._repr_html_()) is not None


def test_the_package_is_typed(package: Path) -> None:
    assert (package / "py.typed").exists()
    assert len(ebbtide.__all__) <= 8
