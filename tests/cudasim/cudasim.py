"""The simulated CUDA runtime in this process. Import it before torch.

The dynamic loader takes for torch's libcudart.so.13 whatever is loaded under
that name. So loading the stand-ins first is all there is to it; with LD_PRELOAD
they are there already. tests/cudasim/control.h says what each function does.
"""

import atexit
import ctypes
import dataclasses
import os
import sys
import time
from pathlib import Path

SCHEDULES = ("eager", "ontime", "late", "race", "random")
_SONAMES = (
    *("libcudart.so.13", "libcublasLt.so.13", "libcublas.so.13", "libcuda.so.1"),
    *("libnvidia-ml.so.1", "libcupti.so.13"),
)
_BUILT = Path(__file__).parents[2] / "build" / "release" / "tests" / "cudasim" / "lib"
LIBRARIES = Path(os.environ.get("CUDASIM_LIB", _BUILT))


@dataclasses.dataclass
class Stats:
    """Counters since the start; bytes and virtual nanoseconds."""

    device_bytes: int
    device_peak: int
    device_allocations: int
    live_allocations: int
    pinned_bytes: int
    pinned_peak: int
    kernels: int
    copies: int
    copied_bytes: int
    memsets: int
    pending: int
    executed: int
    out_of_bounds: int
    hazards: int
    now_ns: int
    cpu_ns: int
    backward_cpu_ns: int
    ops: int
    backward_ops: int
    reservations: int
    live_events: int


def _load() -> tuple[ctypes.CDLL, ctypes.CDLL]:
    if "torch" in sys.modules and "LD_PRELOAD" not in os.environ:
        raise ImportError("cudasim must be imported before torch")
    libraries = [
        ctypes.CDLL(str(LIBRARIES / name), mode=ctypes.RTLD_GLOBAL) for name in _SONAMES
    ]
    runtime, cupti = libraries[0], libraries[-1]
    pointer, size, double = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_double
    number, text = ctypes.c_int64, ctypes.c_char_p
    runtime.cudasim_set_capacity.argtypes = [number]
    runtime.cudasim_set_seed.argtypes = [number]
    runtime.cudasim_set_rates.argtypes = [double] * 4
    runtime.cudasim_advance_ns.argtypes = [number]
    runtime.cudasim_fail.argtypes = [text, number, number, ctypes.c_int]
    runtime.cudasim_calls.argtypes = [text]
    runtime.cudasim_calls.restype = ctypes.c_uint64
    runtime.cudasim_fail_one.argtypes = [number, ctypes.c_int, ctypes.c_int]
    runtime.cudasim_all_calls.restype = ctypes.c_uint64
    runtime.cudasim_failed.restype = text
    runtime.cudasim_traced.argtypes = [size]
    runtime.cudasim_traced.restype = text
    runtime.cudasim_peek.argtypes = [pointer, pointer, size]
    runtime.cudasim_hazard.argtypes = [size]
    runtime.cudasim_hazard.restype = text
    runtime.cudasim_broken.restype = text
    if hasattr(cupti, "cuptisim_set"):  # else a test has put another there
        cupti.cuptisim_set.argtypes = [text, number]
        cupti.cuptisim_fail.argtypes = [text, number, number, ctypes.c_int]
        cupti.cuptisim_calls.argtypes = [text]
        cupti.cuptisim_calls.restype = ctypes.c_uint64
    return runtime, cupti


runtime, cupti = _load()


@atexit.register
def _let_backward_end() -> None:
    """Waits for the threads of devices, before the interpreter ends.

    Behind torch 2.11 a backward pass holds its caller's context, a Python object. If
    the thread of a device releases it last, it wants the GIL; if the interpreter ends
    meanwhile, the process aborts, with and without ebbtide.
    """
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch._C, "_remove_obj_from_tls"):
        time.sleep(0.05)


def _run_what_is_queued() -> None:
    """A wait behind the interpreter's end must find nothing that torch computes.

    Work on a device needs nothing of the host; what Exact queues needs torch's
    static objects, and those end before the libraries that still wait then.
    """
    count, current = ctypes.c_int(), ctypes.c_int()
    runtime.cudasim_aside_begin()
    runtime.cudaGetDeviceCount(ctypes.byref(count))
    runtime.cudaGetDevice(ctypes.byref(current))
    for device in range(count.value):
        runtime.cudaSetDevice(device)
        runtime.cudaDeviceSynchronize()
    runtime.cudaSetDevice(current)
    runtime.cudasim_aside_end()


