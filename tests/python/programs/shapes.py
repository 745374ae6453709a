"""Programs whose steps differ in shape, or are of more than one kind."""

import random

import torch
from torch import Tensor, nn
from torch.nn import functional as nnf

from programs.trial import Trial, data, leaf

LENGTHS = [32 + 4 * i for i in range(40)]
WIDTH, HEADS, BATCH, VOCABULARY = 64, 4, 8, 128


class Block(nn.Module):
    """A layer of a transformer that drops out."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.project = nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = (
            part.view(batch, length, HEADS, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(WIDTH, dim=2)
        )
        y = nnf.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(y.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + nnf.dropout(self.down(nnf.gelu(self.up(self.norm2(x)))), 0.1)


class Model(nn.Module):
    """Predicts the next of some tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.head(self.blocks(self.tokens(tokens[:, :-1])))
        return nnf.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def train_on(t: Trial, lengths: list[int]) -> None:
    model = Model()

    def forward(step: int) -> Tensor:
        drawn = torch.Generator().manual_seed(step)
        shape = (BATCH, lengths[step] + 1)
        loss: Tensor = model(torch.randint(VOCABULARY, shape, generator=drawn))
        return loss

    t.train(model.parameters(), forward, steps=len(lengths))


def shuffled(lengths: list[int], times: int) -> list[int]:
    lengths = lengths * times
    random.Random(1).shuffle(lengths)
    return lengths


def forty_lengths(t: Trial) -> None:
    train_on(t, shuffled(LENGTHS, 4))


def forty_lengths_ten_times(t: Trial) -> None:
    train_on(t, shuffled(LENGTHS, 10))


def ten_lengths(t: Trial) -> None:
    train_on(t, shuffled(LENGTHS[-10:], 5))


def longest(t: Trial) -> None:
    train_on(t, [LENGTHS[-1]] * 3)


def a_short_batch_at_each_end(t: Trial) -> None:
    train_on(t, ([LENGTHS[-1]] * 5 + [LENGTHS[-5]]) * 4)


ROWS, COLUMNS, LAYERS = 2048, 128, 12


def square_weights() -> list[Tensor]:
    shape = (COLUMNS, COLUMNS)
    return [leaf(*shape, seed=i, low=-0.1, high=0.1) for i in range(LAYERS)]


def layers(x: Tensor, weights: list[Tensor], last: str = "sigmoid") -> Tensor:
    for weight in weights[:-1]:
        x = (x @ weight).mul(1.25).sigmoid()
    x = (x @ weights[-1]).mul(1.25)
    return (x.tanh() if last == "tanh" else x.sigmoid()).square().mean()


def two_tasks(t: Trial) -> None:
    """By turns; their models share all layers but the last activation."""
    weights = square_weights()
    x = data(ROWS, COLUMNS)
    tasks = ("sigmoid", "tanh")
    t.train(weights, lambda step: layers(x, weights, tasks[step % 2]), steps=16)


def one_goes_on_where_the_other_ends(t: Trial) -> None:
    """All ops of the one are the first ops of the other."""
    weights = square_weights()
    x = data(ROWS, COLUMNS)

    def forward(step: int) -> Tensor:
        loss = layers(x, weights)
        return loss if step % 3 else loss * layers(x, weights, "tanh")

    t.train(weights, forward, steps=20)
