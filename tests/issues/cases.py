"""Runs a program of tests/data/cases, alone or within a budget."""

import dataclasses
import functools
import json
import tempfile
from pathlib import Path
from typing import Any

import harness
from run import PYTHON, run

FOLDER = harness.ROOT / "tests" / "data" / "cases"


@dataclasses.dataclass
class Case:
    """How one process of a program ended."""

    status: int
    output: str
    errors: str
    report: dict[str, Any]

    @property
    def lines(self) -> list[str]:
        return [line for line in self.errors.splitlines() if "ebbtide: " in line]


@functools.cache
def alone(name: str) -> Case:
    done = run([PYTHON, FOLDER / f"{name}.py"])
    return Case(done.returncode, done.stdout, done.stderr, {})


def within(name: str, budget: str, *options: str) -> Case:
    """Under `ebbtide run --budget`, with its report."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command: list[str | Path] = [harness.EBBTIDE, "run"]
        command += [f"--budget={budget}", f"--report={report}", *options, "--"]
        done = run([*command, PYTHON, FOLDER / f"{name}.py"])
        found = json.loads(report.read_text()) if report.exists() else {}
    return Case(done.returncode, done.stdout, done.stderr, found)


def same(name: str, budget: str, *options: str) -> Case:
    """As `within`, where everything that the program prints is what it prints alone."""
    case = within(name, budget, *options)
    plain = alone(name)
    assert plain.status == 0, plain.errors
    assert (case.status, case.output) == (0, plain.output), case.errors
    return case
