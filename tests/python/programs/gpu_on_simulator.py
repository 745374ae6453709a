"""Runs a program of tests/gpu or bench/gpu on the simulated device.

    gpu_on_simulator.py PROGRAM ARGUMENTS...

Numbers are computed for the cases of tests/gpu whose ops the host has, and for those
only.
"""

import cudasim  # isort: skip  # before torch
import runpy
import sys
from pathlib import Path

import torch

IS_CASE = Path(sys.argv[1]).name == "gpu_program.py"
if IS_CASE and sys.argv[2] not in ("attention_flash", "attention_efficient"):
    exact = cudasim.Exact()
    torch.zeros(1, device="cuda")
    exact.watch_blocks()
torch.backends.cudnn.enabled = False
del sys.argv[0]
sys.path.insert(0, str(Path(sys.argv[0]).parent))
runpy.run_path(sys.argv[0], run_name="__main__")
