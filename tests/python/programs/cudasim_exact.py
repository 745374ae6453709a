"""Training whose numbers are computed on the simulated device."""

import cudasim  # isort: skip  # before torch
import copy
import json
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as nnf
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

# mypy: disallow-untyped-calls=False, warn-return-any=False


class Block(nn.Module):
    """Attention and a perceptron, with dropout."""

    def __init__(self, width: int = 64, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
            nn.Dropout(dropout),
        )

    def forward(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        q, k, v = (
            self.qkv(self.norm1(x)).view(b, t, 3, 4, d // 4).permute(2, 0, 3, 1, 4)
        )
        y = nnf.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.norm2(x))


def train(
    device: str, mode: str, dropout: float = 0.0, **options: Any
) -> tuple[list[float], list[Tensor]]:
    """Losses and parameters after two steps of AdamW."""
    torch.manual_seed(1)
    blocks = nn.Sequential(*[Block(dropout=dropout) for _ in range(3)]).to(device)
    x = torch.randn(2, 16, 64, device="cpu").to(device)
    torch.cuda.manual_seed(5)
    optimizer = torch.optim.AdamW(blocks.parameters(), 1e-3, **options)
    losses = []
    for _ in range(2):
        h = x
        if mode == "offload":
            with torch.autograd.graph.save_on_cpu(pin_memory=True):
                h = blocks(h)
        else:
            for block in blocks:
                again = mode == "recompute"
                h = checkpoint(block, h, use_reentrant=False) if again else block(h)
        loss = h.float().pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [p.detach().cpu() for p in blocks.parameters()]


def same(
    a: tuple[list[float], list[Tensor]], b: tuple[list[float], list[Tensor]]
) -> bool:
    return a[0] == b[0] and all(map(torch.equal, a[1], b[1]))


def cpu() -> Any:
    """Compares the bits of AdamW on the device with those of AdamW on the CPU."""
    kinds: dict[str, dict[str, bool]] = {
        "loop": {"foreach": False},
        "foreach": {"foreach": True},
        "fused": {"fused": True},
    }
    torch.set_num_threads(1)
    result = {
        name: same(train("cpu", "keep", **kind), train("cuda", "keep", **kind))
        for name, kind in kinds.items()
    }
    return {"same": result, "ops": exact.ops, "broken": cudasim.broken()}


def modes() -> Any:
    """Compares the bits of three ways to train, by schedule.

    The heap is full of NaN, and so is whatever the allocator hands out again.
    """
    cudasim.set_poison(0xFF)
    torch.empty(1, device="cuda")
    exact.watch_blocks()
    result = {}
    for schedule in cudasim.SCHEDULES:
        cudasim.set_schedule(schedule)
        for dropout in (0.0, 0.2):
            kept = train("cuda", "keep", dropout)
            finite = all(bool(p.isfinite().all()) for p in kept[1])
            equal = [
                same(kept, train("cuda", mode, dropout))
                for mode in ("recompute", "offload")
            ]
            result[f"{schedule} {dropout}"] = [finite, *equal]
    return {"same": result, "broken": cudasim.broken(), "hazards": cudasim.hazards()}


class Seen(TorchDispatchMode):
    """Counts what reaches Python."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def off() -> Any:
    """Nothing is computed where exact mode is off: the control of all of this."""
    cudasim.set_poison(0xFF)
    a = torch.arange(4.0).to("cuda")
    exact.enable(False)
    without = (a * 2).cpu().isnan().all().item()
    exact.enable(True)
    return [without, (a * 2).cpu().tolist()]


def replay() -> Any:
    """A boxed call that no dispatch mode sees is computed."""
    a = torch.arange(4.0).to("cuda")
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.Python)
    keys = keys | torch._C.DispatchKeySet(torch._C.DispatchKey.PythonTLSSnapshot)
    before = exact.ops
    with Seen() as seen:
        torch.ops.aten.mul.Tensor(a, a)
        control = seen.count
        with torch._C._ExcludeDispatchKeyGuard(keys):
            b = torch.ops.aten.mul.Tensor(a, a)
        hidden = seen.count - control
    return {
        "control": control,
        "hidden": hidden,
        "ops": exact.ops - before,
        "value": b.cpu().tolist(),
    }


def refused() -> Any:
    """The error of each op that cannot be computed; then that the device mends."""
    x = torch.ones(4, 8, device="cuda")
    q = torch.ones(1, 1, 8, 8, device="cuda", dtype=torch.bfloat16)

    def flash() -> None:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            nnf.scaled_dot_product_attention(q, q, q)

    cases: dict[str, Callable[[], Any]] = {
        "nonzero": x.nonzero,
        "mask": lambda: x[x > 0],
        "equal": lambda: torch.equal(x, x),
        "flash": flash,
    }
    result: dict[str, Any] = {}
    for name, case in cases.items():
        try:
            case()
            torch.cuda.synchronize()
            result[name] = "no error"
        except RuntimeError as error:
            result[name] = str(error).splitlines()[0]
        cudasim.mend()
        torch.cuda.synchronize()
    result["after"] = (x + 1).sum().item()
    return result


def freed() -> Any:
    """Frees what another stream still writes; the device stays broken."""
    torch.empty(1, device="cuda")
    exact.watch_blocks()
    side = torch.cuda.Stream()
    x = torch.ones(4, 8, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x.mul_(2)
    del x
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return "no error"


def read_too_early(wait: bool) -> bool:
    """A side stream reads what the main one makes: whether its bytes are right."""
    x = torch.zeros(64, device="cuda")
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    x.add_(1)
    if wait:
        side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
    side.synchronize()
    torch.cuda.synchronize()
    return y.cpu().tolist() == [2.0] * 64


def overwritten_too_early(wait: bool) -> bool:
    """The main stream overwrites in place what a side one reads."""
    x = torch.ones(64, device="cuda")
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        y = x * 2
    if wait:
        torch.cuda.current_stream().wait_stream(side)
    x.zero_()
    torch.cuda.current_stream().synchronize()
    torch.cuda.synchronize()
    return y.cpu().tolist() == [2.0] * 64


def streams() -> Any:
    """For races between two kernels, the schedules whose bytes are wrong."""
    wrong: dict[str, list[str]] = {}
    for race in (read_too_early, overwritten_too_early):
        for wait in (False, True):
            name = f"{race.__name__} {'guarded' if wait else 'unguarded'}"
            wrong[name] = []
            for schedule in ("eager", "ontime", "late", "race"):
                cudasim.set_schedule(schedule)
                if not race(wait):
                    wrong[name].append(schedule)
    return wrong


def elsewhere() -> Any:
    """Numbers of other threads, other streams and another device."""
    right = []

    def work(number: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for k in range(20):
                a = torch.full((64,), float(number), requires_grad=True)
                b = a.to("cuda", non_blocking=True)
                (b * k).sin().sum().backward()
                assert a.grad is not None
                right.append(torch.allclose(a.grad, (a * k).cos().detach() * k))

    cudasim.set_schedule("random")
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    a = torch.arange(4.0, device="cuda:0")
    b = (a + 1).to("cuda:1") * torch.full((4,), 2.0, device="cuda:1")
    return [len(right), all(right), b.to("cuda:0").cpu().tolist(), cudasim.broken()]


def graph() -> Any:
    """A captured product, a freed one behind it, is computed by each replay."""
    x = torch.zeros(4, device="cuda")
    exact.watch_blocks()
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        y = (x + 1) * 2 - 2
    values = []
    for value in (1.0, 2.0):
        x.fill_(value)
        captured.replay()
        values.append(y.cpu().tolist())
    return [*values, cudasim.broken()]


def random() -> Any:
    """The same generator state gives the same numbers, whatever the op."""
    draws: list[Callable[[], Tensor]] = [
        lambda: torch.rand(100, device="cuda"),
        lambda: torch.randn(100, device="cuda"),
        lambda: torch.randint(0, 50, (100,), device="cuda"),
        lambda: torch.randperm(100, device="cuda"),
        lambda: torch.rand_like(torch.empty(100, device="cuda")),
        lambda: torch.empty(100, device="cuda").uniform_(2, 3),
        lambda: torch.empty(100, device="cuda").normal_(),
        lambda: torch.empty(100, device="cuda").exponential_(),
        lambda: torch.full((100,), 0.5, device="cuda").bernoulli(),
        lambda: nnf.dropout(torch.ones(100, device="cuda"), 0.5),
        lambda: torch.ones(100, device="cuda").multinomial(50),
    ]
    result = []
    for draw in draws:
        torch.cuda.manual_seed(3)
        first, second = draw().cpu(), draw().cpu()
        torch.cuda.manual_seed(3)
        again = draw().cpu()
        result.append([torch.equal(first, again), torch.equal(first, second)])
    dropped = nnf.dropout(torch.ones(10000, device="cuda"), 0.25).cpu()
    kept = (dropped != 0).float()
    return {
        "draws": result,
        "share": round(kept.mean().item(), 1),
        "scale": dropped.max().item(),
    }


def autocast() -> Any:
    """Autocast's inner ops are computed in half; a scaled training learns."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.Linear(16, 4))
    twin = copy.deepcopy(model).to("cuda")
    x = torch.randn(8, 16)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        y = twin(x.to("cuda"))
    near = (y.float().cpu() - model(x)).abs().max().item() < 5e-2
    optimizer = torch.optim.SGD(twin.parameters(), 0.1, momentum=0.9)
    scaler = torch.amp.grad_scaler.GradScaler("cuda", init_scale=1024.0)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = twin(x.to("cuda")).float().pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    learned = losses[-1] < losses[0] / 2
    return [str(y.dtype), near, learned, scaler.get_scale(), cudasim.broken()]


if __name__ == "__main__":
    torch.backends.cudnn.enabled = False
    exact = cudasim.Exact()
    with sdpa_kernel(SDPBackend.MATH):
        print(json.dumps(globals()[sys.argv[1]]()))
