"""The numbers of exact mode beside the CPU's: models of bench/jobs, single ops."""

import cudasim  # isort: skip  # before torch
import copy
import dataclasses
import json
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as nnf
from torch.nn.attention import SDPBackend, sdpa_kernel

import encdec
import gpt
import lstm
import resnet
import unet
import vit

# mypy: disallow-untyped-calls=False, warn-return-any=False


Job = tuple[nn.Module, Callable[[nn.Module, str], Tensor]]


def job(make: Callable[[], Job]) -> float:
    """Largest difference of the states after two steps on the CPU and here."""
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model, loss_of = make()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
    twin = copy.deepcopy(model).to("cuda")
    results = []
    for network, device in ((model, "cpu"), (twin, "cuda")):
        optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
        torch.manual_seed(2)
        with torch.device(device):
            for _ in range(2):
                loss = loss_of(network, device)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(network.parameters(), 1.0)
                optimizer.step()
        results.append([t.detach().cpu() for t in network.state_dict().values()])
    return max(
        float((a.double() - b.double()).abs().max())
        for a, b in zip(*results, strict=True)
    )


def gpt_job() -> Job:
    model = gpt.GPT(gpt.Shape(2, 32, 4, 4, 16, dropout=0.0))

    def loss(network: nn.Module, device: str) -> Tensor:
        text = torch.randint(0, 250, (4, 17), device="cpu").to(device)
        return network(text[:, :-1].contiguous(), text[:, 1:].contiguous())

    return model, loss


def translator_job() -> Job:
    width, heads, layers, _, length = encdec.SHAPES["small"]
    model = encdec.Translator(width, heads, layers, length)

    def loss(network: nn.Module, device: str) -> Tensor:
        text = torch.randint(0, 250, (4, length), device="cpu").to(device)
        return nnf.cross_entropy(network(text, text).flatten(0, 1), text.flatten())

    return model, loss


def lstm_job() -> Job:
    def loss(network: nn.Module, device: str) -> Tensor:
        text = torch.randint(0, 250, (4, 13), device="cpu").to(device)
        logits = network(text[:, :-1]).flatten(0, 1)
        return nnf.cross_entropy(logits, text[:, 1:].flatten())

    return lstm.Writer(32, 2), loss


