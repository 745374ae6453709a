"""bench/results/gpu.md, from figures (gpu_results.py)."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_jobs import WAYS
from gpu_results import Summary, complaints

ROOT = Path(__file__).resolve().parent.parent.parent
STORED = ROOT / "tests" / "data" / "h100"
TWIN = ROOT / "bench" / "results" / "twin.json"
GIB = 1 << 30
NONE = "-"
HEAD = [
    *("run", "budget", "s a step", "host s", "/ unmanaged", "predicted s", "first s"),
    *("allocated", "reserved", "reserved at the end", "twin"),
]
INTRODUCTION = """\
# Jobs on a CUDA device

This page has step times, memory and bits of training jobs on a real CUDA device:
unmanaged, with checkpointing, and under ebbtide's budgets. `./dev gpu` measures them,
and `./dev gpu --table` writes this page.

How to read the columns of the first table, in which memory is in GiB:

- *run*: the job and its way. The budget of `half` is the memory that unmanaged training
  reserves less half of what autograd holds; `as-checkpoint` has as budget what
  checkpointing reserves, and `mid` lies in the middle between that and the unmanaged
  memory.
- *s a step*: the device's seconds, the median over the later half of the steps; `died`
  marks a run that ended early.
- *host s*: the time that the host takes to queue a step.
- *first s*: the seconds of the first step.
- *allocated*, *reserved* and *reserved at the end*: the most of all steps, and the
  last.
- *twin*: seconds a step, and GiB reserved, of the same run on the simulated device
  ([twin](twin.md)).
"""
BITS = """\
Each case below trains twice unmanaged and once in each way, every time in a process of
its own, with half of what autograd holds. The bits of the loss and of all gradients in
every step, and of the model at the end, are compared in the steps in which the two
unmanaged runs have the same. *the same unmanaged* is how far that is.
"""


def stored() -> list[Summary]:
    """Figures of earlier runs, newest first."""
    found: list[Summary] = [
        json.loads(f.read_text()) for f in STORED.glob("measured*.json")
    ]
    return sorted(found, key=lambda s: str(s["origin"]["date"]), reverse=True)


def number(row: Mapping[str, Any], field: str, digits: int = 4) -> str:
    return f"{row[field]:.{digits}f}" if field in row else NONE


def gib(row: Mapping[str, Any], field: str) -> str:
    return f"{row[field] / GIB:.2f}" if field in row else NONE


def table(rows: Sequence[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(rows[0]) - 1)]
    return "\n".join("| " + " | ".join(r) + " |" for r in [rows[0], rule, *rows[1:]])


def twin_of(twin: Mapping[str, Any]) -> str:
    if not twin:
        return NONE
    return f"{number(twin, 'seconds')}; {gib(twin, 'reserved')}"


def bench_row(name: str, row: Mapping[str, Any], twin: Mapping[str, Any]) -> list[str]:
    seconds = number(row, "seconds")
    if "died" in row:
        seconds = "died"
    elif "not_run" in row:
        seconds = "not run"
    return [
        name,
        gib(row, "budget"),
        seconds,
        number(row, "host"),
        number(row, "ratio", 3),
        number(row, "predicted"),
        number(row, "first", 2),
        *(gib(row, field) for field in ("allocated", "reserved", "reserved_end")),
        twin_of(twin),
    ]


def way_cell(case: Mapping[str, Any], this: Mapping[str, Any]) -> str:
    if "died" in this:
        return "died"
    if "not_run" in this:
        return "not run"
    memory = f"{gib(this, 'reserved')} of {gib(this, 'budget')} GiB"
    if "controls_equal" not in case or "equal" not in this:
        return f"no control; {memory}"
    repeated = case["controls_equal"]
    if this["equal"] < repeated:
        return f"**differs in step {this['equal'] + 1}**; {memory}"
    if repeated == 0:
        return f"not comparable; {memory}"
    where = "" if repeated == case["steps"] else f" in {repeated} steps"
    return f"same bits{where}; {memory}"


def controls_cell(case: Mapping[str, Any]) -> str:
    if "died" in case:
        return "died"
    if "controls_equal" not in case:
        return "not run"
    steps, equal = case["steps"], case["controls_equal"]
    return f"{steps} steps" if equal == steps else f"differ in step {equal + 1}"


def section(found: Summary, twin: Mapping[str, Any]) -> str:
    origin = found["origin"]
    parts = [
        f"## {origin['date']}: {origin['device'] or 'a device that said nothing yet'}",
        f"Measured at commit {origin['commit'] or 'unknown'} by `./dev gpu`, driver "
        f"{origin['driver'] or 'unknown'}, torch {origin['torch'] or 'unknown'}; later "
        "changes of the code are not in these figures.",
    ]
    if found["rows"]:
        rows = [bench_row(n, r, twin.get(n, {})) for n, r in found["rows"].items()]
        parts.append(table([HEAD, *rows]))
    if found["cases"]:
        ways = sorted(
            {way for case in found["cases"].values() for way in case["ways"]},
            key=[*WAYS, "memcheck"].index,
        )
        rows = [
            [name, controls_cell(case)]
            + [way_cell(case, case["ways"].get(way, {"not_run": ""})) for way in ways]
            for name, case in found["cases"].items()
        ]
        parts += [BITS.strip(), table([["case", "the same unmanaged", *ways], *rows])]
    wrong = complaints(found)
    if wrong:
        listed = "\n".join(f"- {text}" for text in wrong)
        parts.append(f"This does not hold:\n\n{listed}")
    return "\n\n".join(parts) + "\n"


def text(summaries: Sequence[Summary], twin: Mapping[str, Any]) -> str:
    return "\n".join([INTRODUCTION, *[section(found, twin) for found in summaries]])


def write(path: Path, summaries: Sequence[Summary]) -> None:
    twin = json.loads(TWIN.read_text()) if TWIN.exists() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text(summaries, twin))
