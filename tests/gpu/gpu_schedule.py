"""The schedule of processes: side by side within cores and device memory, or alone.

Those side by side run first, the longest first, a process that others wait for
counting with the longest of them. Those that need the device alone load their modules
in the meantime, where a core is free, and then have the device one after another.

The same choices drive processes and, with a clock that is only counted, the plan of
them. Nothing here starts one.
"""

import dataclasses
import heapq
from collections.abc import Iterable, Sequence
from typing import Protocol

from gpu_jobs import Job

# While one is timed, as many others as this may load.
LOADING_BESIDE_ALONE = 2
# Share of the time that is not filled with extra processes.
SPARED = 0.1


@dataclasses.dataclass(frozen=True)
class Limits:
    cores: int = 16
    gib: float = 76.0
    seconds: float = 240.0  # seconds of the clock, from its zero


@dataclasses.dataclass(frozen=True)
class Event:
    """`kind`: loaded, or done, and then whether others can build on it."""

    job: Job
    kind: str
    ok: bool = True


class World(Protocol):
    def now(self) -> float: ...
    def start(self, job: Job) -> None: ...
    def release(self, job: Job) -> None:
        """Lets one that has loaded its modules have the device."""

    def drop(self, job: Job, why: str) -> None:
        """It does not run, or not on."""

    def wait(self) -> list[Event]:
        """Until something has happened, or the time is over: then nothing."""


def wait_behind(job: Job, jobs: Sequence[Job]) -> float:
    """The longest of those that need it, before it needs the device alone."""
    behind = [other for other in jobs if job.name in other.needs]
    return max((b.start if b.alone else b.total for b in behind), default=0.0)


class Schedule:
    """Each job is in one of the lists, or behind us."""

    def __init__(self, jobs: Sequence[Job], limits: Limits) -> None:
        self.limits = limits
        weight = {job.name: job.total + wait_behind(job, jobs) for job in jobs}
        beside = [job for job in jobs if not job.alone]
        self.waiting = sorted(beside, key=lambda job: -weight[job.name])
        self.waiting += [job for job in jobs if job.alone]
        self.order = {job.name: place for place, job in enumerate(jobs)}
        self.loading: list[Job] = []
        self.loaded: list[Job] = []
        self.running: list[Job] = []
        self.ended: dict[str, bool] = {}

    @property
    def over(self) -> bool:
        return not (self.waiting or self.loading or self.loaded or self.running)

    def happened(self, event: Event) -> None:
        for jobs in (self.loading, self.loaded, self.running):
            if event.job in jobs:
                jobs.remove(event.job)
        if event.kind == "loaded":
            self.loaded.append(event.job)
        else:
            self.ended[event.job.name] = event.ok

    def advance(self, world: World) -> None:
        """Starts, releases and drops what can be now."""
        left = self.limits.seconds - world.now()
        for job in list(self.waiting):
            failed = [need for need in job.needs if self.ended.get(need) is False]
            if failed:
                self._drop(world, job, f"{failed[0]} has not run to its end")
            elif job.total > left:
                self._drop(world, job, "no time is left")
            elif self._may_start(job):
                self.waiting.remove(job)
                (self.loading if job.alone else self.running).append(job)
                world.start(job)
        if not self.running and not any(not job.alone for job in self.waiting):
            self._release(world, left)

    def _may_start(self, job: Job) -> bool:
        if not all(self.ended.get(need) for need in job.needs):
            return False
        if len(self.loading) + len(self.running) >= self.limits.cores:
            return False
        is_timed = any(other.alone for other in self.running)
        if job.alone:
            return not is_timed or len(self.loading) < LOADING_BESIDE_ALONE
        taken = sum(other.gib for other in self.running)
        return not is_timed and (taken + job.gib <= self.limits.gib or taken == 0)

    def _release(self, world: World, left: float) -> None:
        for job in sorted(self.loaded, key=lambda job: self.order[job.name]):
            self.loaded.remove(job)
            if job.seconds > left:
                world.drop(job, "no time is left")
                self.ended[job.name] = False
                continue
            self.running.append(job)
            world.release(job)
            return

    def _drop(self, world: World, job: Job, why: str) -> None:
        self.waiting.remove(job)
        self.ended[job.name] = False
        world.drop(job, why)


def drive(schedule: Schedule, world: World) -> None:
    while True:
        schedule.advance(world)
        if schedule.over:
            return
        events = world.wait()
        if not events:
            break
        for event in events:
            schedule.happened(event)
    for jobs in (schedule.running, schedule.loaded, schedule.loading, schedule.waiting):
        for job in jobs:
            world.drop(job, "no time is left")


@dataclasses.dataclass
class Planned:
    """A process in the plan: from its start to its end, and from when it is timed."""

    job: Job
    start: float
    begin: float = 0.0
    end: float = 0.0


class Counted:
    """A world in which every process takes what it is expected to."""

    def __init__(self, begin: float) -> None:
        self.clock = begin
        self.planned: dict[str, Planned] = {}
        self.dropped: dict[str, str] = {}
        self._events: list[tuple[float, int, Event]] = []

    def now(self) -> float:
        return self.clock

    def start(self, job: Job) -> None:
        self.planned[job.name] = Planned(job, self.clock, self.clock)
        if job.alone:
            self._later(job.start, Event(job, "loaded"))
        else:
            self._later(job.total, Event(job, "done"))

    def release(self, job: Job) -> None:
        self.planned[job.name].begin = self.clock
        self._later(job.seconds, Event(job, "done"))

    def drop(self, job: Job, why: str) -> None:
        self.planned.pop(job.name, None)
        self.dropped[job.name] = why

    def wait(self) -> list[Event]:
        if not self._events:
            return []
        self.clock, _, event = heapq.heappop(self._events)
        if event.kind == "done":
            self.planned[event.job.name].end = self.clock
        return [event]

    def _later(self, seconds: float, event: Event) -> None:
        order = len(self.planned) + len(self._events)
        heapq.heappush(self._events, (self.clock + seconds, order, event))


def counted(jobs: Sequence[Job], limits: Limits, begin: float) -> Counted:
    world = Counted(begin)
    drive(Schedule(jobs, limits), world)
    return world


def chosen(jobs: Iterable[Job], limits: Limits, begin: float) -> list[Job]:
    """All that are not extra, and each of the others that the time allows besides."""
    known = {job.name: job for job in jobs}
    needed = {need for job in known.values() for need in job.needs}
    found = [job for job in known.values() if not job.extra]
    limits = dataclasses.replace(limits, seconds=limits.seconds * (1 - SPARED))
    for job in known.values():
        if not job.extra or job.name in needed:
            continue
        before = [known[need] for need in job.needs if known[need] not in found]
        if not counted([*found, *before, job], limits, begin).dropped:
            found += [*before, job]
    return found