class Gru(nn.Module):
    """As the LSTM of bench/jobs, with the other cell."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(256, 16)
        self.gru = nn.GRU(16, 256, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.gru(self.tokens(tokens))[0]


def gru_job() -> Job:
    return Gru(), lstm_job()[1]


def pictures(model: nn.Module, classes: int, pixels: int, dense: bool) -> Job:
    def loss(network: nn.Module, device: str) -> Tensor:
        x = torch.randn(2, 3, pixels, pixels, device="cpu").to(device)
        size = (2, pixels, pixels) if dense else (2,)
        wanted = torch.randint(0, classes, size, device="cpu").to(device)
        return nnf.cross_entropy(network(x), wanted)

    return model, loss


def resnet_job() -> Job:
    depths, width, _, pixels = resnet.SHAPES["small"]
    return pictures(resnet.ResNet(depths, width), 10, pixels, False)


def vit_job() -> Job:
    width, heads, layers, patch, _, pixels = vit.SHAPES["small"]
    return pictures(vit.ViT(width, heads, layers, patch, pixels), 10, pixels, False)


def jobs() -> Any:
    """Largest differences after two steps of each model of bench/jobs, small."""
    makers: dict[str, Callable[[], Job]] = {
        "gpt": gpt_job,
        "encdec": translator_job,
        "lstm": lstm_job,
        "gru": gru_job,
        "resnet": resnet_job,
        "unet": lambda: pictures(unet.UNet(8, 3), 2, 32, True),
        "vit": vit_job,
    }
    differences = {name: job(make) for name, make in makers.items()}
    return {"differences": differences, "broken": cudasim.broken()}


@dataclasses.dataclass
class Inputs:
    x: Tensor  # 6 x 8, wants a gradient
    i: Tensor  # 5 indices into its rows
    mask: Tensor  # which of its elements are positive


CASES: dict[str, Callable[[Inputs], Tensor]] = {
    "sum": lambda t: t.x.sum(0),
    "mean": lambda t: t.x.mean(),
    "max": lambda t: t.x.max(1)[0],
    "var": lambda t: t.x.var(1),
    "norm": lambda t: t.x.norm(dim=1),
    "cumsum": lambda t: t.x.cumsum(0),
    "logsumexp": lambda t: t.x.logsumexp(1),
    "index": lambda t: t.x[t.i],
    "index_add": lambda t: t.x.index_add(0, t.i, t.x[:5]),
    "index_put": lambda t: t.x.index_put((t.i,), t.x[:5], accumulate=True),
    "gather": lambda t: t.x.gather(0, t.i[:, None]),
    "scatter": lambda t: t.x.scatter_add(0, t.i[:, None].expand(5, 8), t.x[:5]),
    "where": lambda t: torch.where(t.mask, t.x, 0.0),
    "masked_fill": lambda t: t.x.masked_fill(t.mask, 2.0),
    "sort": lambda t: t.x.sort(1)[0],
    "topk": lambda t: t.x.topk(3, 1)[0],
    "cat": lambda t: torch.cat([t.x, t.x[1:]], 0),
    "stack": lambda t: torch.stack([t.x, t.x.flip(0)]),
    "pad": lambda t: nnf.pad(t.x, (1, 2)),
    "transpose": lambda t: t.x.t().contiguous(),
    "in place on a view": lambda t: t.x.clone()[1:].mul_(2),
    "matmul": lambda t: t.x @ t.x.t(),
    "einsum": lambda t: torch.einsum("ij,kj->ik", t.x, t.x),
    "layer_norm": lambda t: nnf.layer_norm(t.x, (8,)),
    "group_norm": lambda t: nnf.group_norm(t.x[:, :, None], 4),
    "batch_norm": lambda t: nnf.batch_norm(t.x, None, None, training=True),
    "batch_norm with its running statistics": lambda t: nnf.batch_norm(
        t.x, t.x.detach()[0], t.x.detach()[1].square()
    ),
    "half layer_norm": lambda t: nnf.layer_norm(
        t.x.bfloat16(), (8,), t.x[0].bfloat16(), t.x[1].bfloat16()
    ),
    "half group_norm": lambda t: nnf.group_norm(t.x.bfloat16()[:, :, None], 4),
    "half batch_norm": lambda t: nnf.batch_norm(
        t.x.bfloat16(), None, None, t.x[0].bfloat16(), training=True
    ),
    "softmax": lambda t: t.x.softmax(1),
    "log_softmax": lambda t: t.x.log_softmax(1),
    "half softmax": lambda t: t.x.bfloat16().softmax(1, torch.float32),
    "cross_entropy": lambda t: nnf.cross_entropy(t.x[:5], t.i),
    "embedding": lambda t: nnf.embedding(t.i, t.x),
    "gelu": lambda t: nnf.gelu(t.x),
    "silu": lambda t: nnf.silu(t.x),
    "conv": lambda t: nnf.conv2d(t.x[None, None], t.x[None, None, :3, :3]),
    "conv_transpose": lambda t: nnf.conv_transpose2d(
        t.x[None, None], t.x[None, None, :2, :2], stride=2
    ),
    "max_pool": lambda t: nnf.max_pool2d(t.x[None], 2),
    "avg_pool": lambda t: nnf.adaptive_avg_pool2d(t.x[None], 2),
    "interpolate": lambda t: nnf.interpolate(t.x[None, None], scale_factor=2),
    "type": lambda t: t.x.double().bfloat16().float(),
    "host scalar": lambda t: t.x * torch.tensor(2.0, dtype=torch.float64),
}


def ops() -> Any:
    """Single ops and their gradients: those whose bits differ from the CPU's."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    x = torch.randn(6, 8)
    i = torch.randint(0, 6, (5,))
    mask = x > 0
    differ = []
    for name, case in CASES.items():
        results = []
        for device in ("cpu", "cuda"):
            leaf = x.detach().to(device, copy=True).requires_grad_()
            y = case(Inputs(leaf, i.to(device), mask.to(device)))
            y.float().pow(2).sum().backward()
            assert leaf.grad is not None
            results.append((y.detach().cpu(), leaf.grad.cpu(), y.dtype))
        (y0, g0, t0), (y1, g1, t1) = results
        if not (torch.equal(y0, y1) and torch.equal(g0, g1) and t0 == t1):
            differ.append(name)
        if cudasim.broken():
            differ.append(f"{name}: {cudasim.broken()}")
            cudasim.mend()
    return {"cases": len(CASES), "differ": differ}


if __name__ == "__main__":
    torch.backends.cudnn.enabled = False
    exact = cudasim.Exact()
    with sdpa_kernel(SDPBackend.MATH):
        print(json.dumps(globals()[sys.argv[1]]()))
