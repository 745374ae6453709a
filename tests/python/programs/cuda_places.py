"""Pools, graphs, streams, devices, threads and storages (cuda_checks.py)."""

import copy
import json
import os
import threading
from typing import Any

import torch
from torch import nn
from torch.utils import dlpack

import cudasim
from programs.cuda_checks import MIB, Checks, block, ordered, refusal, segments

# mypy: disallow-untyped-calls=False

check = Checks()
case = check.run


def stats(*names: str) -> list[int]:
    told = torch.cuda.memory_stats()
    return [told[f"{name}.all.current"] for name in names]


SIZES = ("allocated_bytes", "reserved_bytes", "active_bytes", "inactive_split_bytes")


@check
def pools() -> Any:
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = [block(size) for size in (0.3, 1, 15)]
    outside = block(1)
    told = [segments(pool.snapshot()), pool.use_count(), stats(*SIZES)]
    del inside
    return [*told, stats(*SIZES), outside.numel()]


@check
def a_pool_that_does_not_split() -> Any:
    pool = torch.cuda.MemPool(no_split=True)
    with torch.cuda.use_mem_pool(pool):
        held = [block(0.3), block(0.3)]
    return [len(pool.snapshot()), stats(*SIZES), len(held)]


@check
def a_pool_that_ends() -> Any:
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        block(5)
    before = stats(*SIZES)
    del pool
    torch.cuda.empty_cache()
    return [before, stats(*SIZES)]


@check
def pools_are_numbered() -> Any:
    first, second = torch.cuda.MemPool().id, torch.cuda.graph_pool_handle()
    return [len(first), len(second), first != second]


@check
def graphs() -> Any:
    """Captured, replayed with new input, and given up."""
    source = torch.full((1024,), 3, dtype=torch.uint8, pin_memory=True)
    x = torch.zeros(1024, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.copy_(source, non_blocking=True)
        y = x.clone()
    values = []
    for value in (3, 8):
        source.fill_(value)
        graph.replay()
        values.append(int(y.cpu()[7]))
    held = [stats(*SIZES), segments(torch.cuda.memory_snapshot())]
    graph.reset()
    del y
    torch.cuda.empty_cache()
    return [values, held, stats(*SIZES)]


@check
def graphs_that_share_a_pool() -> Any:
    x = torch.zeros(MIB, device="cuda")
    pool = torch.cuda.graph_pool_handle()
    kept = []
    for _ in range(2):
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, pool=pool):
            kept.append((graph, x.clone()))
    told = [stats(*SIZES), [graph.pool() == pool for graph, _ in kept]]
    kept.clear()
    torch.cuda.empty_cache()
    return [*told, stats(*SIZES)]


@check
def a_capture_that_fails() -> Any:
    x = torch.zeros(1024, device="cuda")
    graph = torch.cuda.CUDAGraph()

    def capture() -> None:
        with torch.cuda.graph(graph):
            x.clone()
            raise ValueError("in capture")

    said = refusal(capture)
    return [said, x.clone().numel(), stats(*SIZES)]


