"""A job of bench/jobs on the simulated device, what CUPTI says of it beside the clock.

    cuda_profile.py SCHEDULE JOB ARGUMENTS...

Prints what the job prints, then one line of JSON: what ebbtide has attributed, and
what the simulator's clock showed in the same windows, which have all ended.
"""

import cudasim  # isort: skip  # before torch
import json
import runpy
import sys
from pathlib import Path

import torch

import ebbtide

JOBS = Path(__file__).resolve().parents[3] / "bench" / "jobs"

exact = cudasim.Exact()
cudasim.set_schedule(sys.argv[1])
# The host takes its time, so that there are gaps between kernels.
cudasim.set_rates(host_us=4)
torch.zeros(1, device="cuda")
exact.watch_blocks()
sys.argv = [*sys.argv[2:], "--device", "cuda"]
runpy.run_path(str(JOBS / f"{sys.argv[0]}.py"), run_name="__main__")
torch.cuda.synchronize()
left = {
    "work_ns": cudasim.cupti_stats().work_ns,
    "broken": cudasim.broken(),
    "cupti": ebbtide.report().get("cupti"),
}
print(json.dumps(left))
