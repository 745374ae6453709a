"""Runs jobs side by side, a few steps of each in turn.

All but one are stopped (SIGSTOP) at any time: each has the machine to itself, and a
machine that becomes slower does so for all of them. The first step of every turn is not
counted, because the stop falls into it, nor is the first turn, in which ebbtide
watches, plans and tries its plans.
"""

import contextlib
import dataclasses
import json
import os
import signal
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import harness
from harness import Run


@dataclasses.dataclass
class Turns:
    """The lengths of turns: one long turn each, then `rounds` short ones each."""

    first: int
    rounds: int
    length: int

    @property
    def steps(self) -> int:
        """For --steps of the jobs."""
        return self.first + self.rounds * self.length

    def counted(self) -> list[int]:
        """The steps during which no process was stopped and that are not of the first
        turn."""
        return [
            self.first + turn * self.length + step
            for turn in range(self.rounds)
            for step in range(1, self.length)
        ]


@dataclasses.dataclass
class Timed:
    """A run, and the steps of it whose times mean something."""

    run: Run
    counted: list[int]

    def median(self, among: Sequence[int] | None = None) -> float:
        """Seconds of the counted steps, or of those that are in `among` too."""
        return statistics.median(self.seconds(among))

    def seconds(self, among: Sequence[int] | None = None) -> list[float]:
        steps = self.counted if among is None else set(self.counted) & set(among)
        return [self.run.seconds[step] for step in sorted(steps)]


@dataclasses.dataclass
class Launch:
    """How a way of a job is started. An environment: ebbtide's report is wanted."""

    command: list[str]
    environment: dict[str, str] | None = None


class Program:
    """A job that runs and stops on command."""

    def __init__(self, name: str, launch: Launch, errors: IO[str]) -> None:
        self.name = name
        self._launch = launch
        self._errors = errors
        self._report = Path(errors.name).with_suffix(".json")
        self._output: list[str] = []
        environment = {**harness.clean_environment(), **(launch.environment or {})}
        if launch.environment is not None:
            environment["EBBTIDE_REPORT"] = str(self._report)
        self._process = subprocess.Popen(
            launch.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._pipe = self._process.stdout

    def advance(self, steps: int) -> None:
        """Goes on until that many more steps are done, then stops."""
        self._signal(signal.SIGCONT)
        while steps > 0 and (line := self._pipe.readline()):
            self._output.append(line)
            steps -= line.startswith("step ")
        self._signal(signal.SIGSTOP)

    def finish(self) -> Run:
        """Goes on to the end."""
        self._signal(signal.SIGCONT)
        self._output += self._pipe
        status = self._process.wait()
        errors = Path(self._errors.name).read_text()
        if status != 0:
            raise harness.JobError(f"{self.name}: exit {status}\n{errors.strip()}")
        report = {}
        if self._launch.environment is not None:
            if not self._report.exists():
                raise harness.JobError(f"{self.name}: no report\n{errors.strip()}")
            report = json.loads(self._report.read_text())
        return harness.parse("".join(self._output), errors, 0, report)

    def _signal(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, number)

    def end(self) -> None:
        """Where another one has failed."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._pipe.close()


@contextlib.contextmanager
def started(launches: Mapping[str, Launch]) -> Iterator[dict[str, Program]]:
    """No program outlives this, whatever happens."""
    programs: dict[str, Program] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        for number, (name, launch) in enumerate(launches.items()):
            path = Path(folder) / f"{number}.errors"
            errors = stack.enter_context(path.open("w"))
            programs[name] = Program(name, launch, errors)
            stack.callback(programs[name].end)
            programs[name].advance(0)
        yield programs


def interleave(launches: Mapping[str, Launch], turns: Turns) -> dict[str, Timed]:
    """Runs all of them to their ends; each has to do turns.steps steps."""
    with started(launches) as programs:
        for program in programs.values():
            program.advance(turns.first)
            harness.progress(program.name)
        for _ in range(turns.rounds):
            for program in programs.values():
                program.advance(turns.length)
        return {
            name: Timed(program.finish(), turns.counted())
            for name, program in programs.items()
        }


def spread(seconds: Sequence[float]) -> float:
    """Distance of the quartiles, as a share of the median."""
    low, middle, high = statistics.quantiles(seconds, n=4)
    return (high - low) / middle
