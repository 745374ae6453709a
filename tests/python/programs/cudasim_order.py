"""Order, time, peaks and faults of the simulated device, without its numbers."""

import cudasim  # isort: skip  # before torch
import ctypes
import gc
import json
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as nnf
from torch.utils.checkpoint import checkpoint

# mypy: disallow-untyped-calls=False, warn-return-any=False

SIZE = 4 << 20
MIB = 1 << 20
# Functions that a @ a may call, by PyTorch's version.
PRODUCTS = ("cublasSgemm_v2", "cublasGemmEx", "cublasLtMatmul")


def write(t: Tensor, byte: int) -> None:
    """Fills `t` in the order of the current stream."""
    stream = torch.cuda.current_stream().cuda_stream
    place, size = ctypes.c_void_p(t.data_ptr()), ctypes.c_size_t(t.numel())
    error = cudasim.runtime.cudaMemsetAsync(place, byte, size, ctypes.c_void_p(stream))
    assert error == 0


def offload(guard: str) -> bool:
    """Copies x out on a side stream; then x's block is used again."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()
    h = torch.zeros(SIZE, dtype=torch.uint8, pin_memory=True)
    x = torch.empty(SIZE, dtype=torch.uint8, device="cuda")
    write(x, 7)
    side.wait_stream(main)
    with torch.cuda.stream(side):
        h.copy_(x, non_blocking=True)
    done = side.record_event()
    if guard == "record_stream":
        x.record_stream(side)
    if guard == "wait":
        main.wait_event(done)
    del x
    y = torch.empty(SIZE, dtype=torch.uint8, device="cuda")
    write(y, 9)
    main.synchronize()
    done.synchronize()
    return bool((h == 7).all())


def prefetch(guard: str) -> bool:
    """Copies x in on a side stream; the main stream reads it."""
    torch.cuda.synchronize()
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()
    h = torch.full((SIZE,), 5, dtype=torch.uint8, pin_memory=True)
    x = torch.empty(SIZE, dtype=torch.uint8, device="cuda")
    write(x, 0)
    side.wait_stream(main)
    with torch.cuda.stream(side):
        x.copy_(h, non_blocking=True)
    if guard == "wait":
        main.wait_stream(side)
    out = torch.empty(SIZE, dtype=torch.uint8, pin_memory=True)
    out.copy_(x, non_blocking=True)
    main.synchronize()
    torch.cuda.synchronize()
    return bool((out == 5).all())


def host_reuse(guard: str) -> bool:
    """Overwrites a pinned source behind an asynchronous copy from it."""
    torch.cuda.synchronize()
    h = torch.full((SIZE,), 5, dtype=torch.uint8, pin_memory=True)
    x = torch.empty(SIZE, dtype=torch.uint8, device="cuda")
    x.copy_(h, non_blocking=True)
    if guard == "wait":
        torch.cuda.synchronize()
    h.fill_(1)
    return bool((x.cpu() == 5).all())


def order() -> Any:
    """For each race and guard, the schedules under which the bytes are wrong."""
    races: list[tuple[Callable[[str], bool], tuple[str, ...]]] = [
        (offload, ("none", "record_stream", "wait")),
        (prefetch, ("none", "wait")),
        (host_reuse, ("none", "wait")),
    ]
    wrong: dict[str, list[str]] = {}
    for race, guards in races:
        for guard in guards:
            wrong[f"{race.__name__} {guard}"] = []
            for schedule in ("eager", "ontime", "late"):
                cudasim.set_schedule(schedule)
                if not race(guard):
                    wrong[f"{race.__name__} {guard}"].append(schedule)
    return wrong


def overlap() -> Any:
    """Virtual milliseconds of a copy beside 800 kernels, and one after them."""
    cudasim.set_schedule("ontime")

    def measure(serial: bool) -> float:
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        side, main = torch.cuda.Stream(), torch.cuda.current_stream()
        big = torch.empty(100_000_000, dtype=torch.uint8, device="cuda")
        h = torch.empty(100_000_000, dtype=torch.uint8, pin_memory=True)
        z = torch.zeros(8, device="cuda")
        torch.cuda.synchronize()
        begin.record()
        side.wait_event(begin)
        with torch.cuda.stream(side):
            h.copy_(big, non_blocking=True)
        if serial:
            main.wait_stream(side)
        for _ in range(800):
            z.add_(1)
        main.wait_stream(side)
        end.record()
        end.synchronize()
        return round(begin.elapsed_time(end), 2)

    measure(False)
    return [measure(serial) for serial in (False, True, False, True)]


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, 4, d // 4).permute(2, 0, 3, 1, 4)
        y = nnf.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + y.transpose(1, 2).reshape(b, t, d)
        return x + self.mlp(x)


def train(mode: str) -> Any:
    """Peak MiB that the native allocator counts in two steps."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    blocks = nn.Sequential(*[Block(256) for _ in range(6)]).to("cuda", torch.bfloat16)
    x = torch.empty(8, 256, 256, device="cuda", dtype=torch.bfloat16)
    optimizer = torch.optim.AdamW(blocks.parameters())
    for _ in range(2):
        h = x
        saving = torch.autograd.graph.save_on_cpu(pin_memory=True)
        if mode == "offload":
            with saving:
                h = blocks(h)
        else:
            for block in blocks:
                recompute = mode == "recompute"
                h = checkpoint(block, h, use_reentrant=False) if recompute else block(h)
        h.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    stats = torch.cuda.memory_stats()
    return [
        round(stats[f"{kind}_bytes.all.peak"] / MIB, 1)
        for kind in ("allocated", "reserved")
    ]


