"""Trains one model in one way and prints a line of JSON.

    gpu_child.py MODEL WAY STEPS

Ways: plain (unmanaged, or managed as the environment says), checkpoint, save_on_cpu,
compile=SHARE (torch.compile with that activation memory budget).
"""

import contextlib
import functools
import importlib.util
import itertools
import json
import os
import sys
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import gpu_models

# mypy: disallow-untyped-calls=False, warn-return-any=False

SEED = 1


def prepare(task: gpu_models.Task, way: str) -> Any:
    """Changes the model to that way; the context of its forward passes."""
    if way == "checkpoint":
        for block in task.blocks:
            block.forward = functools.partial(
                checkpoint, block.forward, use_reentrant=False
            )
    elif way.startswith("compile="):
        import torch._functorch.config as functorch

        share = float(way.removeprefix("compile="))
        functorch.activation_memory_budget = share
        task.model.compile()
    elif way == "save_on_cpu":
        return lambda: torch.autograd.graph.save_on_cpu(pin_memory=True)
    elif way != "plain":
        raise SystemExit(f"gpu_child.py: no way {way}")
    return contextlib.nullcontext


def report() -> dict[str, Any]:
    if importlib.util.find_spec("ebbtide") is None:
        return {}
    import ebbtide

    return ebbtide.report()


def step_of(
    task: gpu_models.Task, optimizer: torch.optim.Optimizer, saving: Any
) -> torch.Tensor:
    with saving():
        loss = task.loss()
    loss.backward()
    nn.utils.clip_grad_norm_(task.model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return loss


def train(model: str, way: str, steps: int) -> dict[str, Any]:
    torch.manual_seed(SEED)
    is_tiny = os.environ.get("EBBTIDE_GPU_TESTS_SIZE") == "tiny"
    task = (gpu_models.TINY if is_tiny else gpu_models.TASKS)[model]()
    saving = prepare(task, way)
    optimizer = torch.optim.AdamW(task.model.parameters(), lr=1e-4)
    marks, peaks, losses = [], [], []
    for _ in range(steps + 1):
        mark = torch.cuda.Event(enable_timing=True)
        mark.record()
        marks.append(mark)
        if len(marks) > steps:
            break
        torch.cuda.reset_peak_memory_stats()
        losses.append(step_of(task, optimizer, saving).item())
        peaks.append(
            {
                "allocated": torch.cuda.max_memory_allocated(),
                "reserved": torch.cuda.max_memory_reserved(),
            }
        )
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    seconds = [a.elapsed_time(b) / 1e3 for a, b in itertools.pairwise(marks)]
    return {
        "seconds": seconds,
        "peaks": peaks,
        "losses": [float(loss).hex() for loss in losses],
        "device": total - free,
        "parameters": sum(p.numel() for p in task.model.parameters()),
        "report": report(),
        "name": torch.cuda.get_device_name(),
        "torch": torch.__version__,
    }


if __name__ == "__main__":
    print(json.dumps(train(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
