"""Settings of PyTorch that differ between forward and backward."""

from typing import Any

import torch
from torch import Tensor, nn

from programs.trial import Trial, data

# mypy: disallow-untyped-calls=False


mkldnn: Any = torch.backends.mkldnn


def global_settings(t: Trial) -> None:
    """Settings that kernels read, other ones in backward than in forward."""
    torch.manual_seed(1)
    conv = nn.Conv2d(16, 16, 3, padding=1)
    x = data(4, 16, 32, 32)

    def finish(label: str, h: Tensor) -> None:
        t.gradients(label, (h.exp() * h.sin()).mean(), conv.parameters())

    with torch.backends.mkldnn.flags(enabled=False):
        h = conv(conv(x).tanh()).tanh()
    finish("mkldnn", h)
    torch.set_flush_denormal(True)
    h = conv(x * 1e-38).mul(1e-2).tanh().mul(1e20)
    torch.set_flush_denormal(False)
    finish("denormals", h)
    torch.set_default_dtype(torch.float64)
    h = conv(x).double() * torch.ones(4, 16, 32, 32).exp()
    torch.set_default_dtype(torch.float32)
    finish("default dtype", h.tanh())
    torch.set_float32_matmul_precision("medium")
    h = torch.mm(conv(x).view(256, 256).tanh(), conv(x).view(256, 256)).tanh()
    torch.set_float32_matmul_precision("highest")
    finish("precision", h)
    mkldnn.fp32_precision = "bf16"
    h = torch.mm(conv(x).view(256, 256).tanh(), conv(x).view(256, 256)).tanh()
    mkldnn.fp32_precision = "none"
    finish("inherited precision", h)
    torch.use_deterministic_algorithms(True, warn_only=True)
    with torch.backends.mkldnn.flags(enabled=True, deterministic=True):
        h = conv(x).index_add(0, torch.tensor([0, 0]), x[:2]).tanh()
    torch.use_deterministic_algorithms(False)
    finish("deterministic", h)
    t.note("as before", *settings())


def settings() -> list[object]:
    """The settings that the script sees, and that an inherited precision still
    follows."""
    seen: list[object] = [
        torch.backends.mkldnn.enabled,
        torch.backends.mkldnn.deterministic,
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.get_default_dtype(),
        torch.get_float32_matmul_precision(),
        (torch.tensor(1e-38) * 1e-2).item(),
    ]
    for precision in ("tf32", "none"):
        mkldnn.fp32_precision = precision
        seen += [mkldnn.matmul.fp32_precision, mkldnn.conv.fp32_precision]
    return seen


def thread_count_changes(t: Trial) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(512, 512), nn.Tanh(), nn.LayerNorm(512))
    x = data(512, 512)
    for forward, backward in ((1, 2), (2, 1), (2, 2)):
        torch.set_num_threads(forward)
        h = model(x)
        loss = (h.exp() * h.softmax(0)).sum() + h.var(0).sum()
        torch.set_num_threads(backward)
        t.gradients(f"{forward} {backward}", loss, model.parameters())
        t.note("threads", torch.get_num_threads())
