"""Times of a few things on the twin, as JSON (tests/python/test_twin.py)."""

import json
import resource
import time

import torch

# mypy: disallow-untyped-calls=False, warn-return-any=False

OPS = 50
GIB = 1 << 30


def host_of_ops() -> float:
    """Nanoseconds of the host for one op that launches one kernel."""
    x = torch.zeros(16, device="cuda")
    x.add_(1)
    begin = time.perf_counter_ns()
    for _ in range(OPS):
        x.add_(1)
    return (time.perf_counter_ns() - begin) / OPS


def device_time(shape: tuple[int, int], other: tuple[int, int]) -> float:
    """Nanoseconds of the device for a product, less what an event takes."""
    left, right = (
        torch.zeros(size, device="cuda", dtype=torch.bfloat16)
        for size in (shape, other)
    )
    torch.mm(left, right)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    # The host is far ahead behind it.
    torch.zeros(4 * GIB, device="cuda", dtype=torch.uint8).add_(1)
    begin.record()
    torch.mm(left, right)
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e6


def copy_time(size: int, both: bool) -> float:
    """Nanoseconds for a copy to pinned memory; with one the other way beside it."""
    there = torch.empty(size, dtype=torch.uint8, device="cuda")
    here = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    if both:
        with torch.cuda.stream(streams[1]):
            for _ in range(4):
                torch.empty_like(there).copy_(here, non_blocking=True)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.cuda.stream(streams[0]):
        begin.record()
        here.copy_(there, non_blocking=True)
        end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e6


def main() -> None:
    found = {
        "host": host_of_ops(),
        "product": device_time((8192, 1792), (1792, 1792)),
        "unknown": device_time((4096, 4096), (4096, 4096)),
        "copy": copy_time(GIB, both=False),
        "copy_both": copy_time(GIB, both=True),
        "flag": bool((torch.zeros(3, device="cuda") == 1).all()),
        "item": torch.ones(3, device="cuda").sum().item(),
        "name": torch.cuda.get_device_name(),
        "total": torch.cuda.mem_get_info()[1],
    }
    large = [torch.empty(20 * GIB, dtype=torch.uint8, device="cuda") for _ in range(3)]
    pinned = torch.empty(20 * GIB, dtype=torch.uint8, pin_memory=True)
    pinned.copy_(large[0])
    large[1].copy_(pinned)
    read = large[2].cpu()
    found["read"] = int(read[12345])
    found["resident"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    print(json.dumps(found))


if __name__ == "__main__":
    main()
