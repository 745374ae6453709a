"""Trains one GPT four ways and prints what each way costs: `./dev demo`.

Unmanaged, with torch.utils.checkpoint, and under `ebbtide run` at two budgets.
Exits 1 if a claim does not hold, and says which.
"""

import argparse
import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import harness
from harness import Run, mib

OUT = harness.ROOT / "build" / "demo"
# From the second step on (the first makes the optimizer state) every step has
# the same peak.
TIMELINE_STEPS = 8
RECORDED_STEPS = 3


@dataclasses.dataclass
class Row:
    """One way to train the model."""

    name: str
    run: Run
    live: int
    budget: int | None = None


def parse_arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--job", default="gpt")
    p.add_argument("--steps", type=int, default=16)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--size", choices=["small", "full"], default="full")
    return p.parse_args()


def measure(args: argparse.Namespace) -> tuple[list[Row], Path]:
    """The four rows, and the file with what happened in the last one."""

    def command(*more: str, steps: int = args.steps) -> list[str]:
        shape = ["--size", args.size, "--threads", str(args.threads)]
        return harness.job_command(args.job, [*shape, "--steps", str(steps), *more])

    harness.progress("unmanaged")
    plain = harness.run(command())
    counted = harness.record(command(steps=RECORDED_STEPS))
    harness.progress("with --checkpoint")
    rival = harness.run(command("--checkpoint"))
    rival_counted = harness.record(command("--checkpoint", steps=RECORDED_STEPS))

    persistent = int(counted.report["persistent"])
    activations = int(counted.report["peak_activations"])
    if activations <= 0:
        raise harness.JobError("the report of the recorded run names no activations")
    high = persistent + activations * 75 // 100
    low = min(persistent + activations * 45 // 100, rival_counted.live)
    rows = [
        Row("unmanaged", plain, counted.live),
        Row("torch.utils.checkpoint", rival, rival_counted.live),
    ]
    trace = OUT / "gpt.ebbtide"
    for budget in (high, low):
        harness.progress(f"ebbtide run --budget {budget}B")
        run = harness.managed(command(), budget)
        rows.append(Row("ebbtide run", run, run.live, budget))
    harness.progress("once more, recorded for the timeline")
    harness.managed(command(steps=TIMELINE_STEPS), low, record_to=trace)
    return rows, trace


def show(rows: list[Row], baseline: int) -> str:
    header = [
        "",
        "budget MiB",
        "peak live MiB",
        "peak resident MiB",
        "median step s",
        "loss and hash",
    ]
    body = []
    for row in rows:
        same = row.run.same_result(rows[0].run)
        body.append(
            [
                row.name,
                mib(row.budget) if row.budget else "",
                mib(row.live),
                mib(row.run.anonymous - baseline),
                f"{row.run.median:.3f}",
                "identical" if same else "DIFFERENT",
            ]
        )
    return harness.table([header, *body])


def broken_claims(rows: list[Row]) -> Iterator[str]:
    """Promises of the demo that these rows do not keep."""
    plain, rival, _, low = rows
    for row in rows[1:]:
        name = f"{row.name} at {mib(row.budget)} MiB" if row.budget else row.name
        if not row.run.same_result(plain.run):
            yield f"{name}: loss or hash differs from the unmanaged run's"
        if row.budget is None:
            continue
        over = int(row.run.report["over_budget_steps"])
        if row.live > row.budget or over:
            yield f"{name}: live bytes reach {mib(row.live)} MiB ({over} steps over)"
    fell = plain.live - low.live
    resident_fell = plain.run.anonymous - low.run.anonymous
    if resident_fell < 0.8 * fell:
        yield (
            f"resident memory falls by {mib(resident_fell)} MiB, "
            f"less than 80 % of the {mib(fell)} MiB that live bytes fall by"
        )
    if low.run.median > rival.run.median:
        yield (
            f"median step {low.run.median:.3f} s is slower than "
            f"checkpoint's {rival.run.median:.3f} s"
        )
    if low.live > rival.live:
        yield (f"peak {mib(low.live)} MiB is above checkpoint's {mib(rival.live)} MiB")


def draw_timeline(trace: Path) -> Path:
    page = OUT / "timeline.html"
    subprocess.run(
        [str(harness.EBBTIDE), "timeline", str(trace), "-o", str(page)], check=True
    )
    return page


def main() -> int:
    args = parse_arguments()
    OUT.mkdir(parents=True, exist_ok=True)
    baseline = harness.import_baseline()
    try:
        rows, trace = measure(args)
    except harness.JobError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    print(f"\n{harness.provenance('./dev demo', seed=1)}")
    print("peak resident: anonymous memory above a process that imported torch\n")
    print(show(rows, baseline))
    print(f"\n{rows[-1].run.errors.strip()}")
    broken = list(broken_claims(rows))
    try:
        print(f"timeline of the last row: {draw_timeline(trace)}")
    except (subprocess.CalledProcessError, OSError) as error:
        broken.append(f"no timeline: {error}")
    for claim in broken:
        print(f"demo: does not hold: {claim}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
