"""ebbtide against what can be had today: `./dev bench rivals`.

Rivals: torch.utils.checkpoint of every block, synchronous offloading by hooks of
Python (bench/pyoff.py), and both. Per job all ways run side by side, a few steps of
each in turn (bench/interleaved.py): two unmanaged processes, the rivals, ebbtide with
each rival's peak as its budget, and ebbtide at a ladder of budgets.
"""

import dataclasses
import sys
from collections.abc import Iterator

import harness
import interleaved
import ways
from harness import mib
from interleaved import Launch, Turns
from ways import Job, away, between, managed, reachable

JOBS = ["gpt", "resnet", "vit"]
# Per cent of the way from ebbtide's floor to the checkpointed run's peak.
LADDER = [0, 10, 30, 60]
SEED = 1
TURNS = Turns(first=15, rounds=5, length=5)
QUICK = Turns(first=6, rounds=1, length=4)
PLAIN = "unmanaged"
AGAIN = "unmanaged again"
CACHED = "offload to the page cache"


@dataclasses.dataclass
class Row:
    """One way of a job, and for a rival what ebbtide makes of it."""

    job: str
    way: str
    rival: bool
    budget: int | None
    peak: int
    seconds: float
    spread: float
    to_unmanaged: float
    identical: bool
    at_its_peak: float | None = None  # seconds
    at_its_time: int | None = None  # bytes

    @property
    def place(self) -> str:
        return f"{self.job}, {self.way}"

    def complaints(self) -> Iterator[str]:
        if self.budget is not None and not self.identical:
            yield f"{self.place}: loss or hash differs from the unmanaged run's"
        if not self.rival:
            return
        if self.at_its_peak is None:
            yield f"{self.place}: ebbtide has no run within its {mib(self.peak)} MiB"
        elif self.at_its_peak >= self.seconds:
            yield (
                f"{self.place}: ebbtide takes {self.at_its_peak:.4f} s a step at its "
                f"peak, it {self.seconds:.4f}"
            )
        if self.at_its_time is None:
            yield f"{self.place}: no run of ebbtide is as fast"
        elif self.at_its_time >= self.peak:
            yield (
                f"{self.place}: ebbtide's least peak in its time is "
                f"{mib(self.at_its_time)} MiB, its own {mib(self.peak)}"
            )


@dataclasses.dataclass
class Bench:
    job: Job
    ladder: list[int]
    turns: Turns

    def rows(self) -> list[Row]:
        more = ["--steps", str(self.turns.steps)]
        commands = self.rivals(*more)
        peaks = dict.fromkeys([PLAIN, AGAIN], self.job.recorded.live)
        for way, command in self.rivals("--steps", "4").items():
            peaks[way] = harness.record(command).live
        peaks[CACHED] = peaks["offload"]
        budgets = self.budgets(peaks)
        plain = self.job.command(*more)
        launches = {PLAIN: Launch(plain), AGAIN: Launch(plain)}
        launches |= {way: Launch(command) for way, command in commands.items()}
        launches[CACHED] = Launch(away(plain, cached=True))
        launches |= {way: managed(plain, budget) for way, budget in budgets.items()}
        timed = interleaved.interleave(launches, self.turns)
        base = timed[PLAIN]
        rows = [
            Row(
                job=self.job.name,
                way=way,
                rival=way in commands,
                budget=budgets.get(way),
                peak=peaks.get(way) or ran.run.live,
                seconds=ran.median(),
                spread=interleaved.spread(ran.seconds()),
                to_unmanaged=ran.median() / base.median(),
                identical=ran.run.same_result(base.run),
            )
            for way, ran in timed.items()
        ]
        judge(rows)
        return rows

    def budgets(self, peaks: dict[str, int]) -> dict[str, int]:
        """ebbtide's ways: each rival's peak, then the ladder."""
        budgets = {f"ebbtide at {way}'s peak": peaks[way] for way in self.rivals()}
        if self.ladder:
            floor = reachable(min(self.job.floor_with_spill, self.job.floor[0]))
        for share in self.ladder:
            budget = between(floor, peaks["checkpoint"], share)
            budgets[f"ebbtide, rung of {share} %"] = budget
        return budgets

    def rivals(self, *more: str) -> dict[str, list[str]]:
        """Their commands, the last of them only if there is a ladder."""
        plain = self.job.command(*more)
        checkpoint = self.job.command("--checkpoint", *more)
        found = {"checkpoint": checkpoint, "offload": away(plain)}
        if self.ladder:
            found["checkpoint and offload"] = away(checkpoint)
        return found


def judge(rows: list[Row]) -> None:
    """Fills in what ebbtide does at each rival's peak and in its time."""
    ours = [row for row in rows if row.budget is not None]
    for rival in rows:
        if not rival.rival:
            continue
        # Also a run with a lower budget is one within the rival's peak.
        within = [row.seconds for row in ours if row.peak <= rival.peak]
        rival.at_its_peak = min(within, default=None)
        in_time = [row.peak for row in ours if row.seconds <= rival.seconds]
        rival.at_its_time = min(in_time, default=None)


def show(rows: list[Row]) -> str:
    header = ["job", "way", "peak MiB", "s/step", "spread %", "/ unmanaged", "hash"]
    others = [[*header, "at its peak s", "at its time MiB"]]
    ours = [["job", "way", "budget MiB", *header[2:]]]
    for row in rows:
        figures = [
            mib(row.peak),
            f"{row.seconds:.4f}",
            f"{100 * row.spread:.1f}",
            f"{row.to_unmanaged:.2f}",
            "same" if row.identical else "differs",
        ]
        if row.budget is not None:
            ours.append([row.job, row.way, mib(row.budget), *figures])
            continue
        verdict = ["", ""]
        if row.rival:
            peak, time = row.at_its_peak, row.at_its_time
            verdict = ["none" if peak is None else f"{peak:.4f}"]
            verdict.append("none" if time is None else mib(time))
        others.append([row.job, row.way, *figures, *verdict])
    return f"{harness.table(others)}\n\n{harness.table(ours)}"


def main() -> int:
    args = ways.arguments(
        __doc__, "one small job, two rivals, few steps", JOBS, threads=2
    )
    jobs = args.job or (["gpt"] if args.quick else JOBS)
    shape = ways.shape(args, SEED)
    ladder = [] if args.quick else LADDER
    turns = QUICK if args.quick else TURNS
    rows: list[Row] = []
    try:
        for name in jobs:
            rows += Bench(Job(name, shape), ladder, turns).rows()
    except harness.JobError as error:
        print(f"bench rivals: {error}", file=sys.stderr)
        return 1
    harness.report(
        args,
        "rivals",
        SEED,
        [dataclasses.asdict(row) for row in rows],
        show(rows),
        None if args.job else "Results",
    )
    complaints = [line for row in rows for line in row.complaints()]
    return harness.verdict("rivals", complaints, args.check)


if __name__ == "__main__":
    sys.exit(main())
