"""Trains on two streams and dumps a memory snapshot; prints PyTorch's own peaks.

Arguments: the snapshot's path, and how many tensors are there before the history.
"""

import json
import sys

import torch

# mypy: disallow-untyped-calls=False

before = [torch.empty(3001 * (k + 1), device="cuda") for k in range(int(sys.argv[2]))]
torch.cuda.reset_peak_memory_stats()
torch.cuda.memory._record_memory_history(stacks="python")
side = torch.cuda.Stream()
model = torch.nn.Sequential(*(torch.nn.Linear(64, 64, device="cuda") for _ in range(4)))
for size in (8, 32, 16):
    before[:1] = []
    model(torch.ones(size, 64, device="cuda")).sum().backward()
    with torch.cuda.stream(side):
        away = torch.ones(size, 1 << 14, device="cuda").mul(2)
    away.record_stream(torch.cuda.current_stream())
    torch.cuda.synchronize()
    model.zero_grad()
torch.cuda.memory._dump_snapshot(sys.argv[1])
stats = torch.cuda.memory_stats()
print(
    json.dumps(
        {
            "requested": stats["requested_bytes.all.peak"],
            "reserved": stats["reserved_bytes.all.peak"],
        }
    )
)
