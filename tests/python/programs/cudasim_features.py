"""Behaviour of torch on the simulated device, one function per feature.

Prints one JSON object: what each function returned, or the error it raised.
"""

import cudasim  # isort: skip  # before torch
import ctypes
import json
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as nnf
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

# mypy: disallow-untyped-calls=False, warn-return-any=False

MIB = 1 << 20
FEATURES: list[Callable[[], Any]] = []


def feature(function: Callable[[], Any]) -> Callable[[], Any]:
    FEATURES.append(function)
    return function


def device_bytes(mib: int) -> Tensor:
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


@feature
def device() -> Any:
    properties = torch.cuda.get_device_properties(0)
    return [
        torch.cuda.is_available(),
        torch.cuda.device_count(),
        properties.name,
        [properties.major, properties.minor, properties.multi_processor_count],
        torch.cuda.mem_get_info()[1],
    ]


@feature
def allocation_is_counted_by_the_real_allocator() -> Any:
    x = torch.empty(1000, device="cuda")
    counted = [torch.cuda.memory_allocated(), torch.cuda.memory_reserved()]
    del x
    return [*counted, torch.cuda.memory_allocated()]


@feature
def pageable_round_trip() -> Any:
    a = torch.randn(1000, 1000)
    return torch.equal(a, a.to("cuda").cpu())


@feature
def pinned_round_trip_needs_its_wait() -> Any:
    a = torch.randn(1000, 1000).pin_memory()
    b = a.to("cuda", non_blocking=True)
    c = torch.zeros(1000, 1000, pin_memory=True)
    c.copy_(b, non_blocking=True)
    early = torch.equal(a, c)
    torch.cuda.synchronize()
    return [a.is_pinned(), early, torch.equal(a, c)]


@feature
def events_measure_a_copy() -> Any:
    side = torch.cuda.Stream()
    begin = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    x = torch.empty(25_000_000, dtype=torch.uint8, device="cuda")
    h = torch.empty(25_000_000, dtype=torch.uint8, pin_memory=True)
    begin.record()
    side.wait_event(begin)
    with torch.cuda.stream(side):
        h.copy_(x, non_blocking=True)
        end.record(side)
    done = end.query()
    end.synchronize()
    return [done, end.query(), round(begin.elapsed_time(end), 1)]


@feature
def linear_backward() -> Any:
    layer = nn.Linear(128, 256).to("cuda")
    x = torch.randn(32, 128, device="cuda", requires_grad=True)
    layer(x).sum().backward()
    assert x.grad is not None and layer.weight.grad is not None
    return [list(x.grad.shape), list(layer.weight.grad.shape)]


@feature
def products() -> Any:
    a = torch.randn(64, 64, device="cuda")
    b = a.bfloat16() @ a.bfloat16()
    c = torch.bmm(a[None], a[None])
    layer = nn.Linear(64, 32, device="cuda", dtype=torch.bfloat16)
    d = torch._addmm_activation(layer.bias, b, layer.weight.t(), use_gelu=True)
    torch.cuda.synchronize()
    return [str(b.dtype), list(c.shape), list(d.shape)]


@feature
def dropout_moves_the_philox_offset() -> Any:
    torch.cuda.manual_seed(7)
    x = torch.randn(32, 128, device="cuda", requires_grad=True)
    offsets = [torch.cuda._get_rng_state_offset()]
    nnf.dropout(nnf.softmax(nnf.gelu(x), -1), 0.1).sum().backward()
    offsets.append(torch.cuda._get_rng_state_offset())
    return [offsets[1] - offsets[0], torch.cuda.initial_seed()]


@feature
def embedding_and_cross_entropy() -> Any:
    tokens = nn.Embedding(1000, 64).to("cuda")
    head = nn.Linear(64, 1000).to("cuda")
    i = torch.randint(0, 1000, (4, 16)).to("cuda")
    nnf.cross_entropy(head(tokens(i)).view(-1, 1000), i.view(-1)).backward()
    assert tokens.weight.grad is not None
    return list(tokens.weight.grad.shape)


def attend(backend: SDPBackend) -> Any:
    q = torch.randn(2, 4, 128, 64, device="cuda", dtype=torch.bfloat16)
    q.requires_grad_()
    with sdpa_kernel(backend):
        out = nnf.scaled_dot_product_attention(q, q, q, is_causal=True)
    out.sum().backward()
    assert q.grad is not None
    return list(q.grad.shape)


@feature
def math_attention() -> Any:
    return attend(SDPBackend.MATH)


@feature
def flash_attention() -> Any:
    return attend(SDPBackend.FLASH_ATTENTION)


@feature
def efficient_attention() -> Any:
    return attend(SDPBackend.EFFICIENT_ATTENTION)


@feature
def optimizers() -> Any:
    """Kernels of one step: a loop over parameters, lists of them, all at once."""
    model = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True).to("cuda")
    kernels = {}
    for kind in (torch.optim.AdamW, torch.optim.SGD):
        counts = []
        ways: list[dict[str, Any]] = [
            {"foreach": False},
            {"foreach": True},
            {"fused": True},
        ]
        for options in ways:
            optimizer = kind(model.parameters(), lr=1e-3, **options)
            for _ in range(2):
                optimizer.zero_grad()
                model(torch.randn(2, 16, 128, device="cuda")).sum().backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                before = cudasim.stats().kernels
                optimizer.step()
            counts.append(cudasim.stats().kernels - before)
        kernels[kind.__name__] = counts
    return {
        name: loop > lists >= fused > 0
        for name, (loop, lists, fused) in kernels.items()
    }


