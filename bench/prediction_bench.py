"""Predictions of plans against the times of their steps: `./dev bench prediction`.

Per job one set of processes that run side by side (bench/interleaved.py): two unmanaged
ones, and ebbtide at each budget with offload and without. The report says which steps
followed which plan to its end; a plan that at least STEPS of the counted ones followed
has a row. Peaks are compared in every step that followed a plan.
"""

import argparse
import dataclasses
import statistics
import sys
from collections.abc import Iterator
from typing import Any, TypeVar

import harness
import interleaved
import ways
from harness import MIB, mib
from interleaved import Launch, Timed, Turns
from ways import Job, between, managed

JOBS = ["gpt", "resnet", "unet", "encdec", "lstm"]
SHARES = [75, 55, 35]
SEED = 1
STEPS = 30  # that a plan's median needs
TURNS = Turns(first=16, rounds=9, length=6)
QUICK = Turns(first=12, rounds=1, length=6)
UNMANAGED = ["unmanaged", "unmanaged again"]
NEAR = 0.05  # share of the predicted time
LOST = "the plan was slower than evicting on demand"


@dataclasses.dataclass
class Row:
    """A plan, and what became of it."""

    job: str
    threads: int
    way: str
    offloads: bool
    steps: int  # counted
    predicted: float  # seconds
    measured: float
    spread: float  # spread of the unmanaged steps beside it, a share
    predicted_peak: int
    peak: int  # furthest from that
    identical: bool

    @property
    def off(self) -> float:
        return self.measured / self.predicted - 1

    @property
    def place(self) -> str:
        return f"{self.job}, {self.threads} threads, {self.way}"

    def complaints(self) -> Iterator[str]:
        if not self.identical:
            yield f"{self.place}: loss or hash differs from the unmanaged run's"
        if abs(self.off) > max(NEAR, self.spread):
            yield (
                f"{self.place}: {self.measured:.4f} s a step, predicted "
                f"{self.predicted:.4f}, unmanaged spread {100 * self.spread:.1f} %"
            )
        if abs(self.peak - self.predicted_peak) > max(self.predicted_peak / 100, MIB):
            yield (
                f"{self.place}: peak {mib(self.peak)} MiB, predicted "
                f"{mib(self.predicted_peak)}"
            )


@dataclasses.dataclass
class Bench:
    """One job; what cannot be judged is noted, and why it is wrong if it is."""

    job: Job
    threads: int
    shares: list[int]
    turns: Turns
    needed: int  # steps a plan's median needs
    notes: list[str] = dataclasses.field(default_factory=list)
    complaints: list[str] = dataclasses.field(default_factory=list)

    def rows(self) -> Iterator[Row]:
        job, steps = self.job, str(self.turns.steps)
        command = job.command("--steps", steps)
        launches = {name: Launch(command) for name in UNMANAGED}
        floors = {True: job.floor_with_spill, False: job.floor[0]}
        for spill, floor in floors.items():
            for share in self.shares:
                way = f"{share} % {'offload' if spill else 'recompute'}"
                budget = between(floor, job.recorded.live, share)
                launches[way] = managed(command, budget, spill=spill)
        timed = interleaved.interleave(launches, self.turns)
        unmanaged = [timed.pop(name) for name in UNMANAGED]
        for way, ran in timed.items():
            yield from self.plans(way, ran, unmanaged)

    def plans(self, way: str, ran: Timed, unmanaged: list[Timed]) -> Iterator[Row]:
        report = ran.run.report
        place = f"{self.job.name}, {self.threads} threads, {way}"
        if len(report["step_peaks"]) != self.turns.steps:
            raise harness.JobError(f"{place}: a step is not one forward and backward")
        found = 0
        for plan in report["plans"]:
            counted = ran.seconds(plan["steps"])
            if len(counted) < self.needed:
                continue
            found += 1
            beside = [s for one in unmanaged for s in one.seconds(plan["steps"])]
            yield Row(
                job=self.job.name,
                threads=self.threads,
                way=way,
                offloads=plan["offloads"],
                steps=len(counted),
                predicted=plan["predicted_time"],
                measured=statistics.median(counted),
                spread=interleaved.spread(beside),
                predicted_peak=plan["predicted_peak"],
                peak=furthest(report, plan),
                identical=ran.run.same_result(unmanaged[0].run),
            )
        if found == 0:
            states = report["steps_by_state"]
            note = (
                f"{place}: no plan was followed in {self.needed} counted steps; "
                f"steps by state {states}; {report['reason'] or 'no reason given'}"
            )
            self.notes.append(note)
            if report["reason"] != LOST:
                self.complaints.append(note)


def furthest(report: dict[str, Any], plan: dict[str, Any]) -> int:
    """Among the peaks of the steps that followed the plan, the one furthest from it."""
    peaks: list[int] = [report["step_peaks"][step] for step in plan["steps"]]
    return max(peaks, key=lambda peak: abs(peak - plan["predicted_peak"]))


def show(rows: list[Row]) -> str:
    header = ["job", "threads", "way", "copies", "steps", "predicted s", "measured s"]
    header += ["off %", "spread %", "predicted MiB", "peak MiB", "hash"]
    body = [
        [
            row.job,
            str(row.threads),
            row.way,
            "yes" if row.offloads else "no",
            str(row.steps),
            f"{row.predicted:.4f}",
            f"{row.measured:.4f}",
            f"{100 * row.off:+.1f}",
            f"{100 * row.spread:.1f}",
            mib(row.predicted_peak),
            mib(row.peak),
            "same" if row.identical else "differs",
        ]
        for row in rows
    ]
    return harness.table([header, *body])


BenchOf = TypeVar("BenchOf", bound=Bench)


def benches(kind: type[BenchOf], args: argparse.Namespace) -> Iterator[BenchOf]:
    """One for each job that the arguments name."""
    shape = ways.shape(args, SEED)
    for name in args.job or (["gpt"] if args.quick else JOBS):
        yield kind(
            Job(name, shape),
            args.threads,
            shares=[60] if args.quick else SHARES,
            turns=QUICK if args.quick else TURNS,
            needed=2 if args.quick else STEPS,
        )


def main() -> int:
    args = ways.arguments(
        __doc__, "one small job, one budget, few steps", JOBS, threads=1
    )
    rows: list[Row] = []
    notes: list[str] = []
    complaints: list[str] = []
    try:
        for bench in benches(Bench, args):
            rows += bench.rows()
            notes += bench.notes
            complaints += bench.complaints
    except harness.JobError as error:
        print(f"bench prediction: {error}", file=sys.stderr)
        return 1
    listed = "\n".join(f"- {note}" for note in notes)
    harness.report(
        args,
        "prediction",
        SEED,
        [dataclasses.asdict(row) for row in rows],
        f"{show(rows)}\n\n{listed}".strip(),
        None if args.job else "Results",
    )
    complaints += [line for row in rows for line in row.complaints()]
    return harness.verdict("prediction", complaints, args.check)


if __name__ == "__main__":
    sys.exit(main())
