"""The models of `./dev bench coverage`, at sizes that train in a second or two.

GPT-2 is the one of the package transformers, with random weights; the networks of
bench/models.py and bench/jobs appear at smaller sizes. The models written out here are
those whose forward is not a row of equal blocks: gated scans, routing by data, messages
along the edges of a graph.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import lstm
import models
from encdec import VOCABULARY, Translator
from unet import UNet


@dataclasses.dataclass
class Case:
    """A model, the tensors that one step is given, and that step."""

    model: nn.Module
    inputs: list[Tensor]
    loss: Callable[[], Tensor]


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Rotary embedding (Su et al., 2021): halves of a head as pairs."""
    a, b = x.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class GroupedAttention(nn.Module):
    """Attention whose heads share keys and values in groups (GQA)."""

    def __init__(self, width: int, heads: int, groups: int) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.query = nn.Linear(width, width, bias=False)
        self.key_value = nn.Linear(width, 2 * groups * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        batch, length, width = x.shape
        q = self.query(x).view(batch, length, self.heads, self.size).transpose(1, 2)
        pair = self.key_value(x).view(batch, length, 2 * self.groups, self.size)
        k, v = pair.transpose(1, 2).chunk(2, dim=1)
        repeat = self.heads // self.groups
        k = rotate(k, angles).repeat_interleave(repeat, dim=1)
        v = v.repeat_interleave(repeat, dim=1)
        y = F.scaled_dot_product_attention(rotate(q, angles), k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class GatedMLP(nn.Module):
    """SwiGLU (Shazeer, 2020)."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    """A mixture of gated MLPs; each token goes to the best `top` of them."""

    def __init__(self, width: int, inner: int, count: int, top: int) -> None:
        super().__init__()
        self.top = top
        self.router = nn.Linear(width, count, bias=False)
        self.experts = nn.ModuleList(GatedMLP(width, inner) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, 1)
        weights, chosen = self.router(tokens).softmax(-1).topk(self.top, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        y = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            token, slot = torch.where(chosen == number)
            out = expert(tokens[token]) * weights[token, slot, None]
            y.index_add_(0, token, out)
        return y.view_as(x)


class Llama(nn.Module):
    """The architecture of Touvron et al. (2023), dense or with experts."""

    def __init__(self, width: int, layers: int, experts: int = 0) -> None:
        super().__init__()
        heads, inner = width // 32, 8 * width // 3
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.attention = nn.ModuleList(
            GroupedAttention(width, heads, heads // 4) for _ in range(layers)
        )
        self.mlp = nn.ModuleList(
            Experts(width, inner // 2, experts, 2)
            if experts
            else GatedMLP(width, inner)
            for _ in range(layers)
        )
        self.norms = nn.ModuleList(RMSNorm(width) for _ in range(2 * layers + 1))
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        frequencies = 10000 ** -torch.linspace(0, 1, 17)[:16]
        self.register_buffer("frequencies", frequencies, persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens)
        positions = torch.arange(tokens.shape[1])
        angles = torch.outer(positions.float(), self.get_buffer("frequencies"))
        norms = iter(self.norms)
        for attention, mlp in zip(self.attention, self.mlp, strict=True):
            x = x + attention(next(norms)(x), angles)
            x = x + mlp(next(norms)(x))
        return self.head(next(norms)(x))


class Scan(nn.Module):
    """A selective state space layer in the manner of Gu and Dao (2023).

    The state h[t] = a[t] h[t-1] + b[t] is computed step by step, or for all steps at
    once as exp(c) * cumsum(b exp(-c)) with c the running sum of log a.
    """

    def __init__(self, width: int, states: int, parallel: bool) -> None:
        super().__init__()
        self.parallel, self.states = parallel, states
        self.norm = RMSNorm(width)
        self.inner = nn.Linear(width, 2 * width, bias=False)
        self.step = nn.Linear(width, width)
        self.project = nn.Linear(width, 2 * states, bias=False)
        self.decay = nn.Parameter(torch.linspace(0, 1, states).repeat(width, 1))
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        u, gate = self.inner(self.norm(x)).chunk(2, dim=-1)
        delta = F.softplus(self.step(u)).unsqueeze(-1) * 0.1
        b, c = self.project(u).unsqueeze(2).split(self.states, dim=-1)
        log_a = -delta * self.decay.exp()
        states = self.scan(log_a, delta * b * u.unsqueeze(-1))
        y = (states * c).sum(-1)
        return x + self.out(y * F.silu(gate))

    def scan(self, log_a: Tensor, b: Tensor) -> Tensor:
        if self.parallel:
            total = log_a.cumsum(1)
            return total.exp() * (b * torch.exp(-total)).cumsum(1)
        h = torch.zeros_like(b[:, 0])
        states = []
        for a_t, b_t in zip(log_a.exp().unbind(1), b.unbind(1), strict=True):
            h = a_t * h + b_t
            states.append(h)
        return torch.stack(states, dim=1)


class StateSpace(nn.Module):
    def __init__(self, width: int, layers: int, parallel: bool) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.layers = nn.Sequential(*(Scan(width, 16, parallel) for _ in range(layers)))
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.layers(self.tokens(tokens)))


class Messages(nn.Module):
    """One round of messages: gathered along edges, summed where they arrive."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.message = nn.Sequential(
            nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width)
        )
        self.update = nn.GRUCell(width, width)

    def forward(self, x: Tensor, source: Tensor, target: Tensor) -> Tensor:
        ends = [x.index_select(0, source), x[target]]
        messages = self.message(torch.cat(ends, dim=-1))
        where = target.unsqueeze(-1).expand_as(messages)
        arrived = torch.zeros_like(x).scatter_add(0, where, messages)
        degree = torch.bincount(target, minlength=len(x)).clamp(min=1).unsqueeze(-1)
        return self.update(arrived / degree, x)