@feature
def autocast_and_scaler() -> Any:
    model = nn.Linear(64, 64).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.grad_scaler.GradScaler("cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        out = model(torch.randn(8, 64, device="cuda"))
    scaler.scale(out.float().sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    return str(out.dtype)


@feature
def checkpointing_and_offload() -> Any:
    model = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.1), nn.GELU()).to("cuda")
    x = torch.randn(8, 64, device="cuda", requires_grad=True)
    checkpoint(model, x, use_reentrant=False).sum().backward()
    copies = cudasim.calls("cudaMemcpyAsync")
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        y = model(x)
    y.sum().backward()
    return cudasim.calls("cudaMemcpyAsync") > copies


@feature
def convolution_without_cudnn() -> Any:
    with torch.backends.cudnn.flags(enabled=False):
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).to("cuda")
        y = model(torch.randn(2, 3, 8, 8, device="cuda"))
        y.sum().backward()
        torch.cuda.synchronize()
    return list(y.shape)


@feature
def indexing() -> Any:
    x = torch.randn(100, 10, device="cuda")
    i = torch.zeros(5, dtype=torch.long).to("cuda")
    scattered = torch.zeros(10, 10, device="cuda").scatter_(0, i[:, None], 1.0)
    return [
        list(t.shape)
        for t in (x[i], torch.cat([x, x]), x.topk(3)[0], x.sort()[0], scattered)
    ]


@feature
def snapshot_and_history() -> Any:
    torch.cuda.memory._record_memory_history(max_entries=1000)
    y = device_bytes(12)
    del y
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    return sorted({entry["action"] for entry in snapshot["device_traces"][0]})


@feature
def out_of_memory() -> Any:
    before = torch.cuda.memory_stats()
    try:
        torch.empty(64 << 30, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        after = torch.cuda.memory_stats()
        counts = [
            after[name] - before[name] for name in ("num_ooms", "num_alloc_retries")
        ]
        return [str(error).split(". ")[:2], counts]
    return "no error"


@feature
def record_stream_defers_reuse() -> Any:
    torch.cuda.empty_cache()
    side = torch.cuda.Stream()
    x = device_bytes(4)
    h = torch.empty(4 * MIB, dtype=torch.uint8, pin_memory=True)
    place = x.data_ptr()
    with torch.cuda.stream(side):
        h.copy_(x, non_blocking=True)
    x.record_stream(side)
    del x
    early = device_bytes(4).data_ptr() == place
    torch.cuda.synchronize()
    return [early, device_bytes(4).data_ptr() == place]


@feature
def graphs_replay() -> Any:
    h = torch.full((1024,), 3, dtype=torch.uint8, pin_memory=True)
    x = torch.zeros(1024, dtype=torch.uint8, device="cuda")
    y = torch.zeros_like(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.copy_(h, non_blocking=True)
        y.copy_(x)
    values = []
    for value in (3, 8):
        h.fill_(value)
        graph.replay()
        values.append(int(y.cpu()[7]))
    return values


@feature
def pools() -> Any:
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        x = device_bytes(1)
    return [len(pool.snapshot()), x.numel()]


@feature
def loader_that_pins() -> Any:
    data = TensorDataset(torch.arange(64.0))
    loader = DataLoader(data, batch_size=8, num_workers=2, pin_memory=True)
    return sum(b[0].to("cuda", non_blocking=True).cpu().sum().item() for b in loader)


@feature
def two_devices() -> Any:
    a = torch.arange(10).to("cuda:0")
    b = a.to("cuda:1")
    return [b.cpu().tolist() == list(range(10)), torch.cuda.memory_allocated(1)]


@feature
def eight_threads() -> Any:
    right = []

    def work(number: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for k in range(50):
                a = torch.full((1000,), float(100 * number + k)).pin_memory()
                right.append(torch.equal(a, a.to("cuda", non_blocking=True).cpu()))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [len(right), all(right)]


@feature
def a_host_that_dereferences_dies() -> Any:
    x = torch.ones(4, device="cuda")
    child = os.fork()
    if child == 0:
        ctypes.string_at(x.data_ptr(), 4)
        os._exit(0)
    return os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGSEGV


@feature
def profiler() -> Any:
    with torch.profiler.profile(profile_memory=True) as profile:
        (torch.ones(10, device="cuda") * 2).sum()
    return "aten::mul" in {event.key for event in profile.key_averages()}


@feature
def long_queue() -> Any:
    x = torch.zeros(100, device="cuda")
    side = torch.cuda.Stream()
    for _ in range(5000):
        x.add_(1)
        side.wait_stream(torch.cuda.current_stream())
        torch.cuda.current_stream().wait_stream(side)
    before = cudasim.stats().pending
    torch.cuda.synchronize()
    return [before > 5000, cudasim.stats().pending]


@feature
def what_is_not_simulated_says_so() -> Any:
    try:
        torch.linalg.cholesky(torch.eye(4, device="cuda"))
    except RuntimeError as error:
        return type(error).__name__
    return "no error"


def main() -> None:
    results = {}
    for function in FEATURES:
        try:
            results[function.__name__] = function()
        except Exception as error:
            results[function.__name__] = f"{type(error).__name__}: {error}"
    print(json.dumps(results))


if __name__ == "__main__":
    main()
