"""Programs that meet their budget, or cannot."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as nnf

from programs.trial import ROWS, WIDTH, Trial, data, leaf

# mypy: disallow-untyped-calls=False, warn-return-any=False


def recurrent(t: Trial) -> None:
    """Its kernel never writes two thirds of the workspace that it saves."""
    torch.manual_seed(3)
    layers = nn.ModuleList(
        nn.LSTM(WIDTH // 4, WIDTH // 4, batch_first=True) for _ in range(3)
    )
    x = data(16, 128, WIDTH // 4)

    def forward(step: int) -> Tensor:
        h = x + step
        for layer in layers:
            h = nnf.dropout(layer(h)[0], 0.1)
        return h.pow(2).mean()

    t.train(layers.parameters(), forward, steps=8)


def chain(t: Trial) -> None:
    """Nine values of 1 MiB; each can be made again from the one before it."""
    w = leaf(8 * ROWS, WIDTH)

    def forward(_: int) -> Tensor:
        h = w
        for _ in range(4):
            h = h.tanh().exp()
        return h.mean()

    t.train([w], forward, steps=4)


def wide(t: Trial) -> None:
    """One op's result, which nothing saves, is half of what the step needs."""
    w = leaf(8 * ROWS, WIDTH)

    def forward(_: int) -> Tensor:
        h = w.tanh().exp().tanh()
        return h.mean() + h.repeat(4, 1).mean()

    t.train([w], forward, steps=6)


def chain_of_noise(t: Trial) -> None:
    """Five values of 1 MiB, and noise of each that nothing can make again."""
    w = leaf(8 * ROWS, WIDTH)

    def forward(_: int) -> Tensor:
        h = w
        for _ in range(5):
            h = nnf.rrelu(h * 1.5, training=True)
        return h.mean()

    t.train([w], forward, steps=4)


def fits_at_second_try(t: Trial) -> None:
    """A script that takes a smaller batch when memory is short."""
    w = leaf(8 * ROWS, WIDTH)
    for rows in (8 * ROWS, ROWS):
        try:
            h = w[:rows].tanh().exp()
            t.gradients(f"{rows} rows", (h.sin() * h).sum(), [w])
        except torch.OutOfMemoryError as error:
            print(error, flush=True)


class Hungry(torch.autograd.Function):
    """Its backward takes 8 MiB before it asks for what it has saved."""

    @staticmethod
    def forward(ctx: Any, w: Tensor, h: Tensor) -> Tensor:
        ctx.save_for_backward(h)
        return w.sum() + h.sum()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        scratch = torch.zeros(64 * ROWS, WIDTH)
        (h,) = ctx.saved_tensors
        return h[: 8 * ROWS] * gradients[0] + scratch[:1], None


def ladder(t: Trial) -> None:
    """Saves 16 MiB that are made while 8 others, soon to be added, wait."""
    w = leaf(8 * ROWS, WIDTH)

    def forward(step: int) -> Tensor:
        sines = w.sin().mean()
        with torch.no_grad():
            rungs = [w * (step + i) for i in range(8)]
            h = w.repeat(16, 1)
            for i in range(8):
                h[i * ROWS :][: 8 * ROWS] += rungs.pop()
        return sines + Hungry.apply(w, h)

    t.train([w], forward, steps=4)


def last_layer_first(t: Trial) -> None:
    """In the second step a part of the backward comes alone, before the whole."""
    w = leaf(8 * ROWS, WIDTH)
    last = leaf(8 * ROWS, WIDTH, seed=1)

    def forward(step: int) -> Tensor:
        h = w
        for _ in range(4):
            h = h.tanh().exp()
        loss = (h * last).tanh().mean()
        if step == 1:
            (gradient,) = torch.autograd.grad(loss, [last], create_graph=True)
            loss = loss + gradient.square().sum()
        return loss

    t.train([w, last], forward, steps=14)
