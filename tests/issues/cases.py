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


def program(words: str) -> list[str]:
    """The command of "NAME ARGUMENT .."."""
    name, *arguments = words.split()
    return [PYTHON, str(FOLDER / f"{name}.py"), *arguments]


@functools.cache
def alone(words: str) -> Case:
    done = run(program(words))
    return Case(done.returncode, done.stdout, done.stderr, {})


def within(words: str, budget: str, *options: str) -> Case:
    """Under `ebbtide run --budget`, with its report."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command: list[str | Path] = [harness.EBBTIDE, "run"]
        command += [f"--budget={budget}", f"--report={report}", *options, "--"]
        done = run([*command, *program(words)])
        found = json.loads(report.read_text()) if report.exists() else {}
    return Case(done.returncode, done.stdout, done.stderr, found)


def same(words: str, budget: str, *options: str) -> Case:
    """As `within`, where everything that the program prints is what it prints alone."""
    case = within(words, budget, *options)
    plain = alone(words)
    assert plain.status == 0, plain.errors
    assert (case.status, case.output) == (0, plain.output), case.errors
    return case
