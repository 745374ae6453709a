"""A character-level LSTM on the standard library's sources."""

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from common import Log, checkpointed, parser, standard_library_text, start, text_batch

# width, layers, batch, length
SHAPES = {"small": (32, 2, 4, 24), "full": (320, 3, 16, 128)}


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.lstm(x)
        return self.dropout(y)


class Writer(nn.Module):
    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(256, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.head = nn.Linear(width, 256)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def train(args: argparse.Namespace) -> None:
    width, layers, batch, length = SHAPES[args.size]
    batch = args.batch or batch
    text = standard_library_text()
    model = Writer(width, layers).to(args.device)
    if args.checkpoint:
        for layer in model.layers:
            checkpointed(layer)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    log = Log()
    for _ in range(args.steps):
        log.begin()
        tokens, targets = text_batch(text, batch, length, args.device)
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        log.step(loss.item())
    log.finish(model, optimizer)


if __name__ == "__main__":
    train(start(parser(__doc__, steps=12)))
