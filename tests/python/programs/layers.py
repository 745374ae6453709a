"""Random layers for random training loops (training.py).

A layer maps a tensor to one of the same shape and gets the number of the step, so that
its computation may depend on it.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as nnf
from torch.utils.checkpoint import checkpoint

# mypy: disallow-untyped-calls=False, warn-return-any=False

WIDTH, TIME = 128, 32  # for sequences: four of them are 64 KiB
CHANNELS, PIXELS = 8, 24  # for images: four of them are 72 KiB

Activation = Callable[[Tensor], Tensor]
ACTIVATIONS: list[Activation] = [
    torch.tanh,
    torch.relu,
    torch.relu_,
    torch.sigmoid,
    nnf.gelu,
    lambda h: nnf.silu(h, inplace=True),
    lambda h: nnf.leaky_relu_(h, 0.1),
    lambda h: nnf.elu_(h * 1.0),
    lambda h: h * torch.tanh(nnf.softplus(h)),
    lambda h: nnf.hardswish(h).exp().clamp(max=2.0),
    lambda h: torch.where(h > 0, h, h.expm1()),
]


class Layer(nn.Module):
    """One random layer; `noise`: it may use the default generator."""

    def __init__(self, draw: random.Random, noise: bool) -> None:
        super().__init__()
        self.draw = draw
        self.noise = noise


class Dense(Layer):
    def __init__(self, draw: random.Random, noise: bool) -> None:
        super().__init__(draw, noise)
        self.linear = nn.Linear(WIDTH, WIDTH, bias=draw.random() < 0.7)
        self.act = draw.choice(ACTIVATIONS)

    def forward(self, h: Tensor, _: int) -> Tensor:
        return self.act(self.linear(h))


class Norm(Layer):
    def __init__(self, draw: random.Random, noise: bool) -> None:
        super().__init__(draw, noise)
        self.kind = draw.choice(("layer", "batch", "group", "root"))
        self.layer = nn.LayerNorm(WIDTH, elementwise_affine=draw.random() < 0.7)
        self.batch = nn.BatchNorm1d(WIDTH)
        self.group = nn.GroupNorm(4, WIDTH)

    def forward(self, h: Tensor, _: int) -> Tensor:
        if self.kind == "layer":
            return self.layer(h)
        if self.kind == "root":
            return h * (h.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
        norm = self.batch if self.kind == "batch" else self.group
        return norm(h.transpose(1, 2)).transpose(1, 2)


class Attention(Layer):
    def __init__(self, draw: random.Random, noise: bool) -> None:
        super().__init__(draw, noise)
        self.three = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.by_hand = draw.random() < 0.5
        self.drop = 0.1 if noise and draw.random() < 0.5 else 0.0

    def forward(self, h: Tensor, _: int) -> Tensor:
        batch = h.shape[0]
        parts = self.three(h).view(batch, -1, 3, 4, WIDTH // 4).unbind(2)
        q, k, v = (part.transpose(1, 2) for part in parts)
        drop = self.drop if self.training else 0.0
        if self.by_hand:
            scores = (q @ k.transpose(-2, -1)) / 8
            hidden = torch.ones_like(scores[0, 0], dtype=torch.bool).triu(1)
            weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
            mixed = nnf.dropout(weights, drop) @ v
        else:
            mixed = nnf.scaled_dot_product_attention(q, k, v, dropout_p=drop)
        return self.out(mixed.transpose(1, 2).reshape(batch, -1, WIDTH))


class Recurrent(Layer):
    def __init__(self, draw: random.Random, noise: bool) -> None:
        super().__init__(draw, noise)
        make = draw.choice((nn.LSTM, nn.GRU, nn.RNN))
        self.cell = make(WIDTH, WIDTH, batch_first=True)

    def forward(self, h: Tensor, _: int) -> Tensor:
        return self.cell(h)[0]


class Gate(Layer):
    def __init__(self, draw: random.Random, noise: bool) -> None:
        super().__init__(draw, noise)
        self.linear = nn.Linear(WIDTH, 2 * WIDTH)

    def forward(self, h: Tensor, _: int) -> Tensor:
        a, b = self.linear(h).chunk(2, -1)
        return a * b.sigmoid()


class Mix(Layer):
    """Views, and ops that move things."""

    def __init__(self, draw: random.Random, noise: bool) -> None:
        super().__init__(draw, noise)
        self.how = draw.randrange(6)

    def forward(self, h: Tensor, step: int) -> Tensor:
        a, b = h.split(h.shape[1] // 2, 1)
        order = torch.arange(h.shape[1], device=h.device).roll(step)
        ways: list[Callable[[], Tensor]] = [
            lambda: torch.cat([b, a.tanh()], 1),
            lambda: h.flip(1) * h[:, :1].expand_as(h),
            lambda: h.index_select(1, order) + h,
            lambda: torch.stack([a, b]).mean(0).repeat(1, 2, 1),
            lambda: h.permute(2, 0, 1).contiguous().permute(1, 2, 0).sin(),
            lambda: h.cumsum(1) / h.shape[1],
        ]
        return ways[self.how]()


class Written(Layer):
    """Parts are written in place, and read before and after."""

    def __init__(self, draw: random.Random, noise: bool) -> None:
        super().__init__(draw, noise)
        self.how = draw.randrange(5)

    def forward(self, h: Tensor, _: int) -> Tensor:
        g = h * 1.5
        if self.how == 0:
            g[:, 0] = 0.5
            return h + g.mul_(0.5).exp().clamp_(max=3)
        if self.how == 1:
            g[:, 1:3].add_(h[:, 2:4].detach())
            return g.sin_()
        if self.how == 2:
            g.masked_fill_(h.detach() > 0.5, 0.25)
            return g.tanh_() * h
        if self.how == 3:
            g.view(-1)[::7] *= 0.5
            return g.exp_().reciprocal_()
        kept = g.tanh()
        g += kept
        return g.mul(kept)


class Doubling(torch.autograd.Function):
    """Saves what it reads and makes, and keeps a tensor of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = x.exp()
        ctx.save_for_backward(x, y)
        ctx.stash = x * 2
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        x, y = ctx.saved_tensors
        return gradients[0] * (y + ctx.stash * 0.01 + x.sin())


