"""Passes the names of a module's parameters to the core, for traces (EBBTIDE_RECORD).

Modules are known by PyTorch's own hooks for what is registered in them. Looking for
them among all objects would keep tensors alive meanwhile.

Loaded by its path, as _entry.py is: it imports nothing from the package.
"""

import _thread
import ctypes
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Say = Callable[[str], None]


def start(core: ctypes.CDLL, say: Say) -> None:
    """From now on, on a thread of its own."""
    core.ebbtide_name_parameter.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    known: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()

    def remember(module: Any, _name: str, _part: Any) -> None:
        known[id(module)] = module

    hooks: Any = sys.modules["torch"].nn.modules.module
    hooks.register_module_parameter_registration_hook(remember)
    hooks.register_module_module_registration_hook(remember)
    # Not of `threading`, which would list it among the program's own.
    _thread.start_new_thread(_tell_names, (core, known, say))


def _tell_names(core: ctypes.CDLL, known: Mapping[int, Any], say: Say) -> None:
    pause = 0.1
    while True:
        core.ebbtide_await_nameless()  # without the interpreter
        try:
            _tell_names_once(core, known)
        except RuntimeError:  # a module changed while we looked: the next time
            pass
        except Exception as error:
            return say(f"no names of layers: {type(error).__name__}: {error}")
        # Leaves that no module has come as often as a program likes.
        time.sleep(pause)
        pause = min(2 * pause, 60)


def _tell_names_once(core: ctypes.CDLL, known: Mapping[int, Any]) -> None:
    for name, parameter in _named_parameters(list(known.values())):
        core.ebbtide_name_parameter(parameter._cdata, name.encode())


def _named_parameters(modules: list[Any]) -> Iterator[tuple[str, Any]]:
    """As named_parameters() has them, which a script may override.

    Behind the name of its class where several modules that are in no other have
    parameters.
    """
    inner = {id(part) for m in modules for part in _parts(m, "_modules").values()}
    trees = [
        (type(m).__name__, tree)
        for m in modules
        if id(m) not in inner and (tree := dict(_below(m, "", set())))
    ]
    for root, tree in trees:
        prefix = f"{root}." if len(trees) > 1 else ""
        for name, parameter in tree.items():
            yield prefix + name, parameter


def _parts(module: Any, kind: str) -> dict[str, Any]:
    parts = vars(module).get(kind) or {}
    return {name: part for name, part in parts.items() if part is not None}


def _below(module: Any, prefix: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    if id(module) in seen:
        return
    seen.add(id(module))
    for name, parameter in _parts(module, "_parameters").items():
        yield prefix + name, parameter
    for name, part in _parts(module, "_modules").items():
        yield from _below(part, f"{prefix}{name}.", seen)
