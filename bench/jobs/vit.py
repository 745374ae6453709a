"""A small vision transformer (Dosovitskiy et al., 2020) on generated images."""

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from common import Log, checkpointed, parser, start
from resnet import CLASSES, images

# width, heads, layers, patch, batch, pixels
SHAPES = {"small": (32, 2, 2, 8, 4, 32), "full": (192, 3, 6, 8, 12, 96)}


class ViT(nn.Module):
    def __init__(
        self, width: int, heads: int, layers: int, patch: int, pixels: int
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        count = (pixels // patch) ** 2 + 1
        self.positions = nn.Parameter(0.02 * torch.randn(1, count, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                *(width, heads, 4 * width),
                activation="gelu",
                batch_first=True,
                norm_first=True,
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x[:, 0]))


def train(args: argparse.Namespace) -> None:
    width, heads, layers, patch, batch, pixels = SHAPES[args.size]
    batch = args.batch or batch
    model = ViT(width, heads, layers, patch, pixels).to(args.device)
    if args.checkpoint:
        for layer in model.layers:
            checkpointed(layer)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    log = Log()
    for _ in range(args.steps):
        log.begin()
        x, labels = (t.to(args.device) for t in images(batch, pixels))
        loss = F.cross_entropy(model(x), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        log.step(loss.item())
    log.finish(model, optimizer)


if __name__ == "__main__":
    train(start(parser(__doc__, steps=12)))
