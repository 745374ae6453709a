"""Opens ebbtide's core while `import torch` ends, if the environment asks.

`start` is an entry point of the group `torch.backends`. An exception that
leaves it would abort the user's `import torch`, so none does: every failure is
one line on standard error, and training goes on unmanaged.

The file is also loaded by its path, without the package around it
(boot/ebbtide_boot.py), so it imports nothing from the package and no torch.
"""

import atexit
import contextlib
import ctypes
import functools
import importlib.util
import os
import sys
import threading
import types
from collections.abc import Callable
from multiprocessing import util
from pathlib import Path
from typing import Any

# Two entry points can meet in one process: the installed one and the one that
# the preload library adds. They see each other by this name in sys.modules.
_MARK = "_ebbtide_core"

_LIBRARIES = Path(__file__).resolve().parent / "lib"


def wanted(environment: "os._Environ[str] | dict[str, str]") -> bool:
    """True if these variables ask for ebbtide at all."""
    if environment.get("EBBTIDE_DISABLE", "") not in ("", "0"):
        return False
    return bool(environment.get("EBBTIDE_BUDGET") or environment.get("EBBTIDE_RECORD"))


def start() -> None:
    """Starts the core once per process; called by `import torch`."""
    try:
        if wanted(os.environ):
            _open_core()
    except Exception as error:  # an exception here would end `import torch`
        _say_off(_text_of(error))


def running_core() -> ctypes.CDLL | None:
    """The core of this process, or None when it was not started."""
    mark = sys.modules.get(_MARK)
    return getattr(mark, "core", None)


def _open_core() -> None:
    mark = sys.modules.get(_MARK)
    if mark is not None and getattr(mark, "folder", None) == _LIBRARIES:
        return
    running = sys.modules["torch"].__version__
    folders = _folders()
    folder = folders.get(_minor(running))
    if folder is None:
        why = f"built for torch {', '.join(folders)}, this is torch {running}"
        if mark is None and _names_cuda(os.environ):
            sys.modules[_MARK] = types.ModuleType(_MARK)
            _plug_in(why)
        elif mark is None:
            _say_off(why)
        return
    core = ctypes.CDLL(str(_library(folder)), mode=os.RTLD_NOW | os.RTLD_LOCAL)
    if mark is None:
        mark = types.ModuleType(_MARK)
        mark.__dict__["folder"] = _LIBRARIES
        sys.modules[_MARK] = mark
    # Nonzero: the core has said why in its own line.
    if core.ebbtide_start(b"environment") == 0:
        mark.__dict__["core"] = core
        atexit.register(_finish_where_interrupted, core)
        util.register_after_fork(mark, _finish_at_its_end)
        try:
            _assist(core)
        except Exception as error:  # without it bits or lines would be wrong
            core.ebbtide_turn_off(_text_of(error).encode())


def _assist(core: ctypes.CDLL) -> None:
    """Does the part of the core's start that has to be done in Python."""
    _have_custom_ops_dispatched()
    if os.environ.get("EBBTIDE_WEIGHTS") == "1":
        _announce_addresses(core)
    if os.environ.get("EBBTIDE_RECORD"):
        _beside("_layers").start(core, _say)
    if os.environ.get("EBBTIDE_COMPILE") == "1" and os.environ.get("EBBTIDE_BUDGET"):
        _beside("_compile").start(core, _say)


def _beside(name: str) -> types.ModuleType:
    """A module of this folder, whether or not it is a package here."""
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"_ebbtide{name}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _finish_where_interrupted(core: ctypes.CDLL) -> None:
    """Python ends by SIGINT after a KeyboardInterrupt, without C's exit handlers."""
    if isinstance(getattr(sys, "last_value", None), KeyboardInterrupt):
        core.ebbtide_finish()


def _finish_at_its_end(mark: types.ModuleType) -> None:
    """In a child of multiprocessing, which ends without exit handlers."""
    util.Finalize(None, mark.core.ebbtide_finish, exitpriority=-1000)


def _have_custom_ops_dispatched() -> None:
    """Leads calls of ops from Python through the dispatcher, as before torch 2.15.

    2.15 calls their kernels beside it, where no observer sees that an op runs. Such a
    kernel must not be recomputed, whatever ops it may consist of.
    """
    torch: Any = sys.modules["torch"]
    enable = getattr(torch._ops.OpOverload, "_enable_pyobj_dispatch", None)
    if enable is None:
        return
    for op in list(torch._library.custom_ops.OPDEFS.values()):
        enable(op._opoverload, False)
    torch._ops.OpOverload._enable_pyobj_dispatch = lambda *_, **__: None


