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
import time
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


def peaks() -> dict[str, int]:
    return {
        "allocated": torch.cuda.max_memory_allocated(),
        "reserved": torch.cuda.max_memory_reserved(),
    }


def told() -> dict[str, Any]:
    """Facts about the device and ebbtide, after the last step."""
    free, total = torch.cuda.mem_get_info()
    return {
        "device": total - free,
        "report": report(),
        "name": torch.cuda.get_device_name(),
        "torch": torch.__version__,
    }


def train(
    task: gpu_models.Task, optimizer: torch.optim.Optimizer, saving: Any, steps: int
) -> dict[str, Any]:
    """`host` is what the host takes to queue a step, `seconds` the device's time."""
    marks, found, losses, host = [], [], [], []
    for _ in range(steps + 1):
        mark = torch.cuda.Event(enable_timing=True)
        mark.record()
        marks.append(mark)
        if len(marks) > steps:
            break
        start = time.perf_counter()
        torch.cuda.reset_peak_memory_stats()
        loss = step_of(task, optimizer, saving)
        host.append(time.perf_counter() - start)
        losses.append(loss.item())
        found.append(peaks())
    torch.cuda.synchronize()
    return {
        "seconds": [a.elapsed_time(b) / 1e3 for a, b in itertools.pairwise(marks)],
        "host": host,
        "peaks": found,
        "losses": [float(loss).hex() for loss in losses],
        "parameters": sum(p.numel() for p in task.model.parameters()),
        **told(),
    }


def is_tiny() -> bool:
    return os.environ.get("EBBTIDE_GPU_TESTS_SIZE") == "tiny"


def wait_for_device() -> None:
    """Where times are to be published, until no other process is on it."""
    if "EBBTIDE_GPU_TESTS_GATE" in os.environ:
        print("loaded", flush=True)
        if not sys.stdin.readline():
            raise SystemExit("gpu_child.py: nobody waits for this any more")


def main() -> None:
    wait_for_device()
    model, way, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
    torch.manual_seed(SEED)
    task = (gpu_models.TINY if is_tiny() else gpu_models.TASKS)[model]()
    saving = prepare(task, way)
    optimizer = torch.optim.AdamW(task.model.parameters(), lr=1e-4)
    print(json.dumps(train(task, optimizer, saving, steps)))


if __name__ == "__main__":
    main()
