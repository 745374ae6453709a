"""A residual network (He et al., 2015) on generated images with labels."""

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from common import Log, checkpointed, parser, start

CLASSES = 100
# blocks per stage, width of the first stage, batch, pixels
SHAPES = {"small": ([1, 1, 1, 1], 16, 4, 32), "full": ([2, 2, 2, 2], 64, 16, 96)}


class Residual(nn.Module):
    """Two 3x3 convolutions and a way round them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                nn.BatchNorm2d(outputs),
            )

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        y += self.shortcut(x)
        return self.relu(y)


class ResNet(nn.Module):
    def __init__(self, depths: list[int], width: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        )
        self.blocks = nn.ModuleList()
        inputs = width
        for stage, depth in enumerate(depths):
            outputs = width << stage
            for block in range(depth):
                stride = 2 if stage > 0 and block == 0 else 1
                self.blocks.append(Residual(inputs, outputs, stride))
                inputs = outputs
        self.head = nn.Linear(inputs, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


def images(batch: int, pixels: int) -> tuple[Tensor, Tensor]:
    """Noise over stripes whose direction and spacing give the class."""
    labels = torch.randint(CLASSES, (batch,))
    line = torch.linspace(0, 1, pixels)
    spacing = (1 + labels % 10).view(-1, 1, 1)
    angle = (labels // 10).view(-1, 1, 1) * 0.157
    wave = spacing * (line * angle.cos() + line.view(-1, 1) * angle.sin())
    clean = (6.283 * wave).sin().unsqueeze(1)
    return clean + 0.5 * torch.randn(batch, 3, pixels, pixels), labels


def train(args: argparse.Namespace) -> None:
    depths, width, batch, pixels = SHAPES[args.size]
    batch = args.batch or batch
    model = ResNet(args.depths or depths, width).to(args.device)
    if args.checkpoint:
        for block in model.blocks:
            checkpointed(block)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    log = Log()
    for _ in range(args.steps):
        log.begin()
        x, labels = (t.to(args.device) for t in images(batch, pixels))
        loss = F.cross_entropy(model(x), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        log.step(loss.item())
    log.finish(model, optimizer)


if __name__ == "__main__":
    p = parser(__doc__, steps=12)
    p.add_argument("--depths", type=int, nargs=4, help="blocks of each stage")
    train(start(p))
