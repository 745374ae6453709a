"""docs/guide/notebook.ipynb: executed anew it shows what it was checked in with."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import harness
import notebook
from run import PYTHON, run

NOTEBOOK = harness.ROOT / "docs" / "guide" / "notebook.ipynb"


def kinds(cells: list[dict[str, Any]]) -> list[list[tuple[str, list[str]]]]:
    """The type and the MIME types of each code cell's outputs."""
    return [
        [(o["output_type"], sorted(o.get("data", {}))) for o in cell["outputs"]]
        for cell in cells
        if cell["cell_type"] == "code"
    ]


def html_of(cell: dict[str, Any]) -> str:
    (page,) = (
        "".join(output["data"]["text/html"])
        for output in cell["outputs"]
        if "text/html" in output.get("data", {})
    )
    return str(page)


def test_the_notebook_runs_and_shows_what_it_did(tmp_path: Path) -> None:
    target = tmp_path / "executed.ipynb"
    done = run([PYTHON, notebook.__file__, NOTEBOOK, target])
    assert done.returncode == 0, done.stderr
    before = json.loads(NOTEBOOK.read_text())
    after = json.loads(target.read_text())
    assert kinds(after["cells"]) == kinds(before["cells"])
    assert "error" not in {kind for cell in kinds(after["cells"]) for kind, _ in cell}
    pages = [
        html_of(cell)
        for cell in after["cells"]
        if any("text/html" in o.get("data", {}) for o in cell.get("outputs", []))
    ]
    assert len(pages) >= 3
    for page in pages:
        assert list(ElementTree.fromstring(f"<div>{page}</div>"))
    assert "peak of each step" in pages[0]
    assert any("step time against budget" in page for page in pages)
