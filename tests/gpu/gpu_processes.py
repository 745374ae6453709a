"""The schedule's world of real processes."""

import ctypes
import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gpu_results
from gpu_jobs import Job
from gpu_schedule import Event, Limits

PAUSE = 0.05  # seconds between two looks at the processes
DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
LIBC = ctypes.CDLL(None)


def die_with(parent: int) -> None:
    """A process that is not waited for would keep a device in use."""
    LIBC.prctl(DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # It died before that.


def environment_of(job: Job, budget: int | None) -> dict[str, str]:
    kept = {
        k: v
        for k, v in os.environ.items()
        if k.startswith("EBBTIDE_GPU_TESTS_") or not k.startswith("EBBTIDE_")
    }
    kept["OMP_NUM_THREADS"] = "1"
    kept.update(job.environment)
    if job.alone:
        kept["EBBTIDE_GPU_TESTS_GATE"] = "1"
    if budget is not None:
        kept["EBBTIDE_BUDGET"] = f"cuda={budget}B"
    return kept


def command_of(job: Job) -> list[str]:
    """A tool that the program's command line is put behind stays before it."""
    place = next(i for i, part in enumerate(job.command) if part.endswith(".py"))
    launcher = os.environ.get("EBBTIDE_GPU_TESTS_LAUNCHER")
    before = [sys.executable, *([launcher] if launcher else [])]
    return [*job.command[:place], *before, *job.command[place:]]


class Running:
    """A process and its two files."""

    def __init__(self, job: Job, folder: Path, budget: int | None, now: float) -> None:
        self.job, self.budget = job, budget
        self.started = self.begun = now
        self.is_loaded = not job.alone
        self.out, self.err = (folder / f"{job.name}.{kind}" for kind in ("out", "err"))
        with self.out.open("w") as out, self.err.open("w") as err:
            self.process = subprocess.Popen(
                command_of(job),
                env=environment_of(job, budget),
                cwd=folder,
                stdin=subprocess.PIPE if job.alone else subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                preexec_fn=functools.partial(die_with, os.getpid()),
            )

    def has_loaded(self) -> bool:
        """It prints a line then, and waits for one."""
        if not self.is_loaded and self.out.stat().st_size:
            self.is_loaded = True
            return True
        return False

    def release(self, now: float) -> None:
        self.begun = now
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(b"go\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # It has died; that is seen next.

    def end(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def record(self, now: float, status: str) -> dict[str, Any]:
        lines = self.out.read_text(errors="replace").splitlines()
        said = self.err.read_text(errors="replace").splitlines()
        done = {
            "job": self.job.name,
            "status": status,
            "rc": self.process.returncode,
            "budget": self.budget,
            "started": round(self.started, 2),
            "begun": round(self.begun, 2),
            "ended": round(now, 2),
            "said": [line for line in said if line.startswith("ebbtide")],
        }
        if status != "done":
            return {**done, "error": gpu_results.cause(said)}
        told = gpu_results.figures(lines)
        if told is None:
            return {**done, "status": "died", "error": "it printed no figures"}
        return {**done, "told": told}


class Processes:
    """Starts, watches and ends them; each that ends leaves a line of results."""

    def __init__(self, results: Path, since: float, limits: Limits) -> None:
        self.results, self.since, self.limits = results, since, limits
        self.folder = results.parent / "logs"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.running: dict[str, Running] = {}
        self.failed: list[Event] = []  # that could not be started
        self.told: dict[str, Mapping[str, Any]] = {}

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self.running):
            self.running.pop(name).end()

    def now(self) -> float:
        return time.time() - self.since

    def start(self, job: Job) -> None:
        told = [self.told[need] for need in job.needs]
        try:
            budget = job.budget.of(told) if job.budget else None
        except KeyError as error:
            self.drop(job, f"{' and '.join(job.needs)} told no {error}")
            self.failed.append(Event(job, "done", False))
            return
        self.running[job.name] = Running(job, self.folder, budget, self.now())

    def release(self, job: Job) -> None:
        self.running[job.name].release(self.now())

    def drop(self, job: Job, why: str) -> None:
        running = self.running.pop(job.name, None)
        if running is None:
            record: dict[str, Any] = {"job": job.name, "status": "not run"}
        else:
            running.end()
            record = running.record(self.now(), "ended")
        gpu_results.append(self.results, {**record, "why": why})

    def wait(self) -> list[Event]:
        if self.failed:
            events, self.failed = self.failed, []
            return events
        while self.running and self.now() < self.limits.seconds:
            events = [e for r in list(self.running.values()) for e in self._look(r)]
            if events:
                return events
            time.sleep(PAUSE)
        return []

    def _look(self, running: Running) -> list[Event]:
        job = running.job
        if running.process.poll() is not None:
            return [self._ended(running, running.process.returncode == 0)]
        if running.is_loaded and self.now() - running.begun > job.limit:
            running.end()
            return [self._ended(running, False, f"it took more than {job.limit:.0f} s")]
        return [Event(job, "loaded")] if running.has_loaded() else []

    def _ended(self, running: Running, ok: bool, error: str = "") -> Event:
        record = running.record(self.now(), "done" if ok else "died")
        if error:
            record["error"] = error
        del self.running[running.job.name]
        ok = record["status"] == "done"
        if ok:
            self.told[running.job.name] = record["told"]
        gpu_results.append(self.results, record)
        state = "" if ok else f": {record['error']}"
        print(
            f"{self.now():6.1f} s  {running.job.name}, "
            f"{self.now() - running.begun:.1f} s{state}",
            file=sys.stderr,
            flush=True,
        )
        return Event(running.job, "done", ok)
