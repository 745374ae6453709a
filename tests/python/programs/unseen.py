"""Custom functions whose kernels no dispatcher sees, as inductor's and Triton's are."""

import ctypes
from typing import Any

import numpy as np
import torch
from torch import Tensor

from programs.trial import ROWS, WIDTH, Trial, data, leaf

# mypy: disallow-untyped-calls=False, warn-return-any=False

guards: Any = torch._C._dynamo.guards
empty_strided = guards._empty_strided_cpu


def bytes_of(x: Tensor) -> Any:
    """Through its address, by which kernels are started."""
    values = (ctypes.c_float * x.numel()).from_address(x.data_ptr())
    return np.ctypeslib.as_array(values)


class Fused(torch.autograd.Function):
    """relu(x @ w): PyTorch's product, and a kernel that writes into its result."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        y = x @ w
        np.maximum(bytes_of(y), 0, out=bytes_of(y))
        ctx.save_for_backward(x, w, y)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        x, w, y = ctx.saved_tensors
        g = gradients[0] * (y > 0)
        return g @ w.T, x.T @ g


class Overwriting(torch.autograd.Function):
    """A loss that leaves its gradient where its input was, to save memory."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> Tensor:
        loss = logits.square().sum()
        bytes_of(logits)[:] *= 2
        ctx.save_for_backward(logits)
        return loss

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (logits,) = ctx.saved_tensors
        return logits * gradients[0]


class Unrecorded(torch.autograd.Function):
    """2 x, in memory that it takes as inductor does."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y, kept = (empty_strided((ROWS, WIDTH), (WIDTH, 1), x.dtype) for _ in range(2))
        bytes_of(y)[:] = bytes_of(kept)[:] = bytes_of(x) * 2
        ctx.save_for_backward(kept)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (kept,) = ctx.saved_tensors
        return gradients[0] * 2 + kept * 0.01


def made_by_no_op(t: Trial) -> None:
    x = leaf(ROWS, WIDTH)
    for step in range(3):
        h = x + step
        for _ in range(4):
            h = Unrecorded.apply(h)
        torch.empty(1 << 20)
        t.gradients(f"step {step}", h.sum(), [x])


def written_within(t: Trial) -> None:
    """Such a function saves its result, and so do the ops that follow."""
    x, w = leaf(ROWS, WIDTH), leaf(WIDTH, WIDTH, seed=1)
    for step in range(3):
        h = Fused.apply(x.tanh() + step, w)
        loss = (h.sin() * Fused.apply(h, w).exp().tanh()).sum()
        del h
        torch.empty(1 << 20)
        t.gradients(f"step {step}", loss, [x, w])


def input_overwritten(t: Trial) -> None:
    """An op made it, and it was read before."""
    x = leaf(ROWS, WIDTH)
    for step in range(3):
        logits = (x + step).sin() * 0.5
        before = (logits + 1).exp()
        other = (x.tanh().exp() * before).sum()
        loss = Overwriting.apply(logits)
        del logits, before
        torch.empty(1 << 20)
        t.gradients(f"step {step}", loss + other, [x])


def written_without_gradients(t: Trial) -> None:
    """A compiled teacher: nothing of it is in the graph but what it returns."""
    x, w = leaf(ROWS, WIDTH), leaf(WIDTH, WIDTH, seed=1)
    for step in range(3):
        h = x.tanh().exp()
        with torch.no_grad():
            taught = data(ROWS, WIDTH, seed=step) @ w
            np.maximum(bytes_of(taught), 0, out=bytes_of(taught))
        loss = (h * taught).tanh().sum()
        del h, taught
        torch.empty(1 << 20)
        t.gradients(f"step {step}", loss, [x])
