"""Random programs: seed_N is the one with that seed.

A program keeps a few values and graphs and does one thing after the other to
them: ops, views, in-place ops with and without autograd's knowledge, writes to
buffers and parameters, backward through one of several graphs. Where PyTorch
refuses, the words are noted.
"""

import functools
import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as nnf

from programs.trial import Trial, data, leaf

# mypy: disallow-untyped-calls=False, warn-return-any=False

SIZE = 160  # squares of 100 KiB, large enough to be managed
ACTIONS = 60


class Program:
    """One random program and what it holds."""

    def __init__(self, t: Trial, seed: int) -> None:
        self.t = t
        self.draw = random.Random(seed)
        # Every other program seldom writes, and so gets to more gradients.
        self.writes = 4 if seed % 2 else 1
        self.parameters = [leaf(SIZE, SIZE, seed=i) for i in range(3)]
        self.row = leaf(SIZE, seed=7)
        self.buffers = [data(SIZE, SIZE, seed=i) for i in (3, 4)]
        self.small = data(SIZE, seed=5)
        self.values: list[Tensor] = []
        self.losses: list[Tensor] = []

    def run(self) -> None:
        actions: dict[Callable[[], object], int] = {
            self.apply: 14,
            self.combine: 8,
            self.view: 4,
            self.write: self.writes,
            self.write_unseen: self.writes - 1,
            self.write_source: self.writes,
            self.without_grad: 3,
            self.forget: 6,
            self.finish: 4,
            self.backward: 4,
            self.press: 4,
            self.look: 1,
            self.fail: 1,
            self.give_data: 1,
        }
        chosen = self.draw.choices([*actions], [*actions.values()], k=ACTIONS)
        for number, action in enumerate(chosen):
            try:
                action()
            except RuntimeError as error:
                self.t.note(f"{number} {action.__name__}", str(error))
        while self.losses:
            try:
                self.backward()
            except RuntimeError as error:
                self.t.note("backward", str(error))
        everything = [*self.parameters, self.row, *self.buffers, *self.values]
        self.t.note("end", torch.rand(3), *everything)

    def source(self) -> Tensor:
        """A square: a value or a parameter or a buffer."""
        if self.values and self.draw.random() < 0.75:
            return self.draw.choice(self.values)
        return self.draw.choice([*self.parameters, *self.buffers])

    def keep(self, value: Tensor) -> None:
        self.values.append(value)
        if len(self.values) > 5:
            self.forget()

    def apply(self) -> None:
        ops: list[Callable[[Tensor], Tensor]] = [
            torch.tanh,
            torch.sin,
            torch.sigmoid,
            torch.relu,
            torch.clone,
            lambda x: x.tanh().exp(),
            lambda x: nnf.dropout(x, 0.3),
            lambda x: nnf.layer_norm(x, (SIZE,), self.row),
            lambda x: x.softmax(1),
            lambda x: nnf.linear(x, self.draw.choice(self.parameters)).tanh(),
            lambda x: nnf.gelu(x) * self.small,
            lambda x: x.masked_fill(self.buffers[0] > 0, 0.5),
            lambda x: torch.where(self.buffers[1] > x, x, x * x),
            lambda x: torch.bernoulli(x.sigmoid()) * x,
        ]
        self.keep(self.draw.choice(ops)(self.source()))

    def combine(self) -> None:
        ops: list[Callable[[Tensor, Tensor], Tensor]] = [
            torch.add,
            torch.mul,
            lambda a, b: (a @ b).tanh(),
            lambda a, b: torch.cat([a[: SIZE // 2], b[SIZE // 2 :]]),
            lambda a, b: torch.lerp(a, b, 0.25).sin(),
            lambda a, b: a * b.detach() + b,
        ]
        self.keep(self.draw.choice(ops)(self.source(), self.source()).sigmoid())

    def view(self) -> None:
        ops: list[Callable[[Tensor], Tensor]] = [
            torch.t,
            lambda x: x.reshape(SIZE // 2, -1).view(SIZE, SIZE),
            lambda x: x[:].flip(0),
            lambda x: x[:1].expand(SIZE, SIZE),
            torch.Tensor.detach,
        ]
        self.keep(self.draw.choice(ops)(self.source()))

    def written(self) -> Callable[[Tensor], object]:
        choices: list[Callable[[Tensor], object]] = [
            lambda x: x.add_(0.25),
            lambda x: x.mul_(0.5),
            torch.relu_,
            lambda x: x[3:9].zero_(),
            lambda x: x.t()[5].fill_(0.5),
            lambda x: x.copy_(self.source().detach()),
            lambda x: x.uniform_(0, 1),
            lambda x: x.view(-1).sin_(),
            lambda x: x.masked_fill_(self.buffers[0] > 0.5, 0.125),
        ]
        return self.draw.choice(choices)

    def write(self) -> None:
        if self.values:
            self.written()(self.draw.choice(self.values))

    def write_unseen(self) -> None:
        if not self.values:
            return
        x = self.draw.choice(self.values)
        how = self.draw.randrange(4)
        if how == 0:
            self.written()(x.data)
        elif how == 1:
            self.written()(x.detach())
        elif how == 2:
            with torch.no_grad():
                self.written()(x)
        else:
            with torch.inference_mode():
                x.data.mul_(0.5)

    def write_source(self) -> None:
        with torch.no_grad():
            self.written()(self.draw.choice([*self.buffers, *self.parameters]))
            self.small.mul_(0.75)

    def without_grad(self) -> None:
        with torch.no_grad():
            self.apply()

    def forget(self) -> None:
        if self.values:
            self.values.pop(self.draw.randrange(len(self.values)))

    def finish(self) -> None:
        """A graph more."""
        value = self.source()
        if value.requires_grad:
            self.losses.append((value * value).mean() + value.sin().sum())
        if len(self.losses) > 3:
            self.backward()

    def backward(self) -> None:
        if not self.losses:
            return
        loss = self.losses.pop(self.draw.randrange(len(self.losses)))
        leaves = [*self.parameters, self.row]
        again = self.draw.random() < 0.25
        for retain in (True, False) if again else (False,):
            self.t.gradients("gradients", loss, leaves, retain_graph=retain)

    def press(self) -> None:
        """Memory is short for a moment."""
        torch.empty(1 << 20)

    def look(self) -> None:
        self.t.note("value", self.source().sum().item())

    def fail(self) -> None:
        self.source() @ torch.ones(3, 3)

    def give_data(self) -> None:
        parameter = self.draw.choice(self.parameters)
        parameter.data = parameter.detach() * 0.5


def run(t: Trial, seed: int) -> None:
    Program(t, seed).run()


def __getattr__(name: str) -> Any:
    if not name.startswith("seed_"):
        raise AttributeError(name)
    return functools.partial(run, seed=int(name.removeprefix("seed_")))
