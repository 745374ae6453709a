"""Draws the figures of the documents: `./dev figures [--record]`.

Each figure is an SVG beside the JSON file it is drawn from, in bench/figures. Equal
data give equal bytes. With --record the jobs run and the data are written anew, and the
page of `ebbtide timeline` is photographed in Chromium.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

import harness
from browser import browser
from harness import MIB

FOLDER = harness.ROOT / "bench" / "figures"
# The example of the README. One thread: the other core may be busy.
BUDGET = 160 * MIB
JOB = harness.job_command("gpt", ["--steps", "10", "--threads", "1"])
SLICES = 300
WARM_STEPS = 4  # until the plan that was made is followed
COLORS = {"unmanaged": "#9a9a9a", "managed": "#0b6fa4", "budget": "#c0392b"}

Events = list[dict[str, Any]]


def events_of(command: list[str]) -> Events:
    """Runs a command under `ebbtide run`; its Chrome trace."""
    with tempfile.TemporaryDirectory() as folder:
        trace, out = Path(folder) / "run.ebbtide", Path(folder) / "run.json"
        record = [str(harness.EBBTIDE), "run", "--record", str(trace)]
        draw = [str(harness.EBBTIDE), "timeline", str(trace), "-o", str(out)]
        for line in ([*record, *command], draw):
            done = subprocess.run(
                line,
                env=harness.clean_environment(),
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                raise harness.JobError(f"{' '.join(line)}: {done.stderr.strip()}")
        events: Events = json.loads(out.read_text())["traceEvents"]
        return events


def curve(events: Events) -> list[int]:
    """Live bytes over the fastest warm step: the most in each slice of it."""
    steps = [e for e in events if e["ph"] == "X" and e["name"].startswith("step ")]
    # The last one ends with the process.
    step = min(steps[WARM_STEPS:-1], key=lambda e: float(e["dur"]))
    begin, end = step["ts"], step["ts"] + step["dur"]
    samples = sorted(
        (e["ts"], sum(e["args"].values())) for e in events if e["name"] == "live bytes"
    )
    live = [bytes_ for ts, bytes_ in samples if ts <= begin][-1]
    most = [0] * SLICES
    at = 0
    for ts, bytes_ in [s for s in samples if begin < s[0] < end]:
        slice_ = min(int((ts - begin) / (end - begin) * SLICES), SLICES - 1)
        for passed in range(at, slice_ + 1):
            most[passed] = max(most[passed], live)
        live = bytes_
        at = slice_
        most[at] = max(most[at], live)
    for passed in range(at, SLICES):
        most[passed] = max(most[passed], live)
    return most


def record() -> None:
    harness.progress("gpt, unmanaged")
    unmanaged = curve(events_of(["--", *JOB]))
    harness.progress(f"gpt, {BUDGET // MIB} MiB")
    managed = curve(events_of(["--budget", f"{BUDGET}B", "--", *JOB]))
    data = {
        "provenance": harness.provenance("./dev figures --record", seed=1),
        "job": "bench/jobs/gpt.py --steps 10 --threads 1",
        "budget": BUDGET,
        "unmanaged": unmanaged,
        "managed": managed,
    }
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "gpt.json").write_text(json.dumps(data) + "\n")
    photograph()


# A step that follows a plan, with a tenth of it on both sides.
SHOW_A_STEP = """
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const [, begin, end] = data.steps.at(-3);
  const margin = (end - begin) / 10;
  timeline.show((begin - margin) / 1e9, (end + margin) / 1e9);
})()
"""


def photograph() -> None:
    """The page of the managed job: all of it in light, one step in dark."""
    harness.progress("gpt, its page")
    # Paths as one writes them, which the page shows.
    job = [str(Path(part).relative_to(harness.ROOT)) for part in JOB[:2]] + JOB[2:]
    with tempfile.TemporaryDirectory() as folder:
        trace, page = Path(folder) / "run.ebbtide", Path(folder) / "run.html"
        options = ["--budget", f"{BUDGET}B", "--record", str(trace)]
        for command in (
            [str(harness.EBBTIDE), "run", *options, "--", *job],
            [str(harness.EBBTIDE), "timeline", str(trace), "-o", str(page)],
        ):
            subprocess.run(
                command, check=True, cwd=harness.ROOT, stdout=subprocess.DEVNULL
            )
        with browser() as tab:
            tab.prefer("light")
            tab.size(1280, 1210)
            tab.open(page)
            tab.screenshot(FOLDER / "timeline.png")
            tab.prefer("dark")
            tab.size(1280, 770)
            tab.open(page)
            tab.press("u")
            tab.run(SHOW_A_STEP)
            tab.screenshot(FOLDER / "timeline-dark.png")


def draw(data: dict[str, Any], out: Path) -> None:
    """The README's picture: live bytes over one training step."""
    mpl.rcdefaults()  # whatever the user's matplotlibrc says
    mpl.rcParams["svg.hashsalt"] = "ebbtide"  # names of parts, else random
    mpl.rcParams["font.size"] = 9
    budget = data["budget"] / MIB
    figure = Figure(figsize=(7.2, 2.9), layout="constrained")
    axes = figure.add_subplot()
    for name, label in (
        ("unmanaged", "unmanaged"),
        ("managed", f"ebbtide run --budget {budget:.0f}MiB"),
    ):
        values = [count / MIB for count in data[name]]
        edges = [100 * i / len(values) for i in range(len(values) + 1)]
        axes.stairs(values, edges, fill=True, color=COLORS[name], alpha=0.25)
        axes.stairs(values, edges, baseline=None, color=COLORS[name], label=label)
    axes.axhline(budget, color=COLORS["budget"], linewidth=1, linestyle="--")
    axes.annotate(
        f"budget {budget:.0f} MiB",
        (99.5, budget),
        xytext=(0, 3),
        textcoords="offset points",
        ha="right",
        color=COLORS["budget"],
    )
    axes.set_xlim(0, 100)
    axes.set_ylim(0, None)
    axes.set_xlabel("one training step, % of its time")
    axes.set_ylabel("live tensors, MiB")
    axes.legend(loc="upper left", frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(out, format="svg", metadata={"Date": None})


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--record", action="store_true", help="run the jobs anew")
    args = p.parse_args()
    try:
        if args.record:
            record()
    except harness.JobError as error:
        print(f"figures: {error}", file=sys.stderr)
        return 1
    for source in sorted(FOLDER.glob("*.json")):
        out = source.with_suffix(".svg")
        draw(json.loads(source.read_text()), out)
        print(out.relative_to(harness.ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
