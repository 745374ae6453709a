"""Every job at four budgets, with offload and without: `./dev bench jobs`.

For each job and thread count: two unmanaged runs (the control), the floor with offload
(bench/pyoff.py), the floor without (the planner's least budget), the run with
torch.utils.checkpoint, then eight runs under `ebbtide run`. Budgets are fractions of
the way from the floor to the unmanaged peak.
"""

import argparse
import dataclasses
import sys
from collections.abc import Iterator

import harness
from harness import Run, mib
from ways import Job, between

JOBS = ["gpt", "resnet", "unet", "encdec", "lstm"]
FRACTIONS = [75, 60, 45, 35]
SEED = 1


@dataclasses.dataclass
class Row:
    """One cell of the bench: a job, a way to run it, what came of it."""

    job: str
    threads: int
    way: str
    identical: bool
    peak: int
    budget: int | None
    over_budget_steps: int
    seconds: float
    to_unmanaged: float
    to_checkpoint: float
    spilled: int = 0
    replayed: int = 0
    predicted_seconds: float = 0.0
    predicted_peak: int = 0

    def complaints(self) -> Iterator[str]:
        place = f"{self.job}, {self.threads} threads, {self.way}"
        if not self.identical and self.way != "checkpoint":
            yield f"{place}: loss or hash differs from the unmanaged run's"
        if self.budget is None:
            return
        if self.peak > self.budget or self.over_budget_steps:
            yield (
                f"{place}: peak {self.peak} over the budget of {self.budget} bytes "
                f"in {self.over_budget_steps} steps"
            )


class Bench:
    """The runs of one job at one thread count."""

    def __init__(self, job: str, threads: int, size: str, fractions: list[int]) -> None:
        self.name = job
        self.threads = threads
        shape = ["--size", size, "--threads", str(threads), "--seed", str(SEED)]
        self.job = Job(job, shape)
        self.fractions = fractions
        self.notes: list[str] = []

    def rows(self) -> Iterator[Row]:
        job = self.job
        self.plain = harness.run(job.command())
        again = harness.run(job.command())
        self.rival = harness.run(job.command("--checkpoint"))
        unmanaged = job.recorded.live
        rival_peak = harness.record(job.short("--checkpoint")).live

        yield self.row("unmanaged", self.plain, unmanaged)
        yield self.row("unmanaged again", again, unmanaged)
        yield self.row("checkpoint", self.rival, rival_peak)
        least, witness = job.floor
        self.notes.append(
            f"{self.name}, {self.threads} threads: the floor is "
            f"{mib(job.floor_with_spill)} MiB with offload (all saved tensors copied "
            f"away) and {mib(least)} MiB without ({witness})"
        )
        for spill, floor in {True: job.floor_with_spill, False: least}.items():
            for fraction in self.fractions:
                budget = between(floor, unmanaged, fraction)
                run = harness.managed(job.command(), budget, spill=spill)
                way = f"{fraction} % {'offload' if spill else 'recompute'}"
                yield self.row(way, run, run.live, budget)

    def row(self, way: str, run: Run, peak: int, budget: int | None = None) -> Row:
        harness.progress(f"{self.name}, {self.threads} threads, {way}")
        report = run.report
        return Row(
            job=self.name,
            threads=self.threads,
            way=way,
            identical=run.same_result(self.plain),
            peak=peak,
            budget=budget,
            over_budget_steps=int(report.get("over_budget_steps", 0)),
            seconds=run.median,
            to_unmanaged=run.median / self.plain.median,
            to_checkpoint=run.median / self.rival.median,
            spilled=int(report.get("bytes_spilled", 0)),
            replayed=int(report.get("ops_replayed", 0)),
            predicted_seconds=float(report.get("predicted_time", 0.0)),
            predicted_peak=int(report.get("predicted_peak", 0)),
        )


def show(rows: list[Row]) -> str:
    header = ["job", "threads", "way", "budget MiB", "peak MiB", "hash"]
    header += ["s/step", "/ unmanaged", "/ checkpoint", "offloaded MiB"]
    header += ["ops recomputed", "predicted s", "predicted MiB"]
    body = [
        [
            row.job,
            str(row.threads),
            row.way,
            mib(row.budget) if row.budget is not None else "",
            mib(row.peak),
            "same" if row.identical else "differs",
            f"{row.seconds:.3f}",
            f"{row.to_unmanaged:.2f}",
            f"{row.to_checkpoint:.2f}",
            mib(row.spilled),
            str(row.replayed),
            f"{row.predicted_seconds:.3f}" if row.predicted_seconds else "",
            mib(row.predicted_peak) if row.predicted_peak else "",
        ]
        for row in rows
    ]
    return harness.table([header, *body])


def parse_arguments() -> argparse.Namespace:
    p = harness.bench_parser(__doc__, "one small job, two budgets")
    p.add_argument("--job", choices=JOBS, action="append", help="only these jobs")
    return p.parse_args()


def main() -> int:
    args = parse_arguments()
    jobs = args.job or (["gpt"] if args.quick else JOBS)
    threads = [2] if args.quick else [1, 2]
    size = "small" if args.quick else "full"
    fractions = [75, 45] if args.quick else FRACTIONS
    rows: list[Row] = []
    notes: list[str] = []
    try:
        for job in jobs:
            for count in threads:
                bench = Bench(job, count, size, fractions)
                rows += bench.rows()
                notes += bench.notes
    except harness.JobError as error:
        print(f"bench jobs: {error}", file=sys.stderr)
        return 1
    floors = "\n".join(f"- {note}" for note in notes)
    harness.report(
        args,
        "jobs",
        SEED,
        [dataclasses.asdict(row) for row in rows],
        f"{show(rows)}\n\n{floors}",
        ", ".join(args.job or ["All jobs"]),
    )
    complaints = [line for row in rows for line in row.complaints()]
    return harness.verdict("jobs", complaints, args.check)


if __name__ == "__main__":
    sys.exit(main())
