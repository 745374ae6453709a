"""Executes a notebook in this process and writes it with its outputs.

    python tests/python/notebook.py IN.ipynb OUT.ipynb

As Jupyter does, as far as our notebook needs it: what a cell prints is a stream, the
value of its last expression is shown as text and, where it has `_repr_html_`, as HTML.
"""

import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any


def shown(value: Any) -> dict[str, list[str]]:
    """By MIME type."""
    data = {"text/plain": repr(value).splitlines(keepends=True)}
    if hasattr(value, "_repr_html_"):
        data["text/html"] = value._repr_html_().splitlines(keepends=True)
    return data


def run_cell(source: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """The cell's outputs, in the notebook's format; an exception ends it all."""
    tree = ast.parse(source)
    last = (
        tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    )
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), names)
        if isinstance(last, ast.Expr):
            expression = ast.Expression(last.value)
            value = eval(compile(expression, f"cell {number}", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        outputs.append(
            {
                "data": shown(value),
                "execution_count": number,
                "metadata": {},
                "output_type": "execute_result",
            }
        )
    return outputs


def execute(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with all of its code cells executed anew."""
    names: dict[str, Any] = {"__name__": "__main__"}
    number = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        number += 1
        cell["execution_count"] = number
        cell["outputs"] = run_cell("".join(cell["source"]), names, number)
    return notebook


def main() -> None:
    source, target = (Path(name) for name in sys.argv[1:])
    done = execute(json.loads(source.read_text()))
    target.write_text(json.dumps(done, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
