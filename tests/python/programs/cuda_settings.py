"""Settings of the CUDA allocator, and what happens without memory (cuda_checks.py).

For checks that give torch's own words of errors: with a budget of the whole device
nothing is added to them before the text that is ebbtide's.
"""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch

import cudasim
from programs.cuda_checks import MIB, Checks, block, refusal, segments, trace

# mypy: disallow-untyped-calls=False

check = Checks()
case = check.run

GIB = 1 << 30
COUNTS = ("num_ooms", "num_alloc_retries", "num_device_alloc", "num_device_free")


def counts() -> list[int]:
    stats = torch.cuda.memory_stats()
    return [stats[name] for name in COUNTS]


@contextlib.contextmanager
def setting(text: str, back: str) -> Iterator[None]:
    torch._C._accelerator_setAllocatorSettings(text)
    try:
        yield
    finally:
        torch.cuda.empty_cache()
        torch._C._accelerator_setAllocatorSettings(back)


def out_of_memory(size: int) -> str:
    """The native words of the error that so many bytes cause."""
    try:
        torch.empty(size, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        return str(error).split("\nebbtide:")[0]
    raise AssertionError("there was memory")


@check
def the_fraction_before_it_is_set() -> Any:
    return torch.cuda.get_per_process_memory_fraction()


@check
def out_of_memory_text() -> Any:
    before = counts()
    held = block(30)
    return [out_of_memory(8 * GIB), before, counts(), held.numel()]


@check
def out_of_memory_text_with_fragments() -> Any:
    halves = [block(9) for _ in range(8)]
    del halves[::2]
    return [out_of_memory(8 * GIB), len(halves)]


@check
def out_of_memory_on_the_second_device() -> Any:
    with torch.cuda.device(1):
        return out_of_memory(8 * GIB)


@check
def more_bytes_than_there_are_addresses() -> Any:
    return refusal(lambda: torch.empty(1 << 60, dtype=torch.uint8, device="cuda"))


@check
def a_request_is_tried_again_without_the_cache() -> Any:
    block(64)
    before = counts()
    cudasim.fail("cudaMalloc", times=1)
    held = block(128)
    return [before, counts(), held.numel()]


@check
def work_goes_on_after_out_of_memory() -> Any:
    held = [block(1000) for _ in range(3)]
    said = out_of_memory(2 * GIB)
    held.clear()
    torch.cuda.empty_cache()
    again = block(2048)
    return [said, counts()[:2], again.numel()]


@check
def observers_of_out_of_memory() -> Any:
    seen: list[list[int]] = []
    torch._C._cuda_attach_out_of_memory_observer(  # type: ignore[attr-defined]
        lambda device, asked, total, free: seen.append([device, asked, total, free])
    )
    out_of_memory(8 * GIB)
    assert len(seen) == 1
    return seen


@check
def history_of_out_of_memory() -> Any:
    torch.cuda.memory._record_memory_history(max_entries=50, clear_history=True)
    out_of_memory(8 * GIB)
    entries = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    told = [entry[:2] for entry in trace(entries)]
    assert "oom" in {action for action, _ in told}
    return told


@check
def a_pool_that_helps_out_of_memory() -> Any:
    pool = torch.cuda.MemPool(use_on_oom=True)
    with torch.cuda.use_mem_pool(pool):
        inside = block(3000)
    del inside
    held = block(2000)
    return [counts()[:2], len(pool.snapshot()), held.numel()]


@check
def a_request_is_rounded_up_to_parts_of_a_power_of_two() -> Any:
    with setting("roundup_power2_divisions:4", "roundup_power2_divisions:1"):
        held = [block(size) for size in (1.1, 5.3, 21, 33)]
        return [torch.cuda.memory_allocated(), len(held)]


@check
def large_blocks_are_not_split() -> Any:
    with setting("max_split_size_mb:32", "max_split_size_mb:1048576"):
        block(100)
        held = block(40)
        return [torch.cuda.memory_reserved(), counts(), held.numel()]


@check
def garbage_is_collected() -> Any:
    torch.cuda.set_per_process_memory_fraction(0.25)
    with setting(
        "garbage_collection_threshold:0.5", "garbage_collection_threshold:0.99"
    ):
        for size in (200, 300, 350):
            block(size)
        held = block(400)
        told = [torch.cuda.memory_reserved(), counts(), held.numel()]
    torch.cuda.set_per_process_memory_fraction(1.0)
    return told


@check
def segments_expand() -> Any:
    with setting("expandable_segments:True", "expandable_segments:False"):
        held = [block(size) for size in (0.5, 3, 25, 60)]
        told = segments(torch.cuda.memory_snapshot())
        reserved = torch.cuda.memory_reserved()
        held.clear()
        torch.cuda.empty_cache()
        return [told, reserved, torch.cuda.memory_reserved()]


@check
def a_setting_that_makes_no_sense() -> Any:
    settings = (
        "garbage_collection_threshold:2",
        "expandable_segments:perhaps",
        "max_split_size_mb:1",
        "no_such_setting:1",
        "backend:cudaMallocAsync",
    )
    change = torch._C._accelerator_setAllocatorSettings
    return [refusal(functools.partial(change, each)) for each in settings]


@check
def without_the_cache() -> Any:
    torch.cuda.caching_allocator_enable(False)
    held = block(3)
    told = [torch.cuda.memory_allocated(), torch.cuda.memory_reserved()]
    del held
    torch.cuda.caching_allocator_enable(True)
    return told


@check
def the_allocator_cannot_be_changed_now() -> Any:
    current = torch.cuda.memory._get_current_allocator()
    return refusal(lambda: torch.cuda.memory.change_current_allocator(current))


@check
def the_cache_is_emptied() -> Any:
    use = [block(size) for size in (0.3, 7, 30)]
    before = torch.cuda.memory_reserved()
    use.clear()
    cached = torch.cuda.memory_reserved()
    torch.cuda.empty_cache()
    torch.cuda.ipc_collect()
    return [before, cached, torch.cuda.memory_reserved()]


@check
def the_fraction_is_kept() -> Any:
    told: list[Any] = []
    for fraction in (0.3, 0.125):
        torch.cuda.set_per_process_memory_fraction(fraction)
        told.append(torch.cuda.get_per_process_memory_fraction())
        told.append(out_of_memory(2 * GIB))
        told.append(block(fraction * 4000).numel())
        torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(1.0)
    return [*told, torch.cuda.get_per_process_memory_fraction()]


@check
def a_fraction_that_makes_no_sense() -> Any:
    return [
        refusal(lambda: torch.cuda.set_per_process_memory_fraction(1.5)),
        refusal(lambda: torch.cuda.set_per_process_memory_fraction(-0.1)),
        refusal(lambda: torch.cuda.set_per_process_memory_fraction(0.5, 7)),
        refusal(lambda: torch.cuda.get_per_process_memory_fraction(7)),
    ]


@check
def convolutions_that_are_benchmarked() -> Any:
    """cuDNN has no device here; its search asks the allocator before."""
    with torch.backends.cudnn.flags(enabled=True, benchmark=True):
        layer = torch.nn.Conv2d(3, 8, 3).to("cuda")
        return refusal(lambda: layer(torch.zeros(2, 3, 8, 8, device="cuda")))


# Comes last: where a step is managed, its leaf is held until the next one begins.
@check
def out_of_memory_in_backward() -> Any:
    x = torch.zeros(256 * MIB, device="cuda", requires_grad=True)
    y = x * 2
    held = block(1900)
    try:
        y.sum().backward()
    except torch.OutOfMemoryError as error:
        said = str(error).split(". ")[:2]
    else:
        said = []
    del held
    (x * 2).sum().backward()
    return [said, x.grad is not None]