def stats() -> Stats:
    fields = dataclasses.fields(Stats)
    values = (ctypes.c_uint64 * len(fields))()
    runtime.cudasim_stats(values)
    return Stats(*values)


@dataclasses.dataclass
class CuptiStats:
    """Counters of the simulated CUPTI; cupti_control.h explains them."""

    dropped: int
    declined: int
    held: int
    cut: int
    timeless: int
    failed: int
    buffers: int
    enabled: int
    pending: int
    device_buffers: int
    work_ns: int


def cupti_stats() -> CuptiStats:
    fields = dataclasses.fields(CuptiStats)
    values = (ctypes.c_uint64 * len(fields))()
    cupti.cuptisim_stats(values)
    return CuptiStats(*values)


def cupti_set(name: str, value: int) -> None:
    if cupti.cuptisim_set(name.encode(), value):
        raise ValueError(f"the simulated CUPTI has no setting {name}")


def cupti_fail(function: str, result: int, *, after: int = 0, times: int = -1) -> None:
    cupti.cuptisim_fail(function.encode(), after, times, result)


def cupti_calls(function: str) -> int:
    return int(cupti.cuptisim_calls(function.encode()))


def set_schedule(name: str, seed: int = 1) -> None:
    runtime.cudasim_set_schedule(SCHEDULES.index(name))
    runtime.cudasim_set_seed(seed)


def set_rates(
    h2d_gbps: float = 25, d2h_gbps: float = 25, kernel_us: float = 5, host_us: float = 1
) -> None:
    runtime.cudasim_set_rates(h2d_gbps, d2h_gbps, kernel_us, host_us)


def set_capacity(size: int) -> None:
    runtime.cudasim_set_capacity(size)


def set_poison(byte: int | None) -> None:
    runtime.cudasim_set_poison(-1 if byte is None else byte)


def advance(nanoseconds: int) -> None:
    runtime.cudasim_advance_ns(nanoseconds)


def fail(function: str, *, after: int = 0, times: int = 1, error: int = 2) -> None:
    runtime.cudasim_fail(function.encode(), after, times, error)


def calls(function: str) -> int:
    return int(runtime.cudasim_calls(function.encode()))


def fail_one(*, after: int, error: int, breaks: bool = False) -> None:
    runtime.cudasim_fail_one(after, error, int(breaks))


def all_calls() -> int:
    return int(runtime.cudasim_all_calls())


@dataclasses.dataclass
class Failed:
    """The call that fail_one made fail."""

    function: str
    places: list[str]  # LIBRARY+OFFSET, from the caller outward

    @property
    def libraries(self) -> list[str]:
        return [place.partition("+")[0] for place in self.places]


def failed() -> Failed | None:
    message = runtime.cudasim_failed()
    if not message:
        return None
    function, *places = message.decode().split(" ")
    return Failed(function, places)


def trace_calls() -> None:
    runtime.cudasim_trace_calls()


def traced() -> list[str]:
    """FUNCTION LIBRARY+OFFSET of each call since trace_calls."""
    calls: list[str] = []
    while call := runtime.cudasim_traced(len(calls)):
        calls.append(call.decode())
    return calls


def peek(address: int, size: int) -> bytes:
    """Device bytes as they are now, whatever is still queued."""
    out = ctypes.create_string_buffer(size)
    if runtime.cudasim_peek(address, out, size):
        raise ValueError(f"{size} bytes at {address:#x} are not allocated")
    return out.raw


def hazards() -> list[str]:
    messages: list[str] = []
    while message := runtime.cudasim_hazard(len(messages)):
        messages.append(message.decode())
    return messages


def set_hazards_fatal(fatal: bool) -> None:
    runtime.cudasim_set_hazards_fatal(int(fatal))


def broken() -> str | None:
    message = runtime.cudasim_broken()
    return message.decode() if message else None


def mend() -> None:
    runtime.cudasim_mend()


class Exact:
    """Computes what torch runs on the device (exact.h). Needs torch loaded."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(str(LIBRARIES / "libcudasim_exact.so"))
        self._library.cudasim_exact_ops.restype = ctypes.c_uint64
        self._library.cudasim_exact_install()
        atexit.register(_run_what_is_queued)

    def watch_blocks(self) -> None:
        """Reports what torch's allocator takes and frees; needs a first tensor."""
        self._library.cudasim_exact_watch_blocks()

    def enable(self, enabled: bool) -> None:
        self._library.cudasim_exact_enable(int(enabled))

    @property
    def ops(self) -> int:
        return int(self._library.cudasim_exact_ops())
