"""A training on the simulated device in which one CUDA call fails.

`step` trains a few steps that are each the same whatever happened before: they
begin with the same parameters and the same state of the generators. From the
environment: FAULT_STEP, in which FAULT_CALL, counted from 0, fails with the error
FAULT_ERROR, and with FAULT_BREAKS the device with it; without FAULT_CALL its calls
are noted. Zygote has to import this
module first, and to have the simulator preloaded.
"""

import os

import torch
from torch import Tensor, nn

import cudasim
from programs.cuda_random import exact, left, schedule
from programs.trial import Trial, await_planner

# mypy: disallow-untyped-calls=False

ROWS, WIDTH, DEPTH, STEPS = 512, 128, 4, 7
NEVER = 1 << 40


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Linear(WIDTH, 2 * WIDTH)
        self.back = nn.Linear(2 * WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        h = nn.functional.gelu(self.wide(self.norm(x)))
        return x + nn.functional.dropout(self.back(h), 0.1)


def one_step(model: nn.Module, x: Tensor) -> list[Tensor]:
    """The loss and all gradients, on the device."""
    torch.manual_seed(7)
    model.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    return [loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]


def attempt(t: Trial, step: int, model: nn.Module, x: Tensor) -> None:
    """Notes what came of it, for the class of an error its type and words."""
    try:
        found = [tensor.cpu() for tensor in one_step(model, x)]
    except RuntimeError as error:
        words = str(error).splitlines()[0].split(". ")[0]
        t.add(f"step {step}", [type(error).__name__, words])
        return
    t.note(f"step {step}", *found)


def step(t: Trial) -> None:
    variable = os.environ.get
    faulty = int(variable("FAULT_STEP", "-1"))
    schedule()
    torch.zeros(1, device="cuda")
    exact.watch_blocks()
    model = nn.Sequential(*(Block() for _ in range(DEPTH))).to("cuda")
    x = torch.randn(ROWS, WIDTH).to("cuda")
    for number in range(STEPS):
        before = cudasim.all_calls()
        if number == faulty and "FAULT_CALL" not in os.environ:
            cudasim.trace_calls()
        elif number == faulty:
            cudasim.fail_one(
                after=int(os.environ["FAULT_CALL"]),
                error=int(variable("FAULT_ERROR", "2")),
                breaks=bool(variable("FAULT_BREAKS")),
            )
        attempt(t, number, model, x)
        # A run with fewer calls than the one that counted them would fail behind it.
        cudasim.fail_one(after=NEVER, error=0)
        calls = cudasim.all_calls() - before
        if number == faulty:
            t.add("calls", cudasim.traced()[:calls])
        await_planner()
    t.add("device", [str(cudasim.broken()), *cudasim.hazards()])
    stats = torch.cuda.memory_stats()
    t.count("memory", reserved=stats["reserved_bytes.all.peak"])
    del model, x
    if cudasim.broken() is None:
        t.count("left", **left())
