"""Measures latencies and rates of a CUDA device and its driver, as JSON.

    device_probe.py          (tests/data/h100/device.json is what an H100 printed)

The simulated device takes these times (CUDASIM_DEVICE_FILE).
"""

import ctypes
import json
import mmap
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

# mypy: disallow-untyped-calls=False, warn-return-any=False

MIB = 1 << 20
GIB = 1 << 30
CALLS = 2000
REPEATS = 40  # repeats of a kernel


def runtime() -> ctypes.CDLL:
    """The CUDA runtime that torch has loaded."""
    loaded = Path("/proc/self/maps").read_text().split()
    name = next((path for path in loaded if "libcudart.so" in path), "libcudart.so.13")
    return ctypes.CDLL(name)


def seconds(run: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def until_done(run: Callable[[], Any]) -> float:
    """Seconds until the device has done it; the least of three."""

    def whole() -> None:
        run()
        torch.cuda.synchronize()

    torch.cuda.synchronize()
    return min(seconds(whole) for _ in range(3))


def microseconds(call: Callable[[], Any], calls: int = CALLS) -> float:
    """The host's time for one call."""
    call()
    torch.cuda.synchronize()
    return seconds(lambda: [call() for _ in range(calls)]) / calls * 1e6


def memory(cuda: ctypes.CDLL) -> dict[str, float]:
    found = {}
    pointer = ctypes.c_void_p()
    for size in (2, 20, 64, 256, 1024, 4096):
        malloc = partial(
            cuda.cudaMalloc, ctypes.byref(pointer), ctypes.c_size_t(size * MIB)
        )
        found[f"cudaMalloc_{size}MiB_us"] = 1e6 * seconds(malloc)
        found[f"cudaFree_{size}MiB_us"] = 1e6 * seconds(lambda: cuda.cudaFree(pointer))
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    found["cudaMemGetInfo_us"] = microseconds(
        lambda: cuda.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total))
    )
    for size in (16, 64, 256):
        pages = mmap.mmap(-1, size * MIB)
        block = (ctypes.c_char * (size * MIB)).from_buffer(pages)
        at = ctypes.c_void_p(ctypes.addressof(block))
        amount = ctypes.c_size_t(size * MIB)
        for name, run in (
            ("touch", partial(ctypes.memset, at, 1, size * MIB)),
            ("hostRegister", partial(cuda.cudaHostRegister, at, amount, 0)),
            ("hostUnregister", partial(cuda.cudaHostUnregister, at)),
        ):
            found[f"{name}_{size}MiB_ms"] = 1e3 * seconds(run)
    found["cudaHostAlloc_1GiB_ms"] = 1e3 * seconds(
        lambda: cuda.cudaHostAlloc(ctypes.byref(pointer), ctypes.c_size_t(GIB), 0)
    )
    cuda.cudaFreeHost(pointer)
    return found


def copies() -> dict[str, float]:
    """Bytes per nanosecond of a GiB in pieces, one way and both."""
    here = [torch.empty(GIB, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    there = [torch.empty(GIB, dtype=torch.uint8, device="cuda") for _ in range(2)]
    out, back = torch.cuda.Stream(), torch.cuda.Stream()

    def copy(to: torch.Tensor, source: torch.Tensor, part: int) -> None:
        for at in range(0, GIB, part):
            to[at : at + part].copy_(source[at : at + part], non_blocking=True)

    def offload(part: int) -> None:
        with torch.cuda.stream(out):
            copy(here[0], there[0], part)

    def restore(part: int) -> None:
        with torch.cuda.stream(back):
            copy(there[1], here[1], part)

    def both() -> None:
        offload(16 * MIB)
        restore(16 * MIB)

    found = {}
    for size in (1, 4, 16, 64, 1024):
        for name, way in (("d2h", offload), ("h2d", restore)):
            took = until_done(partial(way, size * MIB))
            found[f"{name}_{size}MiB_GBps"] = GIB / 1e9 / took
    found["both_16MiB_GBps_each"] = GIB / 1e9 / until_done(both)
    return found


def kernels() -> dict[str, float]:
    """Milliseconds of a large product and of an elementwise op."""
    kind: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    left, right = torch.ones(8192, 8192, **kind), torch.ones(8192, 8192, **kind)
    x = torch.ones(256 * MIB, **kind)

    def repeated(run: Callable[[], Any]) -> float:
        run()
        return until_done(lambda: [run() for _ in range(REPEATS)]) / REPEATS * 1e3

    return {
        "mm8192_bf16_ms": repeated(lambda: torch.mm(left, right)),
        "gelu512MiB_ms": repeated(lambda: torch.nn.functional.gelu(x)),
    }


def calls() -> dict[str, float]:
    x = torch.zeros(16, device="cuda")
    event = torch.cuda.Event()
    timed = torch.cuda.Event(enable_timing=True)
    stream = torch.cuda.Stream()
    return {
        "launch_us": microseconds(lambda: x.add_(1)),
        "event_record_us": microseconds(event.record),
        "stream_wait_us": microseconds(lambda: stream.wait_event(event)),
        "timing_event_record_us": microseconds(timed.record),
        "event_query_us": microseconds(event.query),
        "malloc_cached_us": microseconds(lambda: torch.empty(MIB, device="cuda")),
        "item_us": microseconds(lambda: x[0].item(), 200),
    }


def main() -> None:
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    found = {**memory(runtime()), **copies(), **kernels(), **calls()}
    properties = torch.cuda.get_device_properties(0)
    about = {
        "name": properties.name,
        "torch": torch.__version__,
        "sms": properties.multi_processor_count,
        "l2": properties.L2_cache_size,
    }
    rounded = {name: round(value, 3) for name, value in found.items()}
    print(json.dumps({**rounded, **about}, indent=1))


if __name__ == "__main__":
    main()
