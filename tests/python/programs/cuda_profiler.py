"""torch.profiler over part of a step, on the simulated device.

    cuda_profiler.py early|midway|never

The profiler is there from before the first step on, or comes between the forward
and the backward pass of the second. Prints one line of JSON: what it saw the device
do, and the loss.
"""

import cudasim  # isort: skip  # before torch
import collections
import contextlib
import json
import sys
import warnings

import torch
from torch.profiler import ProfilerActivity, profile

# mypy: disallow-untyped-calls=False

ACTIVITIES = [ProfilerActivity.CUDA, ProfilerActivity.CPU]

exact = cudasim.Exact()
torch.manual_seed(1)
when = sys.argv[1]
layers = [torch.nn.Linear(256, 256) for _ in range(4)]
model = torch.nn.Sequential(*layers).cuda()
batch = torch.randn(64, 256).cuda()
warnings.simplefilter("ignore")
profiler = profile(activities=ACTIVITIES)
with contextlib.ExitStack() as stack:
    if when == "early":
        stack.enter_context(profiler)
    for step in range(4):
        loss = model(batch).square().mean()
        with contextlib.ExitStack() as inner:
            if when == "midway" and step == 1:
                inner.enter_context(profiler)
            loss.backward()
            torch.cuda.synchronize()
seen = [] if when == "never" else profiler.events()
work = [event.name for event in seen if event.device_type.name == "CUDA"]
left = {"work": collections.Counter(work), "loss": loss.item().hex()}
print(json.dumps(left, sort_keys=True))