class Own(Layer):
    def forward(self, h: Tensor, _: int) -> Tensor:
        return Doubling.apply(h.tanh()).log1p()


class Buffered(Layer):
    """A statistic of its own, moved on in every pass."""

    mean: Tensor

    def __init__(self, draw: random.Random, noise: bool) -> None:
        super().__init__(draw, noise)
        self.register_buffer("mean", torch.zeros(WIDTH))
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, h: Tensor, _: int) -> Tensor:
        with torch.no_grad():
            self.mean.mul_(0.9).add_(h.mean((0, 1)) * 0.1)
        return (h - self.mean) * self.weight


class Noise(Layer):
    def __init__(self, draw: random.Random, noise: bool) -> None:
        super().__init__(draw, noise)
        self.how = draw.randrange(4) if noise else 4

    def forward(self, h: Tensor, _: int) -> Tensor:
        if self.how == 0:
            return nnf.dropout(h, 0.2, training=self.training)
        if self.how == 1:
            return h + torch.randn_like(h) * h.detach().std()
        if self.how == 2:
            return h * torch.bernoulli(h.detach().sigmoid())
        if self.how == 3:
            # Its noise is saved before it is drawn. Without an op behind it that
            # saves something a checkpoint region ends between the two, and its
            # backward reads what the memory held.
            return nnf.rrelu(h, training=self.training).sin()
        return h.cos()


class Selecting(Layer):
    """Sizes that depend on bytes."""

    def forward(self, h: Tensor, _: int) -> Tensor:
        chosen = h.detach() > 0.1
        small = h[chosen].tanh()
        return h.masked_scatter(chosen, small) * 0.9


class Inner(Layer):
    """Holds another layer, or two."""

    make: Callable[[random.Random, bool], Layer]

    def __init__(self, draw: random.Random, noise: bool) -> None:
        super().__init__(draw, noise)
        self.inner = nn.ModuleList(self.make(draw, noise) for _ in range(2))
        self.how = draw.randrange(6)
        self.every = draw.randrange(2, 5)

    def both(self, h: Tensor, step: int) -> Tensor:
        first, second = self.inner
        return second(first(h, step), step)

    def forward(self, h: Tensor, step: int) -> Tensor:
        first, second = self.inner
        if self.how == 0:
            return h + self.both(h, step)
        if self.how in (1, 2):
            return checkpoint(self.both, h, step, use_reentrant=self.how == 1)
        if self.how == 3:
            return first(h, step) if step % self.every else self.both(h, step)
        if self.how == 4:
            return first(first(h, step), step)  # shares its weights
        h = first(h, step)
        if h.requires_grad:
            h.register_hook(lambda gradient: gradient * 0.5)
        return second(h, step) + h.detach()