def peaks() -> Any:
    """Peaks of three ways to train, twice; then what fits 110 MiB."""
    modes = ("keep", "recompute", "offload")
    result = {mode: [train(mode), train(mode)] for mode in modes}
    gc.collect()
    torch.cuda.empty_cache()
    cudasim.set_capacity(110 * MIB)
    fits = {}
    for mode in modes:
        try:
            train(mode)
            fits[mode] = True
        except torch.OutOfMemoryError:
            fits[mode] = False
    return {"peaks": result, "fits": fits}


def raised(function: Callable[[], Any]) -> str:
    try:
        function()
    except Exception as error:
        return type(error).__name__
    return "nothing"


def faults() -> Any:
    """One failed call of each kind, and that the device goes on."""
    torch.empty(1, device="cuda")
    before = torch.cuda.memory_stats()
    cudasim.fail("cudaMalloc")
    torch.empty(300 * MIB, dtype=torch.uint8, device="cuda")
    after = torch.cuda.memory_stats()
    names = ("num_alloc_retries", "num_ooms")
    cudasim.fail("cudaHostAlloc")
    pinning = raised(lambda: torch.empty(50 * MIB, dtype=torch.uint8, pin_memory=True))
    cudasim.fail("cudaMemcpyAsync", error=719)
    copying = raised(lambda: torch.ones(4).to("cuda"))
    a = torch.ones(64, 64, device="cuda")
    for product in PRODUCTS:
        cudasim.fail(product, error=13)
    multiplying = raised(lambda: a @ a)
    for product in PRODUCTS:
        cudasim.fail(product, times=0)
    return {
        "multiplying": multiplying,
        "malloc": [after[name] - before[name] for name in names],
        "pinning": pinning,
        "copying": copying,
        "after": torch.ones(4).to("cuda").cpu().tolist(),
    }


def released() -> Any:
    """A copy from a segment that was given back."""
    x = torch.zeros(8 * MIB, dtype=torch.uint8, device="cuda")
    place = x.data_ptr()
    del x
    torch.cuda.empty_cache()
    out = ctypes.create_string_buffer(16)
    copy = cudasim.runtime.cudaMemcpy
    error = copy(out, ctypes.c_void_p(place), ctypes.c_size_t(16), 2)
    return [error, cudasim.stats().out_of_bounds]


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
