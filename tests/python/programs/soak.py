"""Training that goes on for long: steps_N for so many steps.

Some steps have a shorter batch or a longer one, some fail in forward or in backward,
and the network is evaluated now and then. The memory of the process is sampled after
every step.
"""

import functools
import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as nnf

from programs.trial import Trial, await_planner, data, resources

# mypy: disallow-untyped-calls=False, warn-return-any=False

WIDTH = 128
PAGE = os.sysconf("SC_PAGE_SIZE")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)
        self.first = nn.Linear(WIDTH, 3 * WIDTH)
        self.second = nn.Linear(3 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        h = nnf.gelu(self.first(self.norm(x)))
        return x + nnf.dropout(self.second(h), 0.1, training=self.training)


class Failing(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(*_: Any) -> Tensor:
        raise ValueError("backward fails")


def resident() -> int:
    """Anonymous bytes of this process that are in memory."""
    with Path("/proc/self/statm").open() as file:
        fields = [int(field) for field in file.read().split()]
    return (fields[1] - fields[2]) * PAGE


def held() -> tuple[int, int, int]:
    """Resident bytes, open files, threads."""
    return resident(), *resources()


def rows_of(step: int) -> int:
    if step % 11 == 5:
        return 192
    return 288 if step % 17 == 3 else 256


class Soak:
    def __init__(self, t: Trial) -> None:
        self.t = t
        torch.manual_seed(3)
        self.network = nn.Sequential(*(Block() for _ in range(5)))
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=1e-4)
        self.inputs = data(512, WIDTH)

    def loss(self, step: int, rows: int) -> Tensor:
        begin = 8 * (step % 16)
        return self.network(self.inputs[begin : begin + rows]).square().mean()

    def train(self, step: int) -> None:
        self.optimizer.zero_grad()
        self.loss(step, rows_of(step)).backward()
        self.optimizer.step()

    def evaluate(self, step: int) -> None:
        self.network.eval()
        with torch.no_grad():
            self.loss(step, 320)
        self.network.train()

    def fail_in_forward(self, step: int) -> None:
        self.loss(step, 256) @ torch.ones(3, 3)

    def fail_in_backward(self, step: int) -> None:
        h = self.network[:2](self.inputs[: rows_of(step)])
        self.network[2:](Failing.apply(h)).sum().backward()

    def attempt(self, action: Callable[[int], None], step: int) -> None:
        try:
            action(step)
        except (RuntimeError, ValueError):
            self.optimizer.zero_grad()

    def run(self, steps: int) -> None:
        samples = []
        for step in range(steps):
            if step % 13 == 7:
                self.attempt(self.evaluate, step)
            if step % 29 == 11:
                self.attempt(self.fail_in_forward, step)
            if step % 31 == 17:
                self.attempt(self.fail_in_backward, step)
            self.attempt(self.train, step)
            if step < 60:
                await_planner()
            samples.append(held())
            if step % 50 == 49:
                self.t.note(f"step {step}", *self.network.parameters())
        self.t.note("end", *self.network.state_dict().values(), torch.rand(3))
        self.t.note(
            "optimizer",
            *(
                value
                for state in self.optimizer.state.values()
                for value in state.values()
            ),
        )
        # A window each after the warm-up and at the end.
        window = steps // 10
        for label, part in (
            ("warm", samples[4 * window : 5 * window]),
            ("end", samples[-window:]),
        ):
            names = ("resident", "files", "threads")
            numbers = zip(*part, strict=True)
            middle = (int(statistics.median(n)) for n in numbers)
            self.t.count(label, **dict(zip(names, middle, strict=True)))


def run(t: Trial, steps: int) -> None:
    Soak(t).run(steps)


def __getattr__(name: str) -> Any:
    if not name.startswith("steps_"):
        raise AttributeError(name)
    return functools.partial(run, steps=int(name.removeprefix("steps_")))
