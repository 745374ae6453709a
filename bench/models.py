"""Steps of well-known networks at a small batch, for `./dev bench planner`.

    python bench/models.py gpt2-12 --steps 6

Sizes are those of the papers; weights and data are random, since neither changes
bytes or times. The passes are those of one accumulated batch: gradients stay where
they are from one to the next, so that what backward gives back is activations, and
the optimizer steps once, at the end.
"""

import argparse
import functools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from encdec import VOCABULARY, Translator
from gpt import GPT, Shape
from unet import UNet

PIXELS = 224
CLASSES = 1000
Step = Callable[[], Tensor]


class Bottleneck(nn.Module):
    """A residual block of 1x1, 3x3 and 1x1 convolutions (He et al., 2015)."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut: nn.Module = nn.Identity()
        if inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                nn.BatchNorm2d(outputs),
            )

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        y += self.shortcut(x)
        return F.relu_(y)


def residual_network(depths: list[int]) -> nn.Sequential:
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    inputs = 64
    for stage, depth in enumerate(depths):
        width = 64 << stage
        for block in range(depth):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(Bottleneck(inputs, width, stride))
            inputs = 4 * width
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, CLASSES)]
    return nn.Sequential(*layers, *head)


class VisionTransformer(nn.Module):
    """ViT-B/16 (Dosovitskiy et al., 2020)."""

    def __init__(self, width: int = 768, layers: int = 12, patch: int = 16) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        count = (PIXELS // patch) ** 2 + 1
        self.positions = nn.Parameter(0.02 * torch.randn(1, count, width))
        layer = functools.partial(
            nn.TransformerEncoderLayer,
            *(width, width // 64, 4 * width),
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        self.layers = nn.Sequential(*(layer() for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1)
        x = self.layers(x + self.positions)
        return self.head(self.norm(x)[:, 0])


def gpt2(layers: int, length: int) -> tuple[nn.Module, Step]:
    """GPT-2 (Radford et al., 2019) of width 768."""
    shape = Shape(layers, 768, 12, batch=1, length=length, vocabulary=50257)
    model = GPT(shape)
    text = torch.randint(shape.vocabulary, (2, 1, length))
    return model, lambda: model(text[0], text[1])


def classifier(model: nn.Module, batch: int) -> tuple[nn.Module, Step]:
    images = torch.randn(batch, 3, PIXELS, PIXELS)
    labels = torch.randint(CLASSES, (batch,))
    return model, lambda: F.cross_entropy(model(images), labels)


def unet(pixels: int) -> tuple[nn.Module, Step]:
    """The U-Net of its paper: five levels, 64 to 1024 channels."""
    model = UNet(64, 5)
    images = torch.randn(1, 3, pixels, pixels)
    mask = torch.randint(2, (1, pixels, pixels))
    return model, lambda: F.cross_entropy(model(images), mask)


def encoder_decoder(batch: int, length: int) -> tuple[nn.Module, Step]:
    """Width and heads of Vaswani et al. (2017), twice their layers."""
    model = Translator(512, 8, 12, length)
    text = torch.randint(VOCABULARY, (2, batch, length))

    def step() -> Tensor:
        logits = model(text[0], text[1])
        return F.cross_entropy(logits.flatten(0, 1), text[1].flatten())

    return model, step


# Name, what is small about it, and how it is made.
MODELS: dict[str, tuple[str, Callable[[], tuple[nn.Module, Step]]]] = {
    "gpt2-12": ("batch 1, length 512", lambda: gpt2(12, 512)),
    "gpt2-48": ("batch 1, length 256", lambda: gpt2(48, 256)),
    "resnet-50": ("batch 4", lambda: classifier(residual_network([3, 4, 6, 3]), 4)),
    "resnet-101": ("batch 4", lambda: classifier(residual_network([3, 4, 23, 3]), 4)),
    "resnet-152": ("batch 4", lambda: classifier(residual_network([3, 8, 36, 3]), 4)),
    "vit-b": ("batch 4", lambda: classifier(VisionTransformer(), 4)),
    "unet-full": ("batch 1, 256 pixels", lambda: unet(256)),
    "encdec-12": ("batch 2, length 128", lambda: encoder_decoder(2, 128)),
}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("name", choices=MODELS)
    p.add_argument("--steps", type=int, default=6)
    p.add_argument("--threads", type=int, default=2)
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    model, step = MODELS[args.name][1]()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    for number in range(args.steps):
        loss = step()
        loss.backward()
        print(f"step {number} loss {loss.item():.6f}", flush=True)
    optimizer.step()


if __name__ == "__main__":
    main()