def _announce_addresses(core: ctypes.CDLL) -> None:
    """Calls the core before Python gets the address of a tensor's bytes.

    Offloaded weights are restored for it and stay from then on.
    """
    torch: Any = sys.modules["torch"]
    for name in ("expose", "hold", "release", "moves"):
        getattr(core, f"ebbtide_{name}").argtypes = [ctypes.c_void_p]
    storage_of = torch.Tensor.untyped_storage

    def announced(plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def access(self: Any, *args: Any, **kwargs: Any) -> Any:
            # Wrapped and fake tensors have no storage that anyone could name.
            with contextlib.suppress(RuntimeError, NotImplementedError):
                if self.device.type in ("cpu", "cuda") and self.layout is torch.strided:
                    core.ebbtide_expose(storage_of(self)._cdata)
            return plain(self, *args, **kwargs)

        return access

    for name in ("data_ptr", "numpy", "__dlpack__"):
        setattr(torch.Tensor, name, announced(getattr(torch.Tensor, name)))
    # A function, not a method: its first argument is the tensor.
    torch.to_dlpack = announced(torch.to_dlpack)
    torch.utils.dlpack.to_dlpack = torch.to_dlpack
    _hold_what_is_saved(core, announced(storage_of))


def _hold_what_is_saved(core: ctypes.CDLL, exposed_storage: Callable[..., Any]) -> None:
    """While torch.save runs weights are here one at a time, as they are written.

    `exposed_storage` is what Tensor.untyped_storage becomes outside of it.
    """
    torch: Any = sys.modules["torch"]
    thread = threading.local()
    storage, writer = torch.UntypedStorage, torch._C.PyTorchFileWriter
    storage_of, address_of = torch.Tensor.untyped_storage, storage.data_ptr

    def saves() -> bool:
        return getattr(thread, "saves", 0) > 0

    def untyped_storage(self: Any) -> Any:
        return storage_of(self) if saves() else exposed_storage(self)

    def data_ptr(self: Any) -> Any:
        # The caller compares addresses to find tensors that share bytes, and skips a 0.
        # Addresses of storages that are offloaded meanwhile would mislead it.
        if saves() and core.ebbtide_moves(self._cdata):
            return 0
        return address_of(self)

    def held(plain: Callable[..., Any], position: int) -> Callable[..., Any]:
        @functools.wraps(plain)
        def read(*args: Any, **kwargs: Any) -> Any:
            bytes_of = args[position] if position < len(args) else None
            if not isinstance(bytes_of, storage):
                return plain(*args, **kwargs)
            is_held = core.ebbtide_hold(bytes_of._cdata)
            try:
                return plain(*args, **kwargs)
            finally:
                if is_held:
                    core.ebbtide_release(bytes_of._cdata)

        return read

    def saving(plain: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(plain)
        def save(*args: Any, **kwargs: Any) -> None:
            thread.saves = getattr(thread, "saves", 0) + 1
            try:
                plain(*args, **kwargs)
            finally:
                thread.saves -= 1

        return save

    torch.Tensor.untyped_storage = functools.wraps(storage_of)(untyped_storage)
    storage.data_ptr = functools.wraps(address_of)(data_ptr)
    storage._write_file = held(storage._write_file, 0)
    storage.copy_ = held(storage.copy_, 1)
    writer.write_record = held(writer.write_record, 2)
    torch.save = saving(torch.save)


def _folders() -> dict[str, Path]:
    """Where the core lies for each minor version of torch it was built for."""
    others = sorted(_LIBRARIES.glob("torch-*/torch_version"))
    files = [_LIBRARIES / "torch_version", *others]
    return {_minor(file.read_text().strip()): file.parent for file in files}


def _library(folder: Path) -> Path:
    """The form of the core for this torch."""
    plain = folder / "libebbtide.so"
    if sys.modules["torch"].version.cuda is None:
        return plain
    cuda = folder / "libebbtide_cuda.so"
    if plain.exists() and not cuda.exists():
        _say("built for a torch without CUDA: CUDA memory is left alone")
        return plain
    return cuda


def _names_cuda(environment: "os._Environ[str] | dict[str, str]") -> bool:
    """True if a CUDA device is given a budget, not just whatever device is used."""
    parts = environment.get("EBBTIDE_BUDGET", "").split(",")
    return any(part.strip().startswith("cuda") for part in parts)


def _plug_in(why: str) -> None:
    """Holds CUDA to its budget in a torch that the core was not built for.

    Only where it was asked for by name: without torch's own allocator there are
    no statistics, which programs may ask for.
    """
    memory = sys.modules["torch"].cuda.memory
    library = _LIBRARIES / "libebbtide_pluggable.so"
    memory.change_current_allocator(
        memory.CUDAPluggableAllocator(str(library), "ebbtide_alloc", "ebbtide_free")
    )
    _say(
        f"{why}: CUDA is held to its budget by {library.name}, "
        "without eviction, cache and statistics"
    )


def _minor(version: str) -> str:
    return ".".join(version.split("+")[0].split(".")[:2])


def _text_of(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _say_off(why: str) -> None:
    # The preload library checks if this has been printed already.
    os.environ["EBBTIDE_LOADED_PID"] = str(os.getpid())
    _say("off: " + why)


def _say(line: str) -> None:
    """Says it once for all ranks: they have one environment and one torch."""
    if os.environ.get("RANK", "0") != "0":
        return
    print(f"ebbtide: {line}", file=sys.stderr, flush=True)
