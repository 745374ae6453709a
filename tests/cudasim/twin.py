"""Runs a program on the twin: the simulated device with the times of an H100.

    twin.py PROGRAM [ARGUMENT...]        (with the variables of `environment`)

Calls, copies and kernels take what tests/data/h100 measured, nothing is computed and no
bytes move, so that jobs of full size need neither a device nor its memory. A program's
reads of the device give zero, or true. Its clocks are the virtual one: time.time,
time.perf_counter, time.monotonic, and std::chrono::steady_clock.
"""

import atexit
import ctypes
import dataclasses
import itertools
import json
import os
import resource
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MEASURED = ROOT / "tests" / "data" / "h100"
TABLE = MEASURED / "op_times.tsv"
# Data of the device whose runs MEASURED has.
CAPACITY = "81081M"
COMPUTE_CAPABILITY = "90"


@dataclasses.dataclass(frozen=True)
class HostTime:
    """Microseconds of the host for an op: of the main thread, and of autograd's."""

    forward: float
    backward: float


def environment(
    libraries: Path,
    host: HostTime | None = None,
    base: HostTime | None = None,
    flag: bool = True,
) -> dict[str, str]:
    """Variables of a process that runs twin.py.

    `host`: what Python and PyTorch take for an op there. `base`: what they take for it
    here; processor time beyond it passes on the virtual clock, too. `flag`: what the
    program finds where it asks whether all elements are as expected.
    """
    names = [
        *("libcudasim_clock.so", "libcudart.so.13", "libcublasLt.so.13"),
        *("libcublas.so.13", "libcuda.so.1", "libnvidia-ml.so.1", "libcupti.so.13"),
    ]
    variables = {
        "LD_PRELOAD": ":".join(str(libraries / name) for name in names),
        "PYTHONPATH": str(ROOT / "tests" / "cudasim"),
        "CUDASIM_DEVICE_FILE": str(MEASURED / "device.json"),
        "CUDASIM_OP_TIMES": str(TABLE),
        "CUDASIM_MEM": CAPACITY,
        "CUDASIM_CC": COMPUTE_CAPABILITY,
        "CUDASIM_SCHEDULE": "ontime",
        "CUDASIM_BYTES": "0",
        "CUDASIM_FLAG": str(int(flag)),
    }
    for name, times in (("OP_HOST", host), ("OWN_BASE", base)):
        if times is not None:
            variables[f"CUDASIM_{name}_US"] = f"{times.forward:.3f}"
            variables[f"CUDASIM_BACKWARD_{name}_US"] = f"{times.backward:.3f}"
    return variables


def _timed() -> None:
    import torch

    import cudasim

    library = ctypes.CDLL(str(cudasim.LIBRARIES / "libcudasim_timed.so"))
    library.cudasim_timed_install.restype = ctypes.c_char_p
    table = os.environ["CUDASIM_OP_TIMES"].encode() or None  # none: the roofline alone
    if wrong := library.cudasim_timed_install(table):
        raise SystemExit(f"twin.py: {wrong.decode()}")
    log = os.environ.get("CUDASIM_OP_LOG")
    if log and (number := library.cudasim_timed_log(log.encode())):
        raise SystemExit(f"twin.py: {log}: {os.strerror(number)}")
    # The simulator has no cuDNN. Flash attention saves as much as its attention.
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_cudnn_sdp(False)


def _virtual_clocks() -> None:
    import cudasim

    cudasim.runtime.cudasim_now_ns.restype = ctypes.c_uint64
    nanoseconds: Callable[[], int] = cudasim.runtime.cudasim_now_ns

    def seconds() -> float:
        return nanoseconds() * 1e-9

    start = time.time()
    time.time = lambda: start + seconds()
    time.perf_counter = time.monotonic = seconds
    time.perf_counter_ns = time.monotonic_ns = nanoseconds


def begin() -> None:
    """Makes this process, which has the variables of `environment`, one of the twin."""
    _timed()
    _virtual_clocks()


def _count_steps(path: str) -> None:
    """Writes what each step took, as JSON, when the process ends.

    A step begins where the program resets its peaks.
    """
    import torch

    import cudasim

    counts: list[dict[str, int]] = []
    reset = torch.cuda.reset_peak_memory_stats

    def count() -> None:
        stats = cudasim.stats()
        counts.append(
            {
                "calls": cudasim.all_calls(),
                "ops": stats.ops,
                "backward_ops": stats.backward_ops,
                "cpu_ns": stats.cpu_ns,
                "backward_cpu_ns": stats.backward_cpu_ns,
                "now_ns": stats.now_ns,
                "copied": stats.copied_bytes,
                "resident": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
            }
        )

    def counted(*arguments: Any) -> None:
        count()
        reset(*arguments)

    def write() -> None:
        count()
        steps = [
            {name: after[name] - before[name] for name in after}
            | {"resident": after["resident"]}
            for before, after in itertools.pairwise(counts)
        ]
        Path(path).write_text(json.dumps(steps))

    setattr(torch.cuda, reset.__name__, counted)
    atexit.register(write)


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit("usage: twin.py PROGRAM [ARGUMENT...]")
    begin()
    if path := os.environ.get("CUDASIM_STEPS"):
        _count_steps(path)
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
