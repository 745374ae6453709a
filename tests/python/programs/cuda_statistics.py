"""Statistics, snapshots and history of the CUDA allocator (cuda_checks.py)."""

import io
import pickle
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch

from programs.cuda_checks import MIB, Checks, block, refusal, segments, trace

# mypy: disallow-untyped-calls=False

check = Checks()
case = check.run


def use() -> list[torch.Tensor]:
    """Small, middle and large blocks, of which every other one is freed."""
    sizes = (0.001, 0.2, 0.9, 1.5, 3, 9, 12, 33)
    blocks = [block(size) for size in sizes]
    return blocks[::2]


@check
def keys_of_the_statistics() -> Any:
    return sorted(torch.cuda.memory_stats())


@check
def values_of_the_statistics() -> Any:
    held = use()
    return [torch.cuda.memory_stats(), len(held)]


@check
def counts_of_blocks() -> Any:
    """Statistics of blocks alone, which do not depend on where these lie."""
    told = []
    torch.cuda.reset_accumulated_memory_stats()
    torch.cuda.reset_peak_memory_stats()
    held = use()
    for _ in range(3):
        told.append(
            {
                name: value
                for name, value in torch.cuda.memory_stats().items()
                if name.split(".")[0] in ("allocation", "active", "requested_bytes")
            }
        )
        if held:
            held.pop()
    return [told, torch.cuda.memory_allocated() % 512]


@check
def nested_statistics() -> Any:
    held = use()
    return [torch.cuda.memory_stats_as_nested_dict(), len(held)]


@check
def allocated_and_reserved() -> Any:
    seen = []
    held = use()
    for _ in range(2):
        seen += [
            torch.cuda.memory_allocated(),
            torch.cuda.max_memory_allocated(),
            torch.cuda.memory_reserved(),
            torch.cuda.max_memory_reserved(),
        ]
        held.clear()
    return seen


@check
def peaks_begin_anew() -> Any:
    use()
    torch.cuda.reset_peak_memory_stats()
    low = [torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()]
    held = use()
    return [low, torch.cuda.max_memory_allocated(), len(held)]


@check
def accumulated_counts_begin_anew() -> Any:
    use()
    torch.cuda.reset_accumulated_memory_stats()
    held = block(5)
    stats = torch.cuda.memory_stats()
    named = {name: stats[name] for name in stats if ".allocated" in name}
    return [named, held.numel()]


@check
def old_names() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.cuda.reset_max_memory_allocated()
        torch.cuda.reset_max_memory_cached()
        held = block(5)
        cached = [torch.cuda.memory_cached(), torch.cuda.max_memory_cached()]
    return [cached, held.numel()]


@check
def accelerator_names() -> Any:
    held = use()
    return [
        torch.accelerator.memory_allocated(),
        torch.accelerator.max_memory_reserved(),
        torch.accelerator.memory_stats(),
        len(held),
    ]


@check
def summary() -> Any:
    held = use()
    return [
        torch.cuda.memory_summary(),
        torch.cuda.memory_summary(abbreviated=True),
        len(held),
    ]


@check
def snapshot() -> Any:
    held = use()
    return [segments(torch.cuda.memory_snapshot()), len(held)]


@check
def full_snapshot() -> Any:
    held = use()
    full = torch.cuda.memory._snapshot()
    return [
        sorted(full),
        full["allocator_settings"],
        segments(full["segments"]),
        [len(each) for each in full["device_traces"]],
        len(held),
    ]


def history(**options: Any) -> list[list[Any]]:
    torch.cuda.memory._record_memory_history(max_entries=200, **options)
    try:
        held = use()
        held.pop()
        full = torch.cuda.memory._snapshot()
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    active = [
        [
            frame["name"]
            for frame in part.get("frames", [])
            if "programs" in frame["filename"]
        ]
        for segment in full["segments"]
        for part in segment["blocks"]
        if part["state"] == "active_allocated"
    ]
    return [trace(full["device_traces"][0]), active]


@check
def history_of_everything() -> Any:
    told = history(context="all", stacks="python", clear_history=True)
    assert any("use" in entry[3] for entry in told[0])
    return told


