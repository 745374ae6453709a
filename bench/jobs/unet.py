"""A U-Net (Ronneberger et al., 2015) that finds discs in noisy images."""

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from common import Log, checkpointed, parser, start

# width of the first level, levels, batch, pixels
SHAPES = {"small": (8, 3, 2, 32), "full": (32, 4, 4, 112)}


class Double(nn.Sequential):
    """Two convolutions, each with batch norm and ReLU."""

    def __init__(self, inputs: int, outputs: int) -> None:
        layers: list[nn.Module] = []
        for channels in (inputs, outputs):
            layers += [
                nn.Conv2d(channels, outputs, 3, padding=1, bias=False),
                nn.BatchNorm2d(outputs),
                nn.ReLU(inplace=True),
            ]
        super().__init__(*layers)


class UNet(nn.Module):
    def __init__(self, width: int, levels: int) -> None:
        super().__init__()
        widths = [width << level for level in range(levels)]
        self.down = nn.ModuleList(
            Double(a, b) for a, b in zip([3, *widths], widths, strict=False)
        )
        self.raise_ = nn.ModuleList()
        self.up = nn.ModuleList()
        for low, high in zip(widths[:0:-1], widths[-2::-1], strict=True):
            self.raise_.append(nn.ConvTranspose2d(low, high, 2, 2))
            self.up.append(Double(2 * high, high))
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for level, block in enumerate(self.down):
            if level:
                x = F.max_pool2d(x, 2)
            x = block(x)
            skips.append(x)
        skips.pop()
        for enlarge, block in zip(self.raise_, self.up, strict=True):
            x = block(torch.cat([skips.pop(), enlarge(x)], dim=1))
        return self.head(x)


def scenes(batch: int, pixels: int) -> tuple[Tensor, Tensor]:
    """Images with one bright disc each, and the disc as a mask."""
    line = torch.linspace(-1, 1, pixels)
    centre = torch.rand(batch, 2) - 0.5
    radius = 0.2 + 0.3 * torch.rand(batch, 1, 1)
    dx = line.view(1, 1, -1) - centre[:, 0].view(-1, 1, 1)
    dy = line.view(1, -1, 1) - centre[:, 1].view(-1, 1, 1)
    mask = (dx * dx + dy * dy < radius * radius).long()
    return mask.unsqueeze(1) + torch.randn(batch, 3, pixels, pixels), mask


def train(args: argparse.Namespace) -> None:
    width, levels, batch, pixels = SHAPES[args.size]
    batch = args.batch or batch
    model = UNet(width, levels).to(args.device)
    if args.checkpoint:
        for block in [*model.down, *model.up]:
            checkpointed(block)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    log = Log()
    for _ in range(args.steps):
        log.begin()
        x, mask = (t.to(args.device) for t in scenes(batch, pixels))
        loss = F.cross_entropy(model(x), mask)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        log.step(loss.item())
    log.finish(model, optimizer)


if __name__ == "__main__":
    train(start(parser(__doc__, steps=12)))
