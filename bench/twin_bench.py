"""Jobs of full size on the twin of an H100, and what the H100 did: `./dev bench twin`.

    twin_bench.py [--check] [--rows PATTERN] [--write]

Each row is a process of its own on tests/cudasim/twin.py. --check compares with
tests/data/h100/measured.json; --rows runs those whose names begin so, and --write puts
the table into bench/results. `./dev bench twin --rows gpt-1b.unmanaged` takes 5 s.
"""

import argparse
import concurrent.futures
import dataclasses
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import harness

sys.path.insert(0, str(harness.ROOT / "tests" / "cudasim"))
sys.path.insert(0, str(harness.ROOT / "tests" / "gpu"))
import gpu_results
import twin

LIBRARIES = harness.ROOT / "build" / "release" / "tests" / "cudasim" / "lib"
CHILDREN = harness.ROOT / "bench" / "gpu"
MEASURED: dict[str, dict[str, Any]] = json.loads(
    (twin.MEASURED / "measured.json").read_text()
)["rows"]
GIB = 1 << 30
WORKERS = 2
LIMIT_S = 300
# The host's time for an op there: so many times what it takes here on a quiet machine.
# Unmanaged runs do not fix it, as their host waits for the device (kLaunchQueueDepth
# in tests/cudasim/simulator.cc); it is fitted to the managed steps of gpt-1b.
SLOWER = 2.2
HERE = {
    "gpt-1b": twin.HostTime(17, 7.3),
    "llama": twin.HostTime(8.1, 5.2),
    "llama22": twin.HostTime(8.1, 5.2),
    "trainer": twin.HostTime(8.1, 5.2),
}
# Runs of a managed row differ by so much in their ratio to the unmanaged one.
SLACK = 0.05
OFFLOAD = {"EBBTIDE_RECOMPUTE": "0"}
RECOMPUTE = {"EBBTIDE_OFFLOAD_DIR": "none"}
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    way: str = "plain"
    steps: int = 6
    budget: int | str | None = None  # bytes, or auto
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def model(self) -> str:
        return self.name.split(".")[0]

    @property
    def unmanaged(self) -> str:
        """The row that this one's time is compared with."""
        return gpu_results.baseline(self.name)

    @property
    def command(self) -> list[str]:
        end = [self.way, str(self.steps)]
        if self.model == "trainer":
            return ["trainer_child.py", *end]
        child = "gpu_child.py" if self.model == "gpt-1b" else "llama_child.py"
        return [child, self.model, *end]


GPT_HALF: int = MEASURED["gpt-1b.half"]["budget"]
LLAMA_MID: int = MEASURED["llama.mid"]["budget"]
ROWS = (
    Row("gpt-1b.unmanaged"),
    Row("gpt-1b.checkpoint", "checkpoint"),
    Row("gpt-1b.unmanaged.expandable", variables=EXPANDABLE),
    Row("gpt-1b.checkpoint.expandable", "checkpoint", variables=EXPANDABLE),
    Row("llama.unmanaged"),
    Row("llama.checkpoint", "checkpoint"),
    Row("llama.unmanaged.expandable", variables=EXPANDABLE),
    Row("llama.checkpoint.expandable", "checkpoint", variables=EXPANDABLE),
    Row("llama22.unmanaged"),
    Row("llama22.checkpoint", "checkpoint"),
    Row("trainer.unmanaged", steps=12),
    Row("trainer.checkpoint", "checkpoint", steps=12),
    Row("llama.mid", steps=40, budget=LLAMA_MID),
    Row("llama.offload", steps=30, budget=LLAMA_MID, variables=OFFLOAD),
    Row("llama.recompute", steps=30, budget=LLAMA_MID, variables=RECOMPUTE),
    Row("llama.mid.expandable", steps=40, budget=LLAMA_MID, variables=EXPANDABLE),
    Row(
        "llama.as-checkpoint",
        steps=40,
        budget=MEASURED["llama.as-checkpoint"]["budget"],
    ),
    # The budget is what its checkpointing has alive, and 2 %.
    Row(
        "llama.as-allocated",
        steps=60,
        budget=int(1.02 * MEASURED["llama.checkpoint"]["allocated"]),
    ),
    Row("llama22.auto", steps=6, budget="auto"),
    Row("trainer.budget", steps=12, budget=MEASURED["trainer.budget"]["budget"]),
    Row("gpt-1b.half", steps=60, budget=GPT_HALF),
    Row(
        "gpt-1b.as-checkpoint",
        steps=60,
        budget=MEASURED["gpt-1b.as-checkpoint"]["budget"],
    ),
    Row("gpt-1b.offload", steps=40, budget=GPT_HALF, variables=OFFLOAD),
    Row("gpt-1b.recompute", steps=60, budget=GPT_HALF, variables=RECOMPUTE),
    Row("gpt-1b.half.expandable", steps=60, budget=GPT_HALF, variables=EXPANDABLE),
)