class GraphNet(nn.Module):
    def __init__(self, features: int, width: int, rounds: int) -> None:
        super().__init__()
        self.encode = nn.Linear(features, width)
        self.rounds = nn.ModuleList(Messages(width) for _ in range(rounds))
        self.decode = nn.Linear(width, 8)

    def forward(self, x: Tensor, source: Tensor, target: Tensor) -> Tensor:
        x = self.encode(x).relu()
        for messages in self.rounds:
            x = messages(x, source, target)
        return self.decode(x)


def classifier(model: nn.Module, pixels: int, batch: int) -> Case:
    images = torch.randn(batch, 3, pixels, pixels)
    labels = torch.randint(models.CLASSES, (batch,))
    return Case(model, [images, labels], lambda: F.cross_entropy(model(images), labels))


def language(model: nn.Module, vocabulary: int, batch: int, length: int) -> Case:
    """The next token of a text from those before it."""
    text = torch.randint(vocabulary, (batch, length + 1))
    tokens, wanted = text[:, :-1].contiguous(), text[:, 1:].contiguous()

    def loss() -> Tensor:
        return F.cross_entropy(model(tokens).flatten(0, 1), wanted.flatten())

    return Case(model, [tokens, wanted], loss)


def gpt2() -> Case:
    # Takes as long to import as torch.
    from transformers import GPT2Config, GPT2LMHeadModel

    shape = GPT2Config(n_layer=4, n_embd=256, n_head=4, loss_type="ForCausalLM")
    model = GPT2LMHeadModel(shape)
    text = torch.randint(shape.vocab_size, (2, 128))
    held: list[Any] = []

    def loss() -> Tensor:
        # As the loops in its manual do: logits and cache live as long as this.
        held[:] = [model(text, labels=text)]
        return held[0].loss

    return Case(model, [text], loss)


def unet() -> Case:
    model = UNet(32, 4)
    images = torch.randn(2, 3, 128, 128)
    mask = torch.randint(2, (2, 128, 128))
    return Case(model, [images, mask], lambda: F.cross_entropy(model(images), mask))


def encoder_decoder() -> Case:
    model = Translator(256, 4, 3, 64)
    source, target = torch.randint(VOCABULARY, (2, 8, 64))

    def loss() -> Tensor:
        logits = model(source, target)
        return F.cross_entropy(logits.flatten(0, 1), target.flatten())

    return Case(model, [source, target], loss)


def graph_net() -> Case:
    nodes, edges = 2000, 16000
    model = GraphNet(32, 64, 4)
    x = torch.randn(nodes, 32)
    source, target = torch.randint(nodes, (2, edges))
    labels = torch.randint(8, (nodes,))
    return Case(
        model,
        [x, source, target, labels],
        lambda: F.cross_entropy(model(x, source, target), labels),
    )


CASES: dict[str, Callable[[], Case]] = {
    "GPT-2 (transformers)": gpt2,
    "Llama-style": lambda: language(Llama(256, 4), VOCABULARY, 4, 128),
    "ViT": lambda: classifier(models.VisionTransformer(384, 6), models.PIXELS, 4),
    "ResNet-50": lambda: classifier(
        models.residual_network([3, 4, 6, 3]), models.PIXELS, 2
    ),
    "U-Net": unet,
    "encoder-decoder": encoder_decoder,
    "LSTM": lambda: language(lstm.Writer(256, 2), 256, 16, 128),
    "mixture of experts": lambda: language(Llama(256, 2, 8), VOCABULARY, 8, 128),
    "state space, step by step": lambda: language(
        StateSpace(256, 2, parallel=False), VOCABULARY, 8, 64
    ),
    "state space, by sums": lambda: language(
        StateSpace(256, 2, parallel=True), VOCABULARY, 8, 64
    ),
    "graph net": graph_net,
}
