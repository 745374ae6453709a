"""Results of one run of the suite: lines of JSON, and the figures made of them.

The figures have the form of tests/data/h100/measured.json (its README.md says what
each field means); a run that was interrupted has fewer of them.
"""

import itertools
import json
import os
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_jobs import CASES, CONTROLS, WAYS, every_job, reserved

Record = dict[str, Any]
Summary = dict[str, Any]

OVER_UNMANAGED = 1.05  # at half of what autograd holds, where copies can hide
OFF_PLAN = 0.01
LONGEST = 160  # characters of an error


def append(path: Path, record: Mapping[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")
        file.flush()
        os.fsync(file.fileno())


def read(path: Path) -> list[Record]:
    """The records of the last run; the end of a line may be missing."""
    found: list[Record] = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        found = [record] if "machine" in record else [*found, record]
    return found


def cause(said: Sequence[str]) -> str:
    """The line of a dead program's output that gives the cause."""
    errors = [
        line for line in said if re.match(r"[\w.]*(Error|Exception|Exit)\b", line)
    ]
    others = [line for line in said if line.strip() and not line.startswith("ebbtide")]
    return (errors or others or ["it said nothing"])[-1][:LONGEST]


def figures(printed: Sequence[str]) -> Any:
    """The last output of a program; nothing if that is no JSON."""
    try:
        return json.loads(printed[-1])
    except (IndexError, json.JSONDecodeError):
        return None


def summary(records: Sequence[Record]) -> Summary:
    known = {record["job"]: record for record in records if "job" in record}
    told = [r["told"] for r in known.values() if r.get("status") == "done"]
    machine: dict[str, str] = next(
        (r["machine"] for r in records if "machine" in r), {}
    )
    origin = {
        **machine,
        "device": next((t["name"] for t in told if "name" in t), ""),
        "torch": next((t["torch"] for t in told if "torch" in t), ""),
    }
    timed = [job.name for job in every_job() if job.alone and job.name in known]
    rows = {name: row(known[name]) for name in timed}
    for name, found in rows.items():
        base = rows.get(baseline(name), {})
        if "seconds" in found and "seconds" in base:
            found["ratio"] = round(found["seconds"] / base["seconds"], 3)
    cases = {
        name: case(name, known)
        for name in CASES
        if any(job.startswith(f"case.{name}.") for job in known)
    }
    return {"origin": origin, "rows": rows, "cases": cases}


def compact(records: Sequence[Record]) -> str:
    def block(part: Mapping[str, Any]) -> str:
        lines = [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in part.items()]
        return "{\n" + ",\n".join(lines) + "\n }"

    found = summary(records)
    parts = [f' "{name}": {block(part)}' for name, part in found.items()]
    return "{\n" + ",\n".join(parts) + "\n}"


def baseline(row: str) -> str:
    model, *way = row.split(".")
    return ".".join([model, "unmanaged", *[w for w in way if w == "expandable"]])


def unfinished(record: Record) -> dict[str, Any]:
    if record["status"] == "died":
        return {"died": record["error"]}
    return {"not_run": record["why"]}


def row(record: Record) -> dict[str, Any]:
    budget = {"budget": record["budget"]} if record.get("budget") else {}
    if record["status"] != "done":
        return {**budget, **unfinished(record)}
    told = record["told"]
    later = len(told["seconds"]) // 2
    found = {
        "steps": len(told["seconds"]),
        "seconds": round(statistics.median(told["seconds"][later:]), 4),
        "host": round(statistics.median(told["host"][later:]), 4),
        "first": round(told["seconds"][0], 3),
        "allocated": max(step["allocated"] for step in told["peaks"]),
        "reserved": reserved(told),
        "reserved_end": told["peaks"][-1]["reserved"],
        "device": told["device"],
    }
    if not told["report"]:
        return {**budget, **found}
    plans = [
        {
            "predicted_seconds": round(plan["predicted_time"], 4),
            "predicted_peak": plan["predicted_peak"],
            "steps": [plan["steps"][0], plan["steps"][-1]],
        }
        for plan in followed(told)
    ]
    last = max(plans, key=lambda plan: plan["steps"][1], default=None)
    found = {"budget": told["report"]["budget"], **budget, **found, "plans": plans}
    return {**found, "predicted": last["predicted_seconds"]} if last else found


def followed(told: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [plan for plan in told["report"].get("plans", []) if plan["steps"]]


def equal_steps(told: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    """Steps before the first whose bits differ; behind the last step come those of
    the whole state."""
    pairs = zip(told["bits"], other["bits"], strict=True)
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    return same if same < len(told["bits"]) else len(told["peaks"])


def case(name: str, known: Mapping[str, Record]) -> dict[str, Any]:
    def of(way: str) -> Record:
        return known.get(f"case.{name}.{way}", {"status": "not run", "why": "not yet"})

    first, second = (of(control) for control in CONTROLS)
    found: dict[str, Any] = {"ways": {}}
    control = first.get("told")
    if control is not None:
        found |= {"steps": len(control["peaks"]), "reserved": reserved(control)}
    if control is not None and "told" in second:
        found["controls_equal"] = equal_steps(control, second["told"])
    for run in (first, second, of("size")):
        if run["status"] == "died":
            found["died"] = run["error"]
    for way in [*WAYS, *(["memcheck"] if f"case.{name}.memcheck" in known else [])]:
        run = of(way)
        if run["status"] != "done":
            found["ways"][way] = unfinished(run)
        else:
            found["ways"][way] = managed(run, control)
    return found


def managed(run: Record, control: Mapping[str, Any] | None) -> dict[str, Any]:
    told = run["told"]
    report = told["report"]
    off = [line for line in run["said"] if "off:" in line]
    return {
        **({"equal": equal_steps(control, told)} if control else {}),
        "budget": run["budget"],
        "reserved": reserved(told),
        "plans": len(followed(told)),
        "recomputed": report.get("ops_replayed", 0),
        "moved": report.get("bytes_spilled", 0),
        "off_plan": off_plan(told),
        **({"off": off[0]} if off else {}),
    }


def off_plan(told: Mapping[str, Any]) -> float:
    """How far the last plan that was followed was off a peak at most, as a share."""
    last = max(followed(told), key=lambda plan: plan["steps"][-1], default=None)
    if last is None:
        return 0.0
    peaks = [told["peaks"][number]["allocated"] for number in last["steps"]]
    planned: int = last["predicted_peak"]
    return float(round(max(abs(peak / planned - 1) for peak in peaks), 4))


def complaints(found: Summary) -> list[str]:
    """Rules that do not hold. Controls that differ are reported, and are no
    complaints."""
    rows = found["rows"]
    return [
        *[text for name in rows for text in row_complaints(name, rows)],
        *[
            text
            for name, c in found["cases"].items()
            for text in case_complaints(name, c)
        ],
    ]


def row_complaints(name: str, rows: Mapping[str, Any]) -> Iterator[str]:
    this = rows[name]
    if "died" in this:
        yield f"{name} died: {this['died']}"
    if "not_run" in this:
        yield f"{name} did not run to its end: {this['not_run']}"
    if "seconds" not in this:
        return
    if "budget" in this and this["reserved"] > this["budget"]:
        yield f"{name} reserved {this['reserved']} of {this['budget']} bytes"
    if "budget" in this and "plans" not in this:
        yield f"{name} was not managed: there is no report of ebbtide's"
    rival = rows.get(name.replace("as-checkpoint", "checkpoint"), {})
    if this["seconds"] > rival.get("seconds", this["seconds"]):
        yield (
            f"{name} takes {this['seconds']:.4f} s a step, checkpoint "
            f"{rival['seconds']:.4f} in the same memory"
        )
    if name == "gpt-1b.half" and this.get("ratio", 0.0) > OVER_UNMANAGED:
        yield f"{name} takes {this['ratio']} times the unmanaged step"


def case_complaints(name: str, found: Mapping[str, Any]) -> Iterator[str]:
    if "died" in found:
        yield f"{name} died unmanaged: {found['died']}"
    for way, this in found["ways"].items():
        place = f"{name}, {way}"
        if "died" in this:
            yield f"{place} died: {this['died']}"
        elif "not_run" in this:
            yield f"{place} did not run to its end: {this['not_run']}"
        else:
            repeated = found.get("controls_equal", 0)
            if this.get("equal", repeated) < repeated:
                yield f"{place}: the bits of step {this['equal'] + 1} differ"
            if this["reserved"] > this["budget"]:
                yield f"{place} reserved {this['reserved']} of {this['budget']} bytes"
            if "off" in this:
                yield f"{place}: {this['off']}"
            yield from work_complaints(place, way, this)


def work_complaints(place: str, way: str, this: Mapping[str, Any]) -> Iterator[str]:
    """Complaints of a way that did something else than it may, or kept to no plan."""
    if "recomputed" not in this:
        return
    recomputed, moved = this["recomputed"], this["moved"]
    if recomputed + moved == 0:
        yield f"{place} neither recomputed nor offloaded anything"
    if way == "recomputed" and moved:
        yield f"{place} offloaded {moved} bytes"
    if way in ("offloaded", "memcheck") and recomputed:
        yield f"{place} recomputed {recomputed} ops"
    if way == "planned" and not this["plans"]:
        yield f"{place} followed no plan"
    if way == "planned" and this["off_plan"] > OFF_PLAN:
        yield f"{place}: a peak is {this['off_plan']:.1%} off the plan"
