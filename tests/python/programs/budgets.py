"""Programs that meet their budget, or cannot."""

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
    """Nine values of 1 MiB; each can be recomputed from the one before it."""
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


def wide_dropouts(t: Trial) -> None:
    """Three layers, in each a dropout whose result is a third of what it needs."""
    w = leaf(8 * ROWS, WIDTH)

    def forward(_: int) -> Tensor:
        means = []
        for _ in range(3):
            wide, _mask = torch.native_dropout(w.tanh().repeat(4, 1), 0.5, train=True)
            means.append(wide.exp().mean())
        return torch.stack(means).sum()

    t.train([w], forward, steps=6)


def chain_of_noise(t: Trial) -> None:
    """Five values of 1 MiB, and noise of each that nothing can recompute."""
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
        except RuntimeError as error:
            print(error, flush=True)


def ladder(t: Trial) -> None:
    """Saves 16 MiB that are made while 8 others, soon to be added, wait.

    The backward takes 8 MiB before it asks for them.
    """
    w = leaf(8 * ROWS, WIDTH)
    taken: list[Tensor] = []

    def take(_: Tensor) -> None:
        taken.append(torch.zeros(64 * ROWS, WIDTH))

    def forward(step: int) -> Tensor:
        taken.clear()
        sines = w.sin().mean()
        fixed = w.detach()
        rungs = [fixed * (step + i) for i in range(8)]
        h = fixed.repeat(16, 1)
        for i in range(8):
            h[i * ROWS :][: 8 * ROWS] += rungs.pop()
        product = h[: 8 * ROWS] * w
        product.register_hook(take)
        return sines + product.sum()

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
