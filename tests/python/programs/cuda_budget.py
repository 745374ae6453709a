"""A CUDA device under a budget: cases for test_cuda_allocator.py."""

import ctypes
import gc
import os
import tempfile
from pathlib import Path
from typing import Any

import torch

import cudasim
from ebbtide import _entry
from programs.cuda_checks import MIB, block, refusal
from programs.trial import Trial


def runs_out(trial: Trial) -> None:
    """Needs more than the budget, catches that, and goes on with less."""
    held = [block(20) for _ in range(2)]
    try:
        block(30)
    except torch.OutOfMemoryError as error:
        trial.add("said", str(error).split("\n"))
    del held
    torch.cuda.empty_cache()
    trial.note("smaller batch", block(30).numel())
    trial.note("reserved", torch.cuda.memory_reserved())


def trains_too_large(trial: Trial) -> None:
    """A batch that does not fit, and then one that does."""
    layer = torch.nn.Linear(1024, 1024, device="cuda")
    for rows in (16384, 512):
        try:
            x = torch.zeros(rows, 1024, device="cuda")
            layer(layer(x).relu()).sum().backward()
            trial.note("fits", rows)
        except torch.OutOfMemoryError as error:
            trial.add("said", str(error).split("\n"))
        x = torch.empty(0)
        layer.zero_grad()
        torch.cuda.empty_cache()


def uses(trial: Trial) -> None:
    """A block on each of two devices."""
    trial.note("used", block(3).numel(), block(2, "cuda:1").numel())


def trains_on_the_cpu(trial: Trial) -> None:
    torch.manual_seed(1)
    layer = torch.nn.Linear(512, 512)
    for _ in range(3):
        layer(torch.ones(256, 512)).relu().sum().backward()
    assert layer.weight.grad is not None
    trial.note("gradient", layer.weight.grad)


def loads_and_moves(trial: Trial) -> None:
    """Has more than the budget in host memory before it uses the device."""
    data = torch.ones(32 * MIB)
    trial.note("moved", data[:MIB].to("cuda").numel())


def uses_nothing(trial: Trial) -> None:
    """The simulator's counts for a program that stays on the CPU."""
    names = ("cudaGetDeviceCount", "cudaMemGetInfo", "cudaSetDevice", "cudaMalloc")
    trial.note("one", torch.ones(2).sum())
    trial.add("calls", [str(cudasim.calls(name)) for name in names])


def forks(trial: Trial) -> None:
    """A child, which the parent's budget does not concern."""
    child = os.fork()
    if child == 0:
        os._exit(0 if block(200).numel() == 200 * MIB else 1)
    trial.note("child", os.waitpid(child, 0)[1])


def start(budget: str) -> None:
    os.environ["EBBTIDE_BUDGET"] = budget
    _entry.start()


def starts_late(trial: Trial) -> None:
    """Has bytes on the device before ebbtide comes."""
    held = [block(100), block(0.5)]
    del held[1]
    start("cuda=64MiB")
    try:
        block(30)
    except torch.OutOfMemoryError as error:
        trial.add("said", str(error).split("\n"))
    held.clear()
    torch.cuda.empty_cache()
    trial.note("later", block(30).numel())


def others_are_there(trial: Trial) -> None:
    """Most of the card is taken before PyTorch comes."""
    taken = ctypes.c_void_p()
    assert (
        cudasim.runtime.cudaMalloc(ctypes.byref(taken), ctypes.c_size_t(3 << 30)) == 0
    )
    trial.note("used", block(3).numel())


def native() -> Any:
    """An allocator that takes and frees by the runtime's own functions."""
    library = ctypes.CDLL(str(cudasim.LIBRARIES / "libcudart.so.13"))
    pointer, size = ctypes.c_void_p, ctypes.c_ssize_t

    def take(count: int, _device: int, _stream: int) -> int | None:
        address = pointer()
        library.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(count))
        return address.value

    def give(address: int, _count: int, _device: int, _stream: int) -> None:
        library.cudaFree(pointer(address))

    functions = (
        ctypes.CFUNCTYPE(pointer, size, ctypes.c_int, pointer)(take),
        ctypes.CFUNCTYPE(None, pointer, size, ctypes.c_int, pointer)(give),
    )
    KEPT.extend(functions)
    addresses = [ctypes.cast(each, pointer).value or 0 for each in functions]
    return torch._C._cuda_customAllocator(*addresses)


# Functions that C++ calls until the end of the process.
KEPT: list[object] = []


def is_replaced_before(trial: Trial) -> None:
    torch._C._cuda_changeCurrentAllocator(native())
    start("cuda=64MiB")
    trial.note("used", block(100).numel())


def is_replaced_afterwards(trial: Trial) -> None:
    torch._C._cuda_changeCurrentAllocator(native())
    trial.note("used", block(100).numel())


def is_for_another_torch(trial: Trial) -> None:
    """The core was built for another torch, of which a library is not."""
    name = "libebbtide_pluggable.so"
    here = _entry._LIBRARIES / name
    with tempfile.TemporaryDirectory() as folder:
        _entry._LIBRARIES = Path(folder)
        (_entry._LIBRARIES / name).symlink_to(here)
        (_entry._LIBRARIES / "torch_version").write_text("2.99.0\n")
        start("cuda=64MiB")
    trial.note("backend", torch.cuda.get_allocator_backend())
    library = ctypes.CDLL(str(here))
    library.ebbtide_live.restype = library.ebbtide_peak.restype = ctypes.c_int64
    held = block(40)
    try:
        block(30)
    except RuntimeError as error:
        trial.add("said", [str(error)])
    trial.note("live", held.numel(), library.ebbtide_live(0))
    del held
    layer = torch.nn.Linear(512, 512, device="cuda")
    layer(torch.zeros(64, 512, device="cuda")).relu().sum().backward()
    del layer
    torch.cuda.synchronize()
    trial.note("larger", block(45).numel())
    gc.collect()
    trial.note("peak", library.ebbtide_peak(0))
    trial.add("no statistics", refusal(torch.cuda.memory_stats))


def needs_a_device(trial: Trial) -> None:
    """The error of a machine whose device cannot be used."""
    error = int(os.environ["FAULT"])
    cudasim.fail("cudaGetDeviceCount", times=-1, error=error)
    trial.note("available", torch.cuda.is_available())
    try:
        block(1)
    except Exception as error:
        trial.add("said", [type(error).__name__, str(error)])
