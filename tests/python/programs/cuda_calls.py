"""Prints, as JSON, what a small GPT copies in its first step, and the CUDA calls of its
last step of each state. LAYERS is the number of its layers, 8 without."""

import json
import os
import sys
from collections import Counter
from pathlib import Path

import cudasim  # first

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench" / "gpu"))
import torch

import gpu_models

STEPS = 64
torch.backends.cudnn.enabled = False


def calls() -> Counter[str]:
    """Since the last time, by function and the library that made them."""
    made = Counter(call.split("+")[0] for call in cudasim.traced())
    cudasim.trace_calls()
    return made


def state() -> Counter[str]:
    if "EBBTIDE_BUDGET" not in os.environ:
        return Counter(unmanaged=1)
    import ebbtide

    return Counter(ebbtide.report()["steps_by_state"])


def main() -> None:
    layers = int(os.environ.get("LAYERS", "8"))
    task = gpu_models.gpt(gpu_models.GptShape(layers, 128, 4, 512, 8, 256))
    optimizer = torch.optim.AdamW(task.model.parameters(), lr=1e-4)
    last: dict[str, Counter[str]] = {}
    copied = 0
    known: Counter[str] = Counter()
    before = cudasim.stats().copied_bytes
    for _ in range(STEPS):
        calls()
        loss = task.loss()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(task.model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        made = calls()
        loss.item()
        now = state()
        for kind in now - known or now:
            last[kind] = made
        known = now
        copied = copied or cudasim.stats().copied_bytes - before
    print(json.dumps({"copied": copied, "calls": last}))


if __name__ == "__main__":
    main()
