"""A job of bench/jobs on the simulated device, its numbers computed.

    cuda_job.py SCHEDULE JOB ARGUMENTS...

Prints what the job prints, then one line of JSON: what PyTorch's allocator and the
simulator say at the end.
"""

import cudasim  # isort: skip  # before torch
import gc
import json
import runpy
import sys
from pathlib import Path

import torch

# mypy: disallow-untyped-calls=False

JOBS = Path(__file__).resolve().parents[3] / "bench" / "jobs"


def train(job: str, arguments: list[str]) -> None:
    sys.argv = [job, *arguments, "--device", "cuda"]
    runpy.run_path(str(JOBS / f"{job}.py"), run_name="__main__")


def state() -> dict[str, object]:
    """What is left when everything of the job is gone, and its last step is over."""
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.nn.Linear(1, 1, device="cuda")(torch.ones(1, 1, device="cuda")).backward()
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    segments = torch.cuda.memory_snapshot()
    blocks = [block for segment in segments for block in segment["blocks"]]
    return {
        "live": stats["allocated_bytes.all.current"],
        "peak": stats["allocated_bytes.all.peak"],
        "reserved": stats["reserved_bytes.all.current"],
        "reserved_peak": stats["reserved_bytes.all.peak"],
        "ooms": stats["num_ooms"],
        "in_snapshot": sum(segment["total_size"] for segment in segments),
        "active_in_snapshot": sum(
            block["size"] for block in blocks if block["state"] == "active_allocated"
        ),
        "hazards": cudasim.hazards(),
        "broken": cudasim.broken(),
        "ops": exact.ops,
    }


exact = cudasim.Exact()
cudasim.set_schedule(sys.argv[1])
torch.zeros(1, device="cuda")
exact.watch_blocks()
train(sys.argv[2], sys.argv[3:])
print(json.dumps(state()))