def steady(seconds: Sequence[float]) -> int:
    """The first of three steps in a row that take what later ones take, within 5 %."""
    usual = statistics.median(seconds[len(seconds) // 2 :])
    near = [abs(s / usual - 1) <= 0.05 for s in seconds]
    return next((i for i in range(len(near) - 2) if all(near[i : i + 3])), len(near))


def figures(
    found: Mapping[str, Any], steps: Sequence[Mapping[str, int]]
) -> dict[str, Any]:
    """Seconds and bytes of a run, by the names of measured.json."""
    row: dict[str, Any] = gpu_results.row({"status": "done", "told": found})
    row.pop("plans", None)
    whole = steps[len(steps) // 2]
    return {**row, "steady": steady(found["seconds"]), "calls": whole["calls"]}


@dataclasses.dataclass
class Run:
    figures: dict[str, Any]
    resident: int  # bytes, of the process


def run(row: Row) -> Run:
    print(f"  {row.name}", file=sys.stderr, flush=True)
    base = HERE[row.model]
    host = twin.HostTime(SLOWER * base.forward, SLOWER * base.backward)
    variables = twin.environment(
        LIBRARIES, host, base if row.budget else None, flag=row.model != "trainer"
    )
    if row.budget is not None:
        size = row.budget if row.budget == "auto" else f"cuda={row.budget}B"
        variables["EBBTIDE_BUDGET"] = str(size)
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder) / "steps.json"
        program, *arguments = row.command
        process = subprocess.Popen(
            [sys.executable, twin.__file__, str(CHILDREN / program), *arguments],
            env={
                **harness.clean_environment(),
                **variables,
                **row.variables,
                "CUDASIM_STEPS": str(counts),
                "OMP_NUM_THREADS": "1",
            },
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            out, said = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return Run({"died": f"not over in {LIMIT_S} s"}, 0)
        steps = json.loads(counts.read_text()) if counts.exists() else []
    resident = max((step["resident"] for step in steps), default=0)
    if process.returncode == 0:
        return Run(figures(json.loads(out.splitlines()[-1]), steps), resident)
    lines = said.strip().splitlines() or ["no message"]
    short = next((line for line in lines if "OutOfMemoryError" in line), lines[-1])
    return Run({"died": f"step {len(steps)}: {short[:120]}"}, resident)


def run_all(rows: Sequence[Row]) -> dict[str, Run]:
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        done = dict(zip([row.name for row in rows], pool.map(run, rows), strict=True))
    for row in rows:
        found = done[row.name].figures
        unmanaged = done[row.unmanaged].figures if row.unmanaged in done else {}
        if "seconds" in unmanaged and "seconds" in found:
            found["ratio"] = round(found["seconds"] / unmanaged["seconds"], 3)
    return done


# Figures that are off by more than --check allows, and why.
UNMET = {
    ("gpt-1b.checkpoint.expandable", "reserved"): "attention is flash's on the twin, "
    "whose backward pass takes other scratch memory than cuDNN's"
}


def unmet(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [
        f"{row}: {field} is {rows[row][field]}, was {MEASURED[row][field]}: {why}"
        for (row, field), why in UNMET.items()
        if field in rows.get(row, {})
    ]


def complaints(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Rows without a budget that are not what the device did, and managed rows that
    die, take more than their budget or are slower than the first runs on the device."""
    found = []

    def near(row: str, field: str, share: float) -> None:
        if row not in rows or (row, field) in UNMET or field not in MEASURED[row]:
            return
        is_, was = rows[row].get(field), MEASURED[row][field]
        if is_ is None or abs(is_ - was) > share * was:
            found.append(f"{row}: {field} is {is_}, was {was}")

    for name, was in MEASURED.items():
        if "budget" in was:
            continue
        near(name, "seconds", 0.05)
        near(name, "host", 0.1)
        near(name, "reserved", 0.05)
        near(name, "allocated", 0.01)
    for row in ROWS:
        now = rows.get(row.name, {})
        if row.budget is None:
            continue
        if "died" in now:
            found.append(f"{row.name}: {now['died']}")
        if row.budget != "auto" and now.get("reserved", 0) > int(row.budget):
            found.append(f"{row.name}: {now['reserved']} reserved of {row.budget}")
        most = MEASURED.get(row.name, {}).get("ratio")
        if most is not None and now.get("ratio", 0) > most + SLACK:
            found.append(f"{row.name}: ratio is {now['ratio']}, was {most}")
    return found


def number(value: Any, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def pair(row: Mapping[str, Any], was: Mapping[str, Any], field: str) -> str:
    """The twin's figure and, where there is one, the device's."""
    unit, digits = (GIB, 2) if field.startswith(("allocated", "reserved")) else (1, 4)
    digits = {"ratio": 3, "first": 2, "calls": 0, "steady": 0}.get(field, digits)
    texts = [
        number(None if of.get(field) is None else of[field] / unit, digits)
        for of in (row, was)
    ]
    return texts[0] if texts[1] == "-" else " / ".join(texts)


FIELDS = {
    "seconds": "s a step",
    "host": "host s",
    "ratio": "/ unmanaged",
    "predicted": "predicted s",
    "first": "first s",
    "steady": "steady from",
    "allocated": "allocated",
    "reserved": "reserved",
    "reserved_end": "reserved at the end",
    "calls": "calls",
}


def page(rows: Mapping[str, Mapping[str, Any]]) -> str:
    table = [["run", *FIELDS.values()], ["---", *["---:"] * len(FIELDS)]]
    for name, row in rows.items():
        was = MEASURED.get(name, {})
        cells = [pair(row, was, field) for field in FIELDS]
        if "died" in row:
            cells[0] = "died" + (" / died" if "died" in was else "")
        table.append([name, *cells])
    lines = ["| " + " | ".join(cells) + " |" for cells in table]
    ends = [
        f"- {name} died in {row['died']}" for name, row in rows.items() if "died" in row
    ]
    return "\n".join([*lines, "", *ends])


ABOUT = """\
# The twin of an H100

`./dev bench twin --write` makes this page: jobs of full size on the simulated device
(tests/cudasim/twin.py) and, behind the stroke, what the H100 of 2026-11-26 did with
ebbtide at 8f1f1ae (tests/data/h100). Seconds and host seconds are the median over the
later half of the steps, GiB are peaks over all steps; a step is steady from where
three in a row take what later ones do. CUDA calls are those of one step in the middle.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--rows", nargs="*", default=[""], metavar="PATTERN")
    arguments = parser.parse_args()
    rows = [row for row in ROWS if row.name.startswith(tuple(arguments.rows))]
    wanted = {row.unmanaged for row in rows}
    rows = [row for row in ROWS if row in rows or row.name in wanted]
    if not rows:
        parser.error(f"no row begins with {arguments.rows}")
    if importlib.util.find_spec("transformers") is None:
        left_out = [row.name for row in rows if row.model != "gpt-1b"]
        rows = [row for row in rows if row.model == "gpt-1b"]
        print(f"transformers is missing; left out: {left_out}", file=sys.stderr)
    began = time.monotonic()
    runs = run_all(rows)
    found = {name: one.figures for name, one in runs.items()}
    print(page(found))
    most = max(one.resident for one in runs.values()) / GIB
    took = time.monotonic() - began
    print(f"{took:.0f} s; {most:.2f} GiB in the largest of {WORKERS} at a time")
    wrong = complaints(found) if arguments.check else []
    for line in [*unmet(found), *wrong]:
        print(line, file=sys.stderr)
    if arguments.write:
        (harness.RESULTS / "twin.json").write_text(json.dumps(found, indent=1) + "\n")
        (harness.RESULTS / "twin.md").write_text(f"{ABOUT}\n{page(found)}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
