"""Popular trainers within a budget: peaks, times, and the same numbers.

Each program of tests/python/trainers runs by itself, by itself with its memory
counted, and with room for half of what it saves. The time is what a long run takes
more than a short one, each the least of N by turns.
"""

import dataclasses
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import harness

FOLDER = harness.ROOT / "tests" / "python" / "trainers"
SEED = 1
STEPS = (8, 128)  # steps of a short and a long run; starts differ by ten small steps

# A ratio below this measures how much the start of Python varies.
LEAST_RATIO = 0.5

# The name in the table, the program, and its options.
TRAINERS = {
    "transformers Trainer": ("hf_trainer",),
    "... with gradient_checkpointing": ("hf_trainer", "--checkpointing"),
    "... with LoRA (PEFT)": ("hf_trainer", "--lora"),
    "... with both": ("hf_trainer", "--lora", "--checkpointing"),
    "Lightning Trainer": ("lightning_trainer",),
    "accelerate, bfloat16": ("accelerate_loop",),
    "timm, as its train.py": ("timm_loop",),
    "torchvision, as its reference": ("torchvision_loop",),
}
QUICK = ("accelerate, bfloat16", "torchvision, as its reference")


@dataclasses.dataclass
class Done:
    printed: list[str]
    lines: list[str]  # lines printed by ebbtide
    seconds: float
    report: dict[str, Any]


def command(words: Sequence[str], *more: str) -> list[str]:
    return [str(harness.PYTHON), str(FOLDER / f"{words[0]}.py"), *words[1:], *more]


def execute(words: Sequence[str], *more: str, **variables: str) -> Done:
    """In a folder of its own, where it may leave what it likes."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        variables["EBBTIDE_REPORT"] = str(report)
        begin = time.perf_counter()
        done = subprocess.run(
            command(words, *more),
            cwd=folder,
            env=harness.clean_environment() | variables,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        seconds = time.perf_counter() - begin
        if done.returncode != 0:
            raise harness.JobError(f"{' '.join(words)}: {done.stderr}")
        written = json.loads(report.read_text()) if report.exists() else {}
    printed = [line for line in done.stdout.splitlines() if " 0x" in line]
    printed += [line for line in done.stdout.splitlines() if line.startswith("hash")]
    lines = [line for line in done.stderr.splitlines() if "ebbtide" in line]
    return Done(printed, lines, seconds, written)


def budget_for(counted: Done) -> int:
    """Half of what is saved has to go."""
    return int(counted.report["peak"] - counted.report["peak_activations"] // 2)


def seconds_more(runs: Sequence[tuple[Done, Done]]) -> float:
    """Seconds by which the long runs exceed the short ones."""
    return min(long.seconds for _, long in runs) - min(
        short.seconds for short, _ in runs
    )


def measure(name: str, rounds: int) -> dict[str, Any]:
    words = TRAINERS[name]
    counted = execute(words, "--steps", str(STEPS[0]), EBBTIDE_RECORD="/dev/null")
    budget = budget_for(counted)
    plain: list[tuple[Done, Done]] = []
    managed: list[tuple[Done, Done]] = []
    for _ in range(rounds):
        for runs, text in ((plain, ""), (managed, f"{budget}B")):
            short, long = (
                execute(words, "--steps", str(steps), EBBTIDE_BUDGET=text)
                for steps in STEPS
            )
            runs.append((short, long))
    return {
        "trainer": name,
        "peak_before": counted.report["peak"],
        "peak_after": max(done.report["peak"] for pair in managed for done in pair),
        "budget": budget,
        "ratio": seconds_more(managed) / seconds_more(plain),
        "identical": counted.printed == plain[0][0].printed
        and all(
            done.printed == control.printed
            for pair in (*plain, *managed)
            for done, control in zip(pair, plain[0], strict=True)
        ),
    }


def complaints(row: dict[str, Any]) -> list[str]:
    found = []
    if not row["identical"]:
        found.append(f"{row['trainer']}: the numbers differ")
    if not row["peak_after"] <= row["budget"] < row["peak_before"]:
        found.append(f"{row['trainer']}: the peak is not within a lower budget")
    return found


def table(rows: Sequence[dict[str, Any]]) -> str:
    head = ["trainer", "peak MiB", "budget", "managed", "time", "numbers"]
    cells = [
        [
            row["trainer"],
            harness.mib(row["peak_before"]),
            harness.mib(row["budget"]),
            harness.mib(row["peak_after"]),
            f"{row['ratio']:.2f}x" if row["ratio"] > LEAST_RATIO else "-",
            "identical" if row["identical"] else "DIFFER",
        ]
        for row in rows
    ]
    return harness.table([head, *cells])


def main() -> int:
    args = harness.bench_parser(__doc__, "two trainers, once").parse_args()
    rows = []
    for name in QUICK if args.quick else TRAINERS:
        harness.progress(name)
        rows.append(measure(name, 1 if args.quick else 3))
    harness.report(args, "trainers", SEED, rows, table(rows))
    found = [complaint for row in rows for complaint in complaints(row)]
    return harness.verdict("trainers", found, args.check)


if __name__ == "__main__":
    sys.exit(main())
