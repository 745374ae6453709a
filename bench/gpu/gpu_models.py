"""A GPT of about a billion parameters, and ResNet-152."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclasses.dataclass
class Task:
    """The computation of one step: the model, its blocks in order, and the loss."""

    model: nn.Module
    blocks: Sequence[nn.Module]  # the blocks that checkpointing recomputes
    loss: Callable[[], Tensor]


@contextlib.contextmanager
def made_on_device(dtype: torch.dtype) -> Iterator[None]:
    """The host would draw a billion numbers for half a minute."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    with torch.device("cuda"):
        yield
    torch.set_default_dtype(usual)


@dataclasses.dataclass(frozen=True)
class GptShape:
    layers: int = 24
    width: int = 1792
    heads: int = 14
    vocabulary: int = 50304
    batch: int = 8
    length: int = 1024


class GptBlock(nn.Module):
    def __init__(self, shape: GptShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.norm1 = nn.LayerNorm(shape.width)
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.project = nn.Linear(shape.width, shape.width)
        self.norm2 = nn.LayerNorm(shape.width)
        self.wide = nn.Linear(shape.width, 4 * shape.width)
        self.narrow = nn.Linear(4 * shape.width, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            part.view(*part.shape[:2], self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).chunk(3, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(y.transpose(1, 2).reshape(x.shape))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, shape: GptShape) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.length, shape.width)
        self.blocks = nn.ModuleList(GptBlock(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x)).float()
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def gpt(shape: GptShape) -> Task:
    with made_on_device(torch.bfloat16):
        model = Gpt(shape)
        rows = torch.randint(shape.vocabulary, (shape.batch, shape.length + 1))
    tokens, targets = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
    return Task(model, list(model.blocks), lambda: model(tokens, targets))


@dataclasses.dataclass(frozen=True)
class ResNetShape:
    depths: tuple[int, ...] = (3, 8, 36, 3)
    width: int = 64
    classes: int = 1000
    batch: int = 96
    side: int = 224


class Bottleneck(nn.Module):
    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.body = nn.Sequential(
            *(nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width)),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, padding=1, bias=False),
            *(nn.BatchNorm2d(width), nn.ReLU(inplace=True)),
            *(nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out)),
        )
        self.shortcut = nn.Sequential()
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, shape: ResNetShape) -> None:
        super().__init__()
        width = shape.width
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, padding=3, bias=False),
            *(nn.BatchNorm2d(width), nn.ReLU(inplace=True)),
            nn.MaxPool2d(3, 2, padding=1),
        )
        self.blocks = nn.ModuleList()
        channels = width
        for stage, depth in enumerate(shape.depths):
            for place in range(depth):
                stride = 2 if stage > 0 and place == 0 else 1
                self.blocks.append(Bottleneck(channels, width << stage, stride))
                channels = 4 * (width << stage)
        self.head = nn.Linear(channels, shape.classes)

    def forward(self, images: Tensor, classes: Tensor) -> Tensor:
        x = self.stem(images)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(x.mean((2, 3))), classes)


def resnet(shape: ResNetShape) -> Task:
    with made_on_device(torch.float32):
        model = ResNet(shape)
        images = torch.randn(shape.batch, 3, shape.side, shape.side)
        classes = torch.randint(shape.classes, (shape.batch,))
    return Task(model, list(model.blocks), lambda: model(images, classes))


TASKS: dict[str, Callable[[], Task]] = {
    "gpt-1b": lambda: gpt(GptShape()),
    "resnet-152": lambda: resnet(ResNetShape()),
}
TINY: dict[str, Callable[[], Task]] = {
    "gpt-1b": lambda: gpt(GptShape(6, 256, 4, 1024, 8, 128)),
    "resnet-152": lambda: resnet(ResNetShape((1, 1, 1, 1), 8, 10, 2, 32)),
}