@check
def history_of_the_state() -> Any:
    return history(enabled="state", stacks="python", clear_history=True)


@check
def history_without_frames() -> Any:
    return history(context=None, clear_history=True)


@check
def history_that_skips_actions() -> Any:
    told = history(stacks="python", clear_history=True, skip_actions=["free_requested"])
    assert "free_requested" not in {entry[0] for entry in told[0]}
    return told


@check
def history_is_bounded() -> Any:
    torch.cuda.memory._record_memory_history(max_entries=5, clear_history=True)
    use()
    told = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    return [entry[:2] for entry in trace(told)]


@check
def a_dumped_snapshot() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot.pickle"
        held = use()
        torch.cuda.memory._dump_snapshot(str(path))
        read = pickle.loads(path.read_bytes())
    return [sorted(read), segments(read["segments"]), len(held)]


@check
def metadata_of_the_user() -> Any:
    torch.cuda.memory._set_memory_metadata("epoch 7")
    said = [torch.cuda.memory._get_memory_metadata()]
    torch.cuda.memory._record_memory_history(max_entries=9, clear_history=True)
    held = block(2)
    entries = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    torch.cuda.memory._set_memory_metadata("")
    return [said, [entry.get("user_metadata") for entry in entries], held.numel()]


@check
def the_profiler_sees_device_memory() -> Any:
    with torch.profiler.profile(profile_memory=True) as profile:
        held = torch.zeros(3 * MIB, dtype=torch.uint8, device="cuda")
        held += 1
    told = {
        event.key: event.self_device_memory_usage
        for event in profile.key_averages()
        if event.self_device_memory_usage
    }
    assert told
    return told


@check
def raw_blocks() -> Any:
    before = torch.cuda.memory_allocated()
    raw = torch.cuda.caching_allocator_alloc(5 * MIB)
    side = torch.cuda.Stream()
    other = torch.cuda.caching_allocator_alloc(1000, stream=side)
    held = torch.cuda.memory_allocated() - before
    sizes = [
        [segment["total_size"], segment["active_size"]]
        for segment in segments(torch.cuda.memory_snapshot())
    ]
    for each in (raw, other):
        torch.cuda.caching_allocator_delete(each)
    return [held, sizes, torch.cuda.memory_allocated() - before]


@check
def a_raw_block_of_nobody() -> Any:
    return refusal(lambda: torch.cuda.caching_allocator_delete(4096))


@check
def backend() -> Any:
    return torch.cuda.get_allocator_backend()


@check
def what_the_device_has() -> Any:
    held = block(40)
    seen = [torch.cuda.mem_get_info(), torch.cuda.mem_get_info(1)]
    with torch.cuda.device(1):
        seen.append(torch.cuda.mem_get_info())
    return [seen, held.numel()]


@check
def pinned_memory() -> Any:
    stats = torch.cuda.host_memory_stats()
    pinned = torch.empty(3 * MIB, dtype=torch.uint8, pin_memory=True)
    after = torch.cuda.host_memory_stats()
    name = "allocated_bytes.current"
    other = torch.ones(10).pin_memory()
    return [
        sorted(stats),
        after[name] - stats[name],
        pinned.is_pinned(),
        other.is_pinned(),
        torch.empty(10).is_pinned(),
    ]


@check
def processes_on_the_card() -> Any:
    """There is no management library: the text says so."""
    return torch.cuda.list_gpu_processes()


@check
def a_device_that_does_not_exist() -> Any:
    return [
        refusal(lambda: torch.cuda.memory_allocated("cuda:7")),
        refusal(lambda: torch.cuda.memory_stats(7)),
        refusal(lambda: torch.cuda.reset_peak_memory_stats(7)),
        refusal(lambda: block(1, "cuda:7")),
    ]


@check
def a_saved_tensor_comes_back() -> Any:
    file = io.BytesIO()
    torch.save(torch.arange(1000.0, device="cuda"), file)
    file.seek(0)
    back = torch.load(file, map_location="cuda:1")
    return [str(back.device), back.sum().item() >= 0, torch.cuda.memory_allocated(1)]
