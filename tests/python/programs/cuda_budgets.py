"""Jobs for budgets of many sizes, on the simulated device: cases of programs/zygote.py.

They run on the twin but where numbers are computed. Their variables: BUDGETS_STEPS;
BUDGETS_DEEP=1, for models as deep as those that died on an H100; BUDGETS_EXACT=1, with
which numbers are computed; BUDGETS_FLOOR=1, with which they note the least budget that
a plan is known for, where another changes nothing. Each step waits for the plans in
the making, so that one is there after as many steps on every machine. A line "took
ALLOCATED RESERVED" is printed of each step.
"""

import contextlib
import os
import runpy
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import cudasim
import ebbtide
from programs.trial import Trial, await_planner

sys.path.append(str(Path(__file__).resolve().parents[3] / "bench" / "jobs"))
sys.path.append(str(Path(__file__).resolve().parents[3] / "bench" / "gpu"))
import common
import gpu_child
import gpu_models
import llama_child
import trainer_child
import twin

# mypy: disallow-untyped-calls=False

JOBS = Path(__file__).resolve().parents[3] / "bench" / "jobs"
CURVE_SECONDS = 0.5


def begin() -> None:
    if not asks("BUDGETS_EXACT"):
        twin.begin()


def end_step() -> None:
    """Prints what the step took of the device."""
    await_planner()
    peaks = gpu_child.peaks()
    print("took", peaks["allocated"], peaks["reserved"])
    torch.cuda.reset_peak_memory_stats()


def number_of_steps() -> int:
    return int(os.environ["BUDGETS_STEPS"])


def asks(variable: str) -> bool:
    return os.environ.get(variable) == "1"


def note_floor(t: Trial) -> None:
    if not asks("BUDGETS_FLOOR"):
        return
    curve = ebbtide.curve(CURVE_SECONDS)
    assert curve.offloading is not None
    t.count("floor", in_place=curve[0].budget, moving=curve.offloading[0].budget)


def train(t: Trial, make: Callable[[], gpu_models.Task], fused: bool) -> None:
    """The loop of bench/gpu/gpu_child.py."""
    begin()
    task = make()
    parameters = task.model.parameters()
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=fused)
    for _ in range(number_of_steps()):
        gpu_child.step_of(task, optimizer, contextlib.nullcontext).item()
        end_step()
    note_floor(t)


def lm(t: Trial) -> None:
    """The GPT with a large vocabulary that first died of PyTorch's segments.

    22 layers of 8 sequences: at 540 MiB 374 were alive when 125 more found no room,
    where checkpointing ran in 630.
    """
    flat, deep = (5, 256, 4, 8000, 8, 1024), (22, 256, 4, 16000, 8, 256)
    shape = gpu_models.GptShape(*(deep if asks("BUDGETS_DEEP") else flat))
    train(t, lambda: gpu_models.gpt(shape), fused=False)


def llama(t: Trial) -> None:
    """transformers' Llama of bench/gpu, llama-small."""
    flat = llama_child.Shape(512, 1408, 3, 8, 4, 8000, 8, 1024)
    shape = llama_child.SHAPES["llama-small"] if asks("BUDGETS_DEEP") else flat
    train(t, lambda: llama_child.llama(shape), fused=True)


def trainer(t: Trial) -> None:
    """transformers' Trainer of bench/gpu, with sequences of 512 to 2048 tokens."""
    begin()
    trainer_child.VOCABULARY = 4000
    trainer_child.SHAPE = {
        "hidden_size": 256,
        "intermediate_size": 688,
        "num_hidden_layers": 8 if asks("BUDGETS_DEEP") else 2,
    }
    trainer_child.HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2}

    class Watch(trainer_child.Watch):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            end_step()

    trainer_child.Watch = Watch  # type: ignore[misc]
    if asks("BUDGETS_FLOOR"):  # that of the longest
        trainer_child.SHORTEST = trainer_child.LONGEST - 1
    with tempfile.TemporaryDirectory() as folder:
        trainer_child.train("plain", number_of_steps(), folder)
    note_floor(t)


# Sizes and batches of the jobs in bench/jobs: some GiB are alive, so that a page is a
# thousandth of the budget as on a device of today, but where numbers are computed.
BATCHES = {
    "gpt": ("small", 4096, 16),
    "resnet": ("full", 256, 16),
    "unet": ("full", 64, 4),
    "encdec": ("full", 256, 8),
    "lstm": ("small", 32768, 512),
}


def job(t: Trial, name: str) -> None:
    begin()

    class Log(common.Log):
        def step(self, loss: float) -> None:
            super().step(loss)
            end_step()

    common.Log = Log  # type: ignore[misc]
    size, batch, batch_of_numbers = BATCHES[name]
    if asks("BUDGETS_EXACT"):
        batch = batch_of_numbers
        exact = cudasim.Exact()
        torch.zeros(1, device="cuda")
        exact.watch_blocks()
    arguments = ("--size", size, "--batch", str(batch), "--steps")
    sys.argv = [name, *arguments, str(number_of_steps()), "--device", "cuda"]
    runpy.run_path(str(JOBS / f"{name}.py"), run_name="__main__")
    t.note("hazards", cudasim.hazards(), cudasim.broken())
    note_floor(t)


def gpt(t: Trial) -> None:
    job(t, "gpt")


def resnet(t: Trial) -> None:
    job(t, "resnet")


def unet(t: Trial) -> None:
    job(t, "unet")


def encdec(t: Trial) -> None:
    job(t, "encdec")


def lstm(t: Trial) -> None:
    job(t, "lstm")
