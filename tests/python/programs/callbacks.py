"""The callbacks that exist before each step, on the simulated device.

    callbacks.py STEPS

Prints one line of JSON: whether PyTorch has any that sees ops or backward ops, and how
many kinds of record CUPTI makes; the loss.
"""

import cudasim  # isort: skip  # before torch
import ctypes
import json
import sys
from pathlib import Path

import torch

# mypy: disallow-untyped-calls=False

library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
has_callbacks = library._ZN2at18hasGlobalCallbacksEv
has_callbacks.restype = ctypes.c_bool

torch.manual_seed(1)
layers = [torch.nn.Linear(256, 256) for _ in range(4)]
model = torch.nn.Sequential(*layers).cuda()
batch = torch.randn(64, 256).cuda()
observed, kinds, inside = [], [], []
for _ in range(int(sys.argv[1])):
    observed.append(has_callbacks())
    kinds.append(cudasim.cupti_stats().enabled)
    loss = model(batch).square().mean()
    inside.append([has_callbacks(), cudasim.cupti_stats().enabled])
    loss.backward()
found = {"observed": observed, "kinds": kinds, "inside": inside}
print(json.dumps(found | {"loss": loss.item().hex()}))
