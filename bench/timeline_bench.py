"""Cost of looking at a long run: `./dev bench timeline`.

Runs that never were (bench/synthetic_trace.cc), of a million and of ten million
events, to a page: seconds, peak resident memory and bytes. The page of a million
in headless Chromium: from the navigation to the first frame with the chart, and
frames per second while a twentieth of the run is moved through it. Then what
recording costs a step of bench/jobs/gpt.py in instructions (bench/record_child.py),
while ebbtide rests and while it watches every op.
"""

import concurrent.futures
import dataclasses
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import callgrind
import harness
from browser import browser

SYNTHETIC = harness.ROOT / "build" / "release" / "bench" / "synthetic_trace"
CHILD = harness.ROOT / "bench" / "record_child.py"
SEED = 1
MILLION = 1_000_000
# Limits of the figures.
MOST_SECONDS, MOST_PAGE, MOST_MEMORY = 10.0, 10_000_000, 1 << 30
MOST_PAINT, LEAST_FRAMES, MOST_SHARE = 2.0, 30.0, 0.01
FRAMES = 120
# Steps of the small job fit it; not imported from where torch would come along,
# whose memory a child would seem to have.
BUDGET = 64 << 20


@dataclasses.dataclass
class Row:
    what: str
    figure: str
    value: float
    unit: str
    most: float | None = None
    least: float | None = None

    def complaints(self) -> Iterator[str]:
        said = f"{self.what}: {self.figure} {self.value:.4g} {self.unit}"
        if self.most is not None and self.value > self.most:
            yield f"{said}, more than {self.most:.4g}"
        if self.least is not None and self.value < self.least:
            yield f"{said}, less than {self.least:.4g}"


def execute(command: list[str]) -> tuple[float, int]:
    """Seconds and peak resident bytes."""
    begin = time.monotonic()
    child = os.posix_spawn(command[0], command, os.environ)
    _, status, usage = os.wait4(child, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise harness.JobError(f"{' '.join(command)}: exit {status}")
    return time.monotonic() - begin, usage.ru_maxrss << 10


def export(trace: Path, page: Path, what: str) -> list[Row]:
    command = [str(harness.EBBTIDE), "timeline", str(trace), "-o", str(page)]
    seconds, memory = execute(command)
    return [
        Row(what, "export", seconds, "s", MOST_SECONDS if "10" not in what else None),
        Row(what, "memory", memory / harness.MIB, "MiB", MOST_MEMORY / harness.MIB),
        Row(what, "page", page.stat().st_size / 1e6, "MB", MOST_PAGE / 1e6),
    ]


def synthetic(folder: Path, events: int, what: str) -> tuple[Path, list[Row]]:
    harness.progress(what)
    trace, page = folder / f"{events}.ebbtide", folder / f"{events}.html"
    execute([str(SYNTHETIC), str(trace), str(events)])
    rows = export(trace, page, what)
    trace.unlink()
    return page, rows


PAN = f"""
new Promise((done) => {{
  const chart = timeline.view.chart;
  const [first, last] = chart.xAxisExtremes();
  const width = (last - first) / 20;
  let frame = 0;
  let begin = 0;
  const next = (now) => {{
    if (frame === 0) begin = now;
    if (frame === {FRAMES}) return done(1000 * frame / (now - begin));
    const from = first + (last - first - width) * frame / {FRAMES};
    timeline.show(from, from + width);
    ++frame;
    requestAnimationFrame(next);
  }};
  requestAnimationFrame(next);
}})
"""


def in_browser(page: Path) -> list[Row]:
    harness.progress("in the browser")
    with browser() as tab:
        tab.open(page)
        paint = tab.run("timeline.painted") / 1000
        frames = tab.run(PAN)
        if tab.errors:
            raise harness.JobError(f"the page: {tab.errors}")
    what = "1 million events"
    return [
        Row(what, "first paint", paint, "s", MOST_PAINT),
        Row(what, "moving", frames, "frames/s", least=LEAST_FRAMES),
    ]


def instructions(state: str, record: bool, folder: Path) -> float:
    """Instructions of a step in that state, outside the interpreter."""
    name = f"{state}{' recorded' if record else ''}"
    harness.progress(name)
    environment = {"EBBTIDE_BUDGET": f"{BUDGET}B"}
    if state == "watch":
        environment["EBBTIDE_BENCH_PRESS"] = str(BUDGET + harness.MIB)
    if record:
        environment["EBBTIDE_RECORD"] = str(folder / f"{state}.ebbtide")
    output = folder / name.replace(" ", "-")
    said = callgrind.run(CHILD, [str(callgrind.MARKS)], environment, output)
    if said["state"] != state:
        raise harness.JobError(f"in state {said['state']}, not in {state}")
    counts = callgrind.dumped(output)["steps"]
    return callgrind.outside(counts) / int(said["steps"])


def recording(folder: Path) -> list[Row]:
    states = ["idle", "watch"]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = {
            (state, record): pool.submit(instructions, state, record, folder)
            for state in states
            for record in (False, True)
        }
        found = {key: job.result() for key, job in jobs.items()}
    rows = []
    for state in states:
        without, recorded = found[state, False], found[state, True]
        what = f"gpt, small, {state}"
        share = 100 * (recorded - without) / without
        rows += [
            Row(what, "step", without / 1e6, "M instructions"),
            Row(what, "recording", share, "% of them", 100 * MOST_SHARE),
        ]
    return rows


def show(rows: list[Row]) -> str:
    header = ["what", "figure", "value", "unit", "bound"]
    body = []
    for row in rows:
        bound = f"at most {row.most:g}" if row.most is not None else ""
        if row.least is not None:
            bound = f"at least {row.least:g}"
        body.append([row.what, row.figure, f"{row.value:.2f}", row.unit, bound])
    return harness.table([header, *body])


def main() -> int:
    p = harness.bench_parser(__doc__, "no ten million events, no instructions")
    args = p.parse_args()
    try:
        with tempfile.TemporaryDirectory() as folder:
            page, rows = synthetic(Path(folder), MILLION, "1 million events")
            rows += in_browser(page)
            if not args.quick:
                rows += synthetic(Path(folder), 10 * MILLION, "10 million events")[1]
                rows += recording(Path(folder))
    except harness.JobError as error:
        print(f"bench timeline: {error}", file=sys.stderr)
        return 1
    listed = [dataclasses.asdict(row) for row in rows]
    harness.report(args, "timeline", SEED, listed, show(rows))
    complaints = [c for row in rows for c in row.complaints()]
    return harness.verdict("timeline", complaints, args.check)


if __name__ == "__main__":
    sys.exit(main())
