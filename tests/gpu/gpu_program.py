"""A small training on a CUDA device: prints its bits and its peaks as JSON.

    gpu_program.py CASE STEPS

Needs torch, and ebbtide where the environment asks for it.
"""

import contextlib
import hashlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as nnf
from torch.nn.attention import SDPBackend, sdpa_kernel

# mypy: disallow-untyped-calls=False, warn-return-any=False

# Tiny ones are for a device that computes slowly.
TINY = os.environ.get("EBBTIDE_GPU_TESTS_SIZE") == "tiny"
BATCH, LENGTH, WIDTH, HEADS, DEPTH = (
    (16, 256, 128, 4, 16) if TINY else (16, 512, 768, 12, 8)
)

# Products in many small pieces are what takes longest there.
SENTENCES = 4 if TINY else BATCH

Loss = Callable[[], Tensor]


class Attention(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.wide = nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            part.view(*part.shape[:2], HEADS, -1).transpose(1, 2)
            for part in self.qkv(self.norm(x)).chunk(3, dim=2)
        )
        y = nnf.scaled_dot_product_attention(
            q, k, v, dropout_p=self.dropout, is_causal=True
        )
        x = x + y.transpose(1, 2).reshape(x.shape)
        return x + self.narrow(nnf.gelu(self.wide(x)))


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        return nnf.relu(x + self.body(x))


def attention(dtype: torch.dtype, dropout: float) -> tuple[nn.Module, Loss]:
    model = nn.Sequential(*[Attention(dropout) for _ in range(DEPTH)])
    model = model.to(dtype)
    x = torch.randn(SENTENCES, LENGTH, WIDTH, dtype=dtype)
    return model, lambda: model(x).float().square().mean()


def gemm() -> tuple[nn.Module, Loss]:
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(DEPTH)]
    model = nn.Sequential(*layers).to(torch.bfloat16)
    x = torch.randn(BATCH * LENGTH, WIDTH, dtype=torch.bfloat16)
    return model, lambda: model(x).float().square().mean()


def autocast() -> tuple[nn.Module, Loss]:
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(DEPTH)]
    model = nn.Sequential(*layers)
    x = torch.randn(BATCH * LENGTH, WIDTH)

    def loss() -> Tensor:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return model(x).float().square().mean()

    return model, loss


def convolutions() -> tuple[nn.Module, Loss]:
    channels, side = (8, 16) if TINY else (64, 112)
    model = nn.Sequential(*[Residual(channels) for _ in range(DEPTH)])
    x = torch.randn(BATCH, channels, side, side)
    return model, lambda: model(x).square().mean()


def with_backend(backend: SDPBackend, dtype: torch.dtype, dropout: float) -> Any:
    return lambda: (attention(dtype, dropout), sdpa_kernel(backend))


def plain(make: Callable[[], tuple[nn.Module, Loss]]) -> Any:
    return lambda: (make(), contextlib.nullcontext())


HALF, FLOAT = torch.bfloat16, torch.float32
CASES: dict[str, Any] = {
    "attention_flash": with_backend(SDPBackend.FLASH_ATTENTION, HALF, 0.1),
    "attention_efficient": with_backend(SDPBackend.EFFICIENT_ATTENTION, HALF, 0.1),
    "attention_math": with_backend(SDPBackend.MATH, FLOAT, 0.0),
    "convolutions": plain(convolutions),
    "gemm_bf16": plain(gemm),
    "gemm_autocast": plain(autocast),
}


def bits(tensors: Iterable[Tensor]) -> str:
    digest = hashlib.sha256()
    for tensor in tensors:
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def peaks() -> dict[str, int]:
    """Peaks of the step since the last call, in bytes."""
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    torch.cuda.reset_peak_memory_stats()
    return {
        "allocated": stats["allocated_bytes.all.peak"],
        "reserved": stats["reserved_bytes.all.peak"],
    }


def report() -> dict[str, Any]:
    if importlib.util.find_spec("ebbtide") is None:
        return {}
    import ebbtide

    return ebbtide.report()


def train(case: str, steps: int) -> dict[str, Any]:
    torch.manual_seed(1)
    # With warn_only the backward of flash and efficient attention adds atomically.
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    # The host would draw their numbers for seconds.
    with torch.device("cuda"):
        (model, loss_of), context = CASES[case]()
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    found: dict[str, Any] = {"bits": [], "peaks": []}
    with context:
        for _ in range(steps):
            loss = loss_of()
            loss.backward()
            grads = [p.grad for p in model.parameters() if p.grad is not None]
            found["bits"].append(bits([loss, *grads]))
            optimizer.step()
            optimizer.zero_grad()
            found["peaks"].append(peaks())
    found["bits"].append(bits([*model.state_dict().values(), torch.rand(4).cuda()]))
    return found


def main() -> None:
    found = train(sys.argv[1], int(sys.argv[2]))
    device = {"name": torch.cuda.get_device_name(), "torch": torch.__version__}
    print(json.dumps({**found, "report": report(), **device}))


if __name__ == "__main__":
    main()
