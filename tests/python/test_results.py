"""The pages of results (bench/results): how benches write them, and what they say."""

import argparse
from pathlib import Path

import pytest

import harness

PAGES = sorted(p for p in harness.RESULTS.glob("*.md") if p.name != "README.md")
# Pages that another command than `./dev bench` writes.
COMMANDS = {"demo": "./dev demo", "gpu": "./dev gpu", "long-tests": "./dev long"}
PAGE = "# Speed\n\nHow to read it.\n\n## gpt\n\nold\n\n## lstm\n\nkept\n"


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    return tmp_path


def test_a_run_replaces_its_own_section_and_keeps_the_rest(results: Path) -> None:
    page = results / "speed.md"
    page.write_text(PAGE)
    harness.publish("speed", "gpt", "new\n")
    assert page.read_text() == PAGE.replace("old", "new")
    harness.publish("speed", "lstm", r"\1")
    assert page.read_text().endswith("\n\n## lstm\n\n\\1\n")


def test_a_new_section_comes_last_and_a_new_page_has_a_title(results: Path) -> None:
    page = results / "speed.md"
    page.write_text(PAGE)
    harness.publish("speed", "unet", "new")
    assert page.read_text() == PAGE + "\n## unet\n\nnew\n"
    harness.publish("memory", "Results", "table")
    assert (results / "memory.md").read_text() == "# memory\n\n## Results\n\ntable\n"


@pytest.mark.parametrize(("quick", "section"), [(True, "Results"), (False, None)])
def test_a_part_of_a_run_is_not_published(
    results: Path, quick: bool, section: str | None
) -> None:
    args = argparse.Namespace(json=False, quick=quick)
    harness.report(args, "speed", 1, [], "table", section)
    assert list(results.iterdir()) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.stem))
def test_a_page_says_how_to_run_its_bench_and_its_line_is_in_the_index(
    page: Path,
) -> None:
    title, opening = page.read_text().split("\n\n", 1)
    assert title.startswith("# ")
    command = COMMANDS.get(page.stem, f"./dev bench {page.stem}")
    assert f"`{command}" in opening.partition("\n## ")[0]
    if page.stem not in COMMANDS:
        assert list((harness.ROOT / "bench").glob(f"{page.stem}_bench.*"))
    assert (
        f"| [{page.stem}]({page.name}) |" in (harness.RESULTS / "README.md").read_text()
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.stem))
def test_no_row_of_a_page_has_a_ratio_of_nothing(page: Path) -> None:
    assert " 0.00x " not in page.read_text()