class Convolution(Layer):
    def __init__(self, draw: random.Random, noise: bool) -> None:
        super().__init__(draw, noise)
        size, groups = draw.choice((1, 3, 5)), draw.choice((1, 1, 2, CHANNELS))
        make = nn.ConvTranspose2d if draw.random() < 0.2 else nn.Conv2d
        self.conv = make(CHANNELS, CHANNELS, size, padding=size // 2, groups=groups)
        self.norm = draw.choice((nn.BatchNorm2d(CHANNELS), nn.GroupNorm(2, CHANNELS)))
        self.act = draw.choice(ACTIVATIONS)

    def forward(self, h: Tensor, _: int) -> Tensor:
        return self.act(self.norm(self.conv(h)))


class Resampling(Layer):
    def __init__(self, draw: random.Random, noise: bool) -> None:
        super().__init__(draw, noise)
        self.pool = draw.choice((nn.MaxPool2d(2), nn.AvgPool2d(2)))
        self.mode = draw.choice(("nearest", "bilinear"))

    def forward(self, h: Tensor, _: int) -> Tensor:
        small = self.pool(h)
        return h + nnf.interpolate(small, size=h.shape[2:], mode=self.mode)


class Skip(Layer):
    """Channels side by side, as in a U-Net."""

    def __init__(self, draw: random.Random, noise: bool) -> None:
        super().__init__(draw, noise)
        self.conv = nn.Conv2d(2 * CHANNELS, CHANNELS, 1)
        self.slope = nn.PReLU(CHANNELS)
        self.drop = 0.1 if noise else 0.0

    def forward(self, h: Tensor, _: int) -> Tensor:
        both = torch.cat([h, self.slope(h)], 1)
        return self.conv(nnf.dropout2d(both, self.drop, training=self.training))


class Channels(Layer):
    def forward(self, h: Tensor, _: int) -> Tensor:
        h = h.to(memory_format=torch.channels_last) * 1.25
        return h * h.mean((2, 3), keepdim=True).sigmoid()


def choose(kinds: Sequence[type[Layer]]) -> Callable[[random.Random, bool], Layer]:
    return lambda draw, noise: draw.choice(kinds)(draw, noise)


SEQUENCE: list[type[Layer]] = [
    Dense,
    Dense,
    Norm,
    Attention,
    Recurrent,
    Gate,
    Mix,
    Written,
    Own,
    Buffered,
    Noise,
    Selecting,  # the last one, which is no inner layer
]
IMAGE: list[type[Layer]] = [
    Convolution,
    Convolution,
    Resampling,
    Skip,
    Channels,
    Own,
    Noise,
]


class InnerSequence(Inner):
    make = staticmethod(choose(SEQUENCE[:-1]))


class InnerImage(Inner):
    make = staticmethod(choose(IMAGE))


class Network(nn.Module):
    """A few random layers, of sequences or of images."""

    def __init__(self, draw: random.Random, noise: bool) -> None:
        super().__init__()
        self.images = draw.random() < 0.35
        kinds = IMAGE if self.images else SEQUENCE
        inner = InnerImage if self.images else InnerSequence
        # Plans are for steps that come again: most networks have such.
        self.pace = draw.choice((1, 5, 100))
        if self.pace > 1:
            kinds = [kind for kind in kinds if kind is not Selecting]
        make = choose([*kinds, *[inner] * (len(kinds) // 2)])
        self.layers = nn.ModuleList(
            make(draw, noise) for _ in range(draw.randrange(3, 9))
        )
        self.table = nn.Embedding(256, WIDTH)
        self.first = nn.Conv2d(3, CHANNELS, 3, padding=1)
        self.head = nn.Linear(CHANNELS if self.images else WIDTH, 16)

    def forward(self, x: Tensor, step: int) -> Tensor:
        """Scores of 16 classes by row, for pixels or for words."""
        h = self.first(x) if self.images else self.table(x)
        for layer in self.layers:
            h = layer(h, step // self.pace)
        h = h.mean((2, 3)) if self.images else h
        return self.head(h.reshape(-1, h.shape[-1]))
