"""Copies beside kernels on the simulated device: `./dev bench overlap`.

A GPT trains on tests/cudasim, where kernels and copies take their time on a virtual
clock and nothing else is in any figure. Half of what autograd holds has to go. The
bandwidth that would hide that is its bytes by the time of forward (out) and by that of
backward (back); the device gets a share of it.
"""

import dataclasses
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import harness
from harness import mib

CHILD = harness.ROOT / "bench" / "overlap_child.py"
DEVICE = harness.ROOT / "tests" / "cudasim"
SHARES = (0.2, 0.4, 0.7, 1.0)
JUDGED = 0.4
OFF = 0.02  # share of the prediction
OVER = 1.10  # times unmanaged
SAME = 12  # steps in a row with one plan, which has then outlived its rivals' trials
MOST = 400  # steps that may take
SETTINGS = {
    # Products of 0.3 to 1 ms, everything else 0.1: the host is never waited for.
    "CUDASIM_TFLOPS": "1",
    "CUDASIM_KERNEL_US": "100",
    # The planner's time is not virtual.
    "EBBTIDE_TEST_WAIT": "1",
    "CUBLAS_WORKSPACE_CONFIG": ":16:8",
    "CUBLASLT_WORKSPACE_SIZE": "64",
    "PYTORCH_ALLOC_CONF": "expandable_segments:True",
    "PYTHONPATH": str(DEVICE),
}
# Pages that blocks share with nothing else.
SPARE = 24 << 20


@dataclasses.dataclass
class Timed:
    """One run; virtual milliseconds."""

    forward: float
    backward: float
    step: float
    allocated_peak: int
    reserved_peak: int
    moved: int  # bytes, in the last step
    replayed: int  # ops, in the last step
    report: dict[str, Any]


@dataclasses.dataclass
class Row:
    """A share of the bandwidth, and what the plan made of it."""

    share: float
    budget: int
    unmanaged: float
    managed: float
    predicted: float
    reserved_peak: int
    moved: int  # bytes moved in a step
    replayed: int  # ops, of a step

    @property
    def off(self) -> float:
        return self.managed / self.predicted - 1

    @property
    def ratio(self) -> float:
        return self.managed / self.unmanaged

    def complaints(self) -> Iterator[str]:
        place = f"{100 * self.share:.0f} % of the bandwidth"
        if self.reserved_peak > self.budget:
            yield f"{place}: {self.reserved_peak} reserved, budget {self.budget}"
        if self.share != JUDGED:
            return
        if self.moved == 0:
            yield f"{place}: nothing is moved"
        if abs(self.off) > OFF:
            yield f"{place}: {self.managed:.3f} ms, predicted {self.predicted:.3f}"
        if self.ratio > OVER:
            yield f"{place}: {self.managed:.3f} ms, unmanaged {self.unmanaged:.3f}"


def train(*arguments: str, **environment: str) -> Timed:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("EBBTIDE_")}
    done = subprocess.run(
        [str(harness.PYTHON), str(CHILD), *arguments],
        env={**clean, **SETTINGS, **environment},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode:
        raise harness.JobError(f"{CHILD}: exit {done.returncode}\n{done.stderr}")
    told = json.loads(done.stdout.splitlines()[-1])
    last = zip(*told["steps"][-SAME:], strict=True)
    forward, backward, step = (statistics.median(part) for part in last)
    return Timed(
        *(forward, backward, step, told["allocated_peak"], told["reserved_peak"]),
        *(told["moved"], told["replayed"], told["report"]),
    )


def measure(share: float, unmanaged: Timed, recorded: Mapping[str, Any]) -> Row:
    moved = recorded["peak_activations"] / 2
    budget = int(unmanaged.allocated_peak - moved) + SPARE
    # Bytes in a millisecond are 1e-6 of those in a second, counted in billions.
    managed = train(
        *(str(MOST), str(SAME)),
        EBBTIDE_BUDGET=f"{budget}B",
        CUDASIM_D2H_GBPS=str(share * moved / unmanaged.forward * 1e-6),
        CUDASIM_H2D_GBPS=str(share * moved / unmanaged.backward * 1e-6),
    )
    plans = managed.report["plans"]
    if not plans:
        raise harness.JobError(f"no plan was followed: {managed.report['reason']}")
    plan = max(plans, key=lambda plan: plan["steps"][-1])
    return Row(
        share=share,
        budget=budget,
        unmanaged=unmanaged.step,
        managed=managed.step,
        predicted=plan["predicted_time"] * 1e3,
        reserved_peak=managed.reserved_peak,
        moved=managed.moved,
        replayed=managed.replayed,
    )


def rows(shares: tuple[float, ...]) -> list[Row]:
    unmanaged = train("8")
    recorded = train("3", EBBTIDE_RECORD="/dev/null").report
    return [measure(share, unmanaged, recorded) for share in shares]


def table(measured: list[Row]) -> str:
    head = ["bandwidth", "budget MiB", "reserved MiB", "unmanaged ms", "predicted ms"]
    head += ["measured ms", "off", "/ unmanaged", "moved MiB", "ops recomputed"]
    cells = [head]
    for r in measured:
        cells.append(
            [
                f"{100 * r.share:.0f} %",
                *(mib(r.budget), mib(r.reserved_peak)),
                *(f"{r.unmanaged:.3f}", f"{r.predicted:.3f}", f"{r.managed:.3f}"),
                *(f"{100 * r.off:+.2f} %", f"{r.ratio:.3f}"),
                *(mib(r.moved), str(r.replayed)),
            ]
        )
    return harness.table(cells)


def main() -> int:
    args = harness.bench_parser(__doc__, f"{100 * JUDGED:.0f} % only").parse_args()
    measured = rows((JUDGED,) if args.quick else SHARES)
    told = [dataclasses.asdict(row) for row in measured]
    harness.report(args, "overlap", 1, told, table(measured))
    found = [text for row in measured for text in row.complaints()]
    return harness.verdict("overlap", found, args.check)


if __name__ == "__main__":
    sys.exit(main())