@check
def the_state_of_a_pool_is_restored() -> Any:
    x = torch.zeros(MIB, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x.clone()
    pool = graph.pool()
    state = torch._C._cuda_getCheckpointState(0, pool)
    alive = torch._C._cuda_checkPoolLiveAllocations(0, pool, {y.data_ptr()})
    none = torch._C._cuda_checkPoolLiveAllocations(0, pool, set())
    torch._C._cuda_setCheckpointPoolState(0, state, [], [])
    return [alive, none, stats(*SIZES)]


@check
def blocks_of_other_streams_come_back_late() -> Any:
    side = torch.cuda.Stream()
    x = block(4)
    host = torch.empty(4 * MIB, dtype=torch.uint8, pin_memory=True)
    place = x.data_ptr()
    with torch.cuda.stream(side):
        host.copy_(x, non_blocking=True)
    x.record_stream(side)
    del x
    waiting = stats(*SIZES)
    early = block(4).data_ptr() == place
    torch.cuda.synchronize()
    return [waiting, early, block(4).data_ptr() == place]


@check
def each_stream_has_its_own_blocks() -> Any:
    streams = [torch.cuda.Stream() for _ in range(3)]
    held = []
    for stream in streams:
        with torch.cuda.stream(stream):
            held.append(block(0.1))
            held.append(block(3))
    return [segments(torch.cuda.memory_snapshot()), len(held)]


@check
def addresses_are_used_again() -> Any:
    places = []
    for size in (3, 9, 3, 0.2, 9, 0.2, 24, 3):
        places.append(block(size).data_ptr())
    assert all(place % 512 == 0 for place in places)
    order = ordered(places)
    return [order[place] for place in places]


@check
def threads() -> Any:
    def work(number: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(20):
                held = [block(size) for size in (0.1, 2, 11)]
                assert len(held) == 3, number

    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    workers = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    after = torch.cuda.memory_stats()["allocation.all.allocated"]
    return [after - before, stats("allocated_bytes")]


@check
def devices() -> Any:
    first = torch.arange(10, device="cuda:0")
    second = first.to("cuda:1")
    with torch.cuda.device(1):
        third = block(3)
    return [
        second.cpu().tolist(),
        torch.cuda.memory_stats(1)["allocated_bytes.all.current"],
        torch.cuda.memory_reserved(1),
        str(third.device),
        [each["device"] for each in torch.cuda.memory_snapshot()],
    ]


@check
def storages_are_resized() -> Any:
    x = block(6)
    told = [stats(*SIZES)]
    for size in (0, 2 * MIB, 9 * MIB):
        x.untyped_storage().resize_(size)
        told.append([x.untyped_storage().size(), *stats(*SIZES)])
    return told


@check
def views_and_copies_share_what_they_should() -> Any:
    x = block(4)
    views = [x[5:], x.view(2, -1).t(), x.detach(), x.expand(2, -1)]
    told = [stats("allocated_bytes"), x[5:].data_ptr() - x.data_ptr()]
    copies = [x.clone(), copy.deepcopy(x), torch._lazy_clone(x)]
    return [*told, stats("allocated_bytes"), len(views), len(copies)]


@check
def tensors_are_lent_by_dlpack() -> Any:
    x = torch.arange(1000, device="cuda")
    lent = dlpack.from_dlpack(x)
    same = lent.data_ptr() == x.data_ptr()
    device = x.__dlpack_device__()
    held = stats("allocated_bytes")
    del x
    kept = stats("allocated_bytes")
    del lent
    return [same, [int(part) for part in device], held, kept, stats("allocated_bytes")]


@check
def memory_of_others_is_not_counted() -> Any:
    """A tensor over memory that the program has; its owner lives as long."""

    class Owner:
        def __init__(self, mine: torch.Tensor) -> None:
            self.mine = mine
            self.__cuda_array_interface__ = mine.__cuda_array_interface__

    before = stats("allocation")
    view = torch.as_tensor(Owner(block(2)), device="cuda")
    during = stats("allocation")
    del view
    return [before, during, stats("allocation")]


@check
def sharing_with_other_processes_is_refused() -> Any:
    """The simulator has no handles to give."""
    x = block(3)
    told = [
        refusal(x.untyped_storage()._share_cuda_),
        refusal(lambda: torch.multiprocessing.reductions.reduce_tensor(x)),
    ]
    cudasim.runtime.cudaGetLastError()  # which PyTorch leaves to the next kernel
    return told


@check
def record_stream_knows_its_own_blocks() -> Any:
    side = torch.cuda.Stream()
    empty = torch.empty(0, device="cuda")
    empty.record_stream(side)
    return refusal(lambda: torch.empty(5).record_stream(side))


@check
def a_model_answers() -> Any:
    """Statistics of two passes; what the device computes is not looked at."""
    torch.manual_seed(1)
    model = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).to("cuda")
    told = []
    for _ in range(2):
        with torch.no_grad():
            answer = model(torch.randn(2, 16, 64, device="cuda"))
        told.append([list(answer.shape), torch.cuda.memory_stats()])
    return told


@check
def a_loader_pins_its_batches() -> Any:
    data = torch.utils.data.TensorDataset(torch.arange(64.0))
    loader = torch.utils.data.DataLoader(data, batch_size=8, pin_memory=True)
    sums = [batch[0].to("cuda", non_blocking=True).cpu().sum() for batch in loader]
    return [sum(each.item() for each in sums), stats("allocated_bytes")]


def forks_before_use(trial: Any) -> None:
    """A child uses the device, and then so does the process itself."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(
            write, json.dumps(block(3).numel() + torch.cuda.device_count()).encode()
        )
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    os.close(write)
    with os.fdopen(read) as pipe:
        trial.note("child", status, json.load(pipe))
    trial.note("initialized", torch.cuda.is_initialized())
    trial.note("parent", block(5).numel(), torch.cuda.memory_allocated())
