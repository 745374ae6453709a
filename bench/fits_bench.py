"""Cost of ebbtide for a job that fits its budget: `./dev bench fits`.

Small ops, since a cost per op or per saved tensor shows there most. Instructions
of three steps, with and without a budget of 10 GiB, are counted by valgrind's
callgrind: they do not depend on what else the machine does. Step times are those
of processes with and without the budget in turn; they are shown, never judged.
"""

import argparse
import dataclasses
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import callgrind
import harness

CHILD = harness.ROOT / "bench" / "fits_child.py"
BUDGET = {"EBBTIDE_BUDGET": "10GiB"}
STEPS = 3
SEED = 1
# Instructions that a job may execute for a budget that it fits.
ALLOWED = 0.01
CLOSING = "ebbtide: nothing done (the job fits its budget)"


@dataclasses.dataclass
class Child:
    """How one process of the job ended."""

    state: str
    nanoseconds: list[int]
    errors: str


@dataclasses.dataclass
class Row:
    """One quantity, unmanaged and with a budget that is not needed."""

    what: str
    unmanaged: float
    managed: float
    gated: bool = False

    @property
    def more(self) -> float:
        return self.managed / self.unmanaged - 1

    def complaints(self) -> Iterator[str]:
        if self.gated and self.more > ALLOWED:
            yield f"{self.what}: {self.more:+.2%}, more than {ALLOWED:.0%}"


def start(
    command: list[str], env: dict[str, str], *more: str
) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*command, str(harness.PYTHON), str(CHILD), *more],
        env={**harness.clean_environment(), **callgrind.ENVIRONMENT, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def finish(process: "subprocess.Popen[str]", env: dict[str, str]) -> Child:
    """Waits for the end, and sees that the state is the one that was meant."""
    output, errors = process.communicate()
    if process.returncode != 0:
        raise harness.JobError(
            f"{CHILD.name}: exit {process.returncode}\n{errors.strip()}"
        )
    child = Child(errors=errors, **json.loads(output))
    wanted = "idle" if env else "none"
    if child.state != wanted:
        raise harness.JobError(f"ebbtide is in state {child.state}, not {wanted}")
    return child


def instructions() -> list[Row]:
    """Both counts at once: another process does not change them.

    The figure that is judged takes the interpreter's instructions as equal (see
    callgrind.py). Repeated, it moves by some 0.1 %, which is malloc's search of
    its lists.
    """
    harness.progress("counting instructions, with and without a budget")
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("unmanaged", "managed")]
        processes = [
            start(
                [*callgrind.COMMAND, f"--callgrind-out-file={file}"],
                env,
                *["--steps", str(STEPS), "--marks", str(callgrind.MARKS)],
            )
            for file, env in zip(files, ({}, BUDGET), strict=True)
        ]
        for process, env in zip(processes, ({}, BUDGET), strict=True):
            finish(process, env)
        unmanaged, managed = (callgrind.counted(file) for file in files)
    whole = sum(unmanaged.values())
    return [
        Row(f"instructions of {STEPS} steps", whole, sum(managed.values())),
        Row(
            "the same, the interpreter's as equal",
            whole,
            whole + callgrind.outside(managed) - callgrind.outside(unmanaged),
            gated=True,
        ),
    ]


def times(rounds: int) -> tuple[list[Row], str]:
    """Step times, and what ebbtide says when the job has ended."""
    least: dict[bool, list[float]] = {True: [], False: []}
    median: dict[bool, list[float]] = {True: [], False: []}
    line = ""
    for number in range(rounds):
        harness.progress(f"step times, round {number + 1} of {rounds}")
        for managed in (number % 2 == 0, number % 2 == 1):
            env = BUDGET if managed else {}
            child = finish(start([], env, "--steps", "300"), env)
            least[managed].append(min(child.nanoseconds) / 1e3)
            median[managed].append(statistics.median(child.nanoseconds) / 1e3)
            if managed:
                line = child.errors.strip()
    return [
        Row("least us of a step", min(least[False]), min(least[True])),
        Row(
            "median us of a step",
            statistics.median(median[False]),
            statistics.median(median[True]),
        ),
    ], line


def show(rows: list[Row], line: str) -> str:
    header = ["", "unmanaged", "budget of 10 GiB", "more"]
    body = [
        [row.what, f"{row.unmanaged:.0f}", f"{row.managed:.0f}", f"{row.more:+.2%}"]
        for row in rows
    ]
    return f"{harness.table([header, *body])}\n\nThe run ends with `{line}`."


def parse_arguments() -> argparse.Namespace:
    p = harness.bench_parser(__doc__, "fewer rounds of step times")
    return p.parse_args()


def main() -> int:
    args = parse_arguments()
    try:
        rows = instructions()
        timed, line = times(1 if args.quick else 10)
    except harness.JobError as error:
        print(f"bench fits: {error}", file=sys.stderr)
        return 1
    rows += timed
    shares = [dataclasses.asdict(row) | {"more": row.more} for row in rows]
    harness.report(args, "fits", SEED, shares, show(rows, line))
    complaints = [text for row in rows for text in row.complaints()]
    if not line.startswith(CLOSING):
        complaints.append(f"the run ends with {line!r}, not with {CLOSING!r}")
    return harness.verdict("fits", complaints, args.check)


if __name__ == "__main__":
    sys.exit(main())
