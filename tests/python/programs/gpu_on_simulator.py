"""Runs a program of tests/gpu or bench/gpu on the simulated device.

    gpu_on_simulator.py PROGRAM ARGUMENTS...

Its numbers are computed unless EBBTIDE_GPU_TESTS_NUMBERS is 0.
"""

import cudasim  # isort: skip  # before torch
import os
import runpy
import sys
from pathlib import Path

import torch

if os.environ.get("EBBTIDE_GPU_TESTS_NUMBERS") != "0":
    exact = cudasim.Exact()
    torch.zeros(1, device="cuda")
    exact.watch_blocks()
torch.backends.cudnn.enabled = False
del sys.argv[0]
sys.path.insert(0, str(Path(sys.argv[0]).parent))
runpy.run_path(sys.argv[0], run_name="__main__")
