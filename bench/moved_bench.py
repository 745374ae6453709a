"""Weights that move while a job trains: `./dev bench moved`.

bench/jobs/gpt.py with parameters, gradients and moments of three times the budget,
under EBBTIDE_WEIGHTS=1: on the CPU with the optimizer's loops and its list ops, and on
the simulated CUDA device (tests/cudasim), whose clock is a virtual one. Beside each the
job that has no budget. The prediction: what the step takes unmanaged and what its
copies take at the speed that was measured, with all of it at once or one after the
other. It is checked on the virtual clock alone: disks are shared.
"""

import dataclasses
import subprocess
import sys
from collections.abc import Iterator

import harness
from harness import mib

SEED = 1
GIB = 1 << 30
STEPS, QUICK_STEPS = 10, 4
WIDTH = {"cpu": 256, "cuda": 512}
# Share of a step, over the time that it would take with nothing at once.
MOST_LATE = 1.1
ON_SIMULATOR = harness.ROOT / "tests" / "python" / "programs" / "cuda_job.py"
SIMULATED = {
    "PYTHONPATH": f"{harness.ROOT / 'tests' / 'cudasim'}:{harness.JOBS}",
    "CUBLAS_WORKSPACE_CONFIG": ":16:8",
    "CUBLASLT_WORKSPACE_SIZE": "64",
}


@dataclasses.dataclass
class Row:
    """One job on one kind of device."""

    device: str
    optimizer: str
    state: int  # bytes
    budget: int
    peak: int
    same: bool
    out: float  # bytes per step
    back: float
    unmanaged: float
    step: float
    at_once: float
    in_turn: float

    @property
    def name(self) -> str:
        return f"{self.device}, {self.optimizer}"

    def complaints(self) -> Iterator[str]:
        if not self.same:
            yield f"{self.name}: the result is another one"
        if self.peak > self.budget:
            yield f"{self.name}: a step took {self.peak} of {self.budget} B"
        if 3 * self.budget > self.state:
            yield f"{self.name}: the state has {self.state} B, the budget {self.budget}"
        if self.device != "CPU" and self.step > MOST_LATE * self.in_turn:
            yield f"{self.name}: {self.step:.3f} s, predicted {self.in_turn:.3f}"


def train(device: str, arguments: list[str], variables: dict[str, str]) -> harness.Run:
    if device == "cpu":
        return harness.run(harness.job_command("gpt", arguments), variables)
    program = [str(harness.PYTHON), str(ON_SIMULATOR), "late", "gpt"]
    return harness.run([*program, *arguments], SIMULATED | variables)


def steps_of(run: harness.Run) -> list[float]:
    """Seconds of each but the first two, which know no round yet, and the last."""
    return [float(seconds) for seconds in run.report["step_times"][2:-1]]


def state_bytes(width: int) -> int:
    """Bytes of float32 parameters, gradients and two moments."""
    counted = "import gpt, dataclasses as d; print(sum(p.numel() for p in gpt.GPT("
    counted += f"d.replace(gpt.SHAPES['full'], width={width})).parameters()))"
    done = subprocess.run(
        [str(harness.PYTHON), "-c", counted],
        env={**harness.clean_environment(), "PYTHONPATH": str(harness.JOBS)},
        capture_output=True,
        text=True,
        check=True,
    )
    return 4 * 4 * int(done.stdout)


def measure(device: str, foreach: str, steps: int) -> Row:
    width = WIDTH[device]
    state = state_bytes(width)
    budget = state // 3
    arguments = ["--batch", "1", "--width", str(width), "--steps", str(steps)]
    arguments += ["--evaluate-every", str(steps + 1)]
    if foreach:
        arguments += ["--foreach", foreach]
    plain = train(device, arguments, {"EBBTIDE_RECORD": "/dev/null"})
    bounded = {
        "EBBTIDE_BUDGET": f"{device}={budget}B",
        "EBBTIDE_OFFLOAD_DIR": str(harness.ROOT / "build"),
        "EBBTIDE_WEIGHTS": "1",
    }
    moved = train(device, arguments, bounded)
    weights, rates = moved.report["weights"], moved.report["bandwidth"]
    out, back = (weights[f"bytes_{way}"] / steps for way in ("out", "back"))
    unmanaged = min(steps_of(plain))
    copies = [out / rates["out"]["planned"], back / rates["back"]["planned"]]
    return Row(
        device="simulated CUDA" if device == "cuda" else "CPU",
        optimizer={"yes": "lists", "no": "loops", "": "default (lists)"}[foreach],
        state=state,
        budget=budget,
        # The job's last act is to read all weights for its hash.
        peak=max(moved.report["step_peaks"][:-1]),
        same=moved.same_result(plain),
        out=out,
        back=back,
        unmanaged=unmanaged,
        step=min(steps_of(moved)),
        at_once=max(unmanaged, *copies),
        in_turn=unmanaged + sum(copies),
    )


def show(rows: list[Row]) -> str:
    header = ["device", "optimizer", "state", "budget", "peak", "same bits", "out"]
    header += ["back", "unmanaged s", "step s", "predicted s"]
    body = [
        [
            row.device,
            row.optimizer,
            *(mib(size) for size in (row.state, row.budget, row.peak)),
            "yes" if row.same else "no",
            *(f"{size / GIB:.2f}" for size in (row.out, row.back)),
            *(f"{seconds:.3f}" for seconds in (row.unmanaged, row.step)),
            f"{row.at_once:.3f} to {row.in_turn:.3f}",
        ]
        for row in rows
    ]
    return harness.table([header, *body])


def main() -> int:
    args = harness.bench_parser(__doc__, f"{QUICK_STEPS} steps").parse_args()
    steps = QUICK_STEPS if args.quick else STEPS
    rows: list[Row] = []
    try:
        for device, foreach in (("cpu", "no"), ("cpu", "yes"), ("cuda", "")):
            rows.append(measure(device, foreach, steps))
            harness.progress(rows[-1].name)
    except harness.JobError as error:
        print(f"bench moved: {error}", file=sys.stderr)
        return 1
    dictionaries = [dataclasses.asdict(row) for row in rows]
    harness.report(args, "moved", SEED, dictionaries, show(rows))
    complaints = [line for row in rows for line in row.complaints()]
    return harness.verdict("moved", complaints, args.check)


if __name__ == "__main__":
    sys.exit(main())
