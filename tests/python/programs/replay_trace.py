"""Replays a trace on PyTorch's own allocator; prints what it has reserved by step.

Arguments: the trace and the number of steps.
"""

import csv
import json
import sys
from pathlib import Path

import torch

# mypy: disallow-untyped-calls=False

trace, steps = Path(sys.argv[1]), int(sys.argv[2])
events = []
sizes = []
with trace.open() as file:
    for buffer, row in enumerate(csv.DictReader(file)):
        events.append((int(row["lower"]), True, buffer))
        events.append((int(row["upper"]), False, buffer))
        sizes.append(int(row["size"]))
events.sort()
torch.cuda.init()
reserved = []
for _ in range(steps):
    held = {}
    for _, begins, buffer in events:
        if begins:
            held[buffer] = torch.cuda.caching_allocator_alloc(sizes[buffer])
        else:
            torch.cuda.caching_allocator_delete(held.pop(buffer))
    reserved.append(torch.cuda.max_memory_reserved())
print(json.dumps(reserved))
