"""A job of bench/jobs on the simulated device, its numbers computed.

    cuda_job.py SCHEDULE JOB ARGUMENTS...

Prints what the job prints, then one line of JSON: what PyTorch's allocator and the
simulator say at the end, and what was reserved at most in each step.
"""

import cudasim  # isort: skip  # before torch
import gc
import json
import runpy
import sys
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).resolve().parents[3] / "bench" / "jobs"))
import common

# mypy: disallow-untyped-calls=False

JOBS = Path(__file__).resolve().parents[3] / "bench" / "jobs"


class Log(common.Log):
    """Also keeps what PyTorch's allocator says of each step."""

    def step(self, loss: float) -> None:
        super().step(loss)
        note_peaks()


def note_peaks() -> None:
    stats = torch.cuda.memory_stats()
    for name, of_steps in peaks.items():
        of_steps.append(stats[f"{name}_bytes.all.peak"])
    torch.cuda.reset_peak_memory_stats()


def train(job: str, arguments: list[str]) -> None:
    sys.argv = [job, *arguments, "--device", "cuda"]
    runpy.run_path(str(JOBS / f"{job}.py"), run_name="__main__")


def state() -> dict[str, object]:
    """The memory left when everything of the job is gone, and its last step is over."""
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.nn.Linear(1, 1, device="cuda")(torch.ones(1, 1, device="cuda")).backward()
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    note_peaks()
    segments = torch.cuda.memory_snapshot()
    blocks = [block for segment in segments for block in segment["blocks"]]
    return {
        "live": stats["allocated_bytes.all.current"],
        "peak": max(peaks["allocated"]),
        "reserved": stats["reserved_bytes.all.current"],
        "reserved_peak": max(peaks["reserved"]),
        "allocated_peak": max(peaks["allocated"]),
        "reserved_peaks": peaks["reserved"],
        "ooms": stats["num_ooms"],
        "in_snapshot": sum(segment["total_size"] for segment in segments),
        "active_in_snapshot": sum(
            block["size"] for block in blocks if block["state"] == "active_allocated"
        ),
        "hazards": cudasim.hazards(),
        "broken": cudasim.broken(),
        "ops": exact.ops,
    }


peaks: dict[str, list[int]] = {"allocated": [], "reserved": []}  # by step
common.Log = Log  # type: ignore[misc]
exact = cudasim.Exact()
cudasim.set_schedule(sys.argv[1])
torch.zeros(1, device="cuda")
exact.watch_blocks()
train(sys.argv[2], sys.argv[3:])
print(json.dumps(state()))
