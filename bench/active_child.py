"""Counts the instructions of steps on the simulated device, under callgrind.

    valgrind --tool=callgrind python bench/active_child.py MODEL MARKS

MODEL is gpt or small. Under a budget the steps that are counted follow a plan. Prints
as JSON what was done in them and what the model reserves.
"""

import cudasim  # isort: skip  # before torch
import ctypes
import gc
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

import ebbtide

sys.path.insert(0, str(Path(__file__).parent / "gpu"))
import gpu_models
import overhead_child

STEPS = 3
# Steps before those: what a plan is made of, tried and laid out in.
SETTLE, PLANNED = 4, 60
ROWS = 4096  # rows of the small model: its saved tensors are large enough to be managed


def gpt() -> Callable[[], None]:
    """As what the calls of a step are pinned for (tests/python/test_cuda_calls.py)."""
    task = gpu_models.gpt(gpu_models.GptShape(24, 128, 4, 512, 8, 256))
    parameters = list(task.model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=1e-4)

    def step() -> None:
        torch.autograd.backward(task.loss())
        optimizer.step()
        for parameter in parameters:
            parameter.grad = None

    return step


def small() -> Callable[[], None]:
    """The small ops of bench/overhead_child.py."""
    made = overhead_child.Step()
    made.model.cuda()
    made.input = torch.randn(ROWS, 32, device="cuda")
    return made


def await_planner() -> None:
    """Its instructions are no step's."""

    def runs() -> bool:
        names = Path("/proc/self/task").glob("*/comm")
        return any(name.read_text().strip() == "ebbtide-plan" for name in names)

    while runs():
        time.sleep(0.01)


def work() -> dict[str, int]:
    report = ebbtide.report()
    stats = cudasim.stats()
    return {
        "recomputed": int(report.get("ops_replayed", 0)),
        "copies": stats.copies,
        "calls": cudasim.all_calls(),
    }


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(1)
    step = {"gpt": gpt, "small": small}[sys.argv[1]]()
    for _ in range(PLANNED if "EBBTIDE_BUDGET" in os.environ else SETTLE):
        step()
        await_planner()
    marks = ctypes.CDLL(sys.argv[2])
    marks.DumpCounts.argtypes = [ctypes.c_char_p]
    gc.collect()
    gc.disable()  # a collection would fall into the steps by chance
    before, states = work(), ebbtide.report().get("steps_by_state", {})
    marks.BeginCounting()
    for _ in range(STEPS):
        step()
    marks.EndCounting()
    marks.DumpCounts(b"steps")
    after, now = work(), ebbtide.report().get("steps_by_state", {})
    done = {name: after[name] - before[name] for name in after}
    done["reserved"] = torch.cuda.max_memory_reserved()
    made = {name: now[name] - states.get(name, 0) for name in now}
    kinds = [name for name, count in made.items() if count]
    state = ebbtide.report().get("state", "none")
    print(json.dumps(done | {"state": state, "states": kinds}))


if __name__ == "__main__":
    main()
