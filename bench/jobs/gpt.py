"""A GPT that learns to write Python from the standard library's sources."""

import argparse
import dataclasses

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from common import Log, checkpointed, parser, standard_library_text, start, text_batch


@dataclasses.dataclass
class Shape:
    layers: int
    width: int
    heads: int
    batch: int
    length: int
    dropout: float = 0.1
    vocabulary: int = 256


SHAPES = {
    "small": Shape(layers=3, width=64, heads=4, batch=4, length=64),
    "full": Shape(layers=6, width=256, heads=4, batch=8, length=192),
}

FOREACH = {None: None, "yes": True, "no": False}


class Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.dropout = shape.dropout
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.project = nn.Linear(shape.width, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=2)
        )
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        y = y.transpose(1, 2).reshape(batch, length, width)
        return F.dropout(self.project(y), self.dropout, self.training)


class Block(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(shape.width)
        self.attention = Attention(shape)
        self.norm2 = nn.LayerNorm(shape.width)
        self.mlp = nn.Sequential(
            nn.Linear(shape.width, 4 * shape.width),
            nn.GELU(),
            nn.Linear(4 * shape.width, shape.width),
            nn.Dropout(shape.dropout),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.length, shape.width)
        self.dropout = nn.Dropout(shape.dropout)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        self.apply(self._initialise)

    def _initialise(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.tokens(tokens) + self.positions(positions))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def evaluate(model: GPT, text: Tensor, shape: Shape, device: str) -> float:
    model.eval()
    with torch.no_grad():
        loss = model(*text_batch(text, shape.batch, shape.length, device))
    model.train()
    return loss.item()


def train(args: argparse.Namespace) -> None:
    shape = SHAPES[args.size]
    shape = dataclasses.replace(
        shape, batch=args.batch or shape.batch, width=args.width or shape.width
    )
    text = standard_library_text()
    held_out = len(text) // 10
    training, validation = text[:-held_out], text[-held_out:]
    model = GPT(shape).to(args.device)
    if args.checkpoint:
        for block in model.blocks:
            checkpointed(block)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-3, weight_decay=0.1, foreach=FOREACH[args.foreach]
    )
    log = Log()
    for step in range(args.steps):
        log.begin()
        total = 0.0
        for _ in range(args.accumulate):
            batch = text_batch(training, shape.batch, shape.length, args.device)
            loss = model(*batch)
            loss = loss / args.accumulate
            loss.backward()
            total += loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        log.step(total)
        if step % args.evaluate_every == args.evaluate_every - 1:
            log.evaluation(evaluate(model, validation, shape, args.device))
    log.finish(model, optimizer)


if __name__ == "__main__":
    p = parser(__doc__, steps=20)
    p.add_argument(
        "--accumulate", type=int, default=1, help="passes per optimizer step"
    )
    p.add_argument("--evaluate-every", type=int, default=5)
    p.add_argument("--width", type=int, default=None, help="default that of the size")
    p.add_argument(
        "--foreach",
        choices=["yes", "no"],
        default=None,
        help="whether the optimizer works on lists; PyTorch's default else",
    )
    train(start(p))
