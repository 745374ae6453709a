"""Hands torch.compile's partitioner its share of the budget (EBBTIDE_COMPILE=1).

A compiled graph is cut into a forward and a backward part before its first step, and
what crosses the cut is what it saves. The share is chosen there and then, once per
process, by the first graph that is trained: what the budget leaves over what the
graph would save, in hundredths. It is the process's
`activation_memory_budget` from then on, as if the program had set it. Nothing else of
a compilation is touched, CUDA graphs included.

Loaded by its path, as _entry.py is: it imports nothing from the package.
"""

import ctypes
import functools
import gc
import importlib.util
import math
import os
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_PARTITIONER = "torch._functorch.partitioners"

# They know a graph as it is before the cut, and not by whom it was cut.
_CACHES = ("enable_autograd_cache", "enable_remote_autograd_cache")

# PyTorch lets 0 make everything again, random numbers, too.
_LEAST = 0.01

# Cuts of the first graph to find its share.
_TRIES = 6

Say = Callable[[str], None]


def start(core: ctypes.CDLL, say: Say) -> None:
    """Takes its place in the partitioner, now or when something is compiled."""
    core.ebbtide_room.restype = ctypes.c_int64

    def attach(partitioner: ModuleType) -> None:
        try:
            _attach(partitioner, core, say)
        except Exception as error:  # it would end an import of the program's
            _leave(say, f"{type(error).__name__}: {error}")

    partitioner = sys.modules.get(_PARTITIONER)
    if partitioner is not None:
        attach(partitioner)
    else:
        # Importing it takes seconds, and most processes compile nothing.
        sys.meta_path.insert(0, _Awaited(attach))


class _Awaited:
    """Calls `then` with the partitioner's module once that has been imported."""

    def __init__(self, then: Callable[[ModuleType], None]) -> None:
        self.then = then

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        if name != _PARTITIONER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self.then(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _attach(partitioner: Any, core: ctypes.CDLL, say: Say) -> None:
    config: Any = getattr(partitioner, "config", None)
    plain = getattr(partitioner, "choose_saved_values_set", None)
    if plain is None or not hasattr(config, "activation_memory_budget"):
        return _leave(say, "this torch has no activation_memory_budget")
    caches = {name: getattr(config, name) for name in _CACHES if hasattr(config, name)}
    _set(config, dict.fromkeys(caches, False))
    if any(getattr(config, name) for name in caches):
        _set(config, caches)
        return _leave(
            say,
            "TORCHINDUCTOR_AUTOGRAD_CACHE keeps a cache on that would give these "
            "graphs to other runs",
        )
    share: float | None = None

    @functools.wraps(plain)
    def choose(joint_graph: Any, node_info: Any, memory_budget: float = 1) -> Any:
        nonlocal share
        try:
            if share is None:
                share = 1.0
                cut = functools.partial(plain, joint_graph, node_info)
                share = _share(partitioner, joint_graph, node_info, cut, core, say)
                if share < 1:
                    config.activation_memory_budget = share
                    memory_budget = share if memory_budget == 1 else memory_budget
                else:  # native savings may be cached
                    _set(config, caches)
            if share < 1 and memory_budget == share:
                _pin(partitioner, joint_graph)
                return plain(joint_graph, node_info, share)
        except Exception as error:  # it would end the compilation
            if config.activation_memory_budget == share:
                config.activation_memory_budget = 1.0
            memory_budget = 1.0 if memory_budget == share else memory_budget
            share = 1.0
            _leave(say, f"{type(error).__name__}: {error}")
        return plain(joint_graph, node_info, memory_budget)

    partitioner.choose_saved_values_set = choose
    return None


def _leave(say: Say, why: str) -> None:
    say(f"torch.compile is left as it is: {why}")


def _set(config: Any, values: dict[str, Any]) -> None:
    for name, value in values.items():
        setattr(config, name, value)


def _share(
    partitioner: Any,
    joint_graph: Any,
    node_info: Any,
    cut: Callable[[float], Any],
    core: ctypes.CDLL,
    say: Say,
) -> float:
    """The first graph's share, for which `cut` gives the saved nodes; prints it,
    too."""
    given = partitioner.config.activation_memory_budget
    if given != 1:
        _leave(say, f"the program has set activation_memory_budget to {given}")
        return 1.0

    def size(nodes: Any) -> int:
        return sum(partitioner._size_of(node) for node in nodes)

    # PyTorch's share is of what goes beyond the inputs, which live anyhow.
    most = size(cut(1)) - size(node_info.inputs)
    room = core.ebbtide_room() - _to_come(partitioner, joint_graph)
    share = 1.0
    if most > max(room, 0):
        _pin(partitioner, joint_graph)
        share = max(math.floor(100 * room / most) / 100, _LEAST)
        # PyTorch only aims at a share: with it a graph may save more, because
        # recomputation needs other inputs. Each try takes as long as a compilation's.
        for _ in range(_TRIES):
            over = size(cut(share)) - size(node_info.inputs) - room
            if over <= 0 or share == _LEAST:
                break
            share = max(math.floor(100 * (share - over / most)) / 100, _LEAST)
    if os.environ.get("EBBTIDE_LOG") != "off":
        say(
            f"torch.compile: activation_memory_budget {share:g}: the first graph saves "
            f"{_mebibytes(most)}, the budget leaves {_mebibytes(room)}"
        )
    return share


def _to_come(partitioner: Any, joint_graph: Any) -> int:
    """Bytes that the budget has not seen yet, and that are no saved tensors."""
    end = joint_graph.find_nodes(op="output")[0]
    made = sum(partitioner._size_of(node) for node in end.all_input_nodes)
    sizes = (
        partitioner._size_of(node) for node in joint_graph.nodes if node is not end
    )
    # Results and gradients; what an op of the backward part reads and writes; and
    # what optimizers are going to keep.
    return int(made + 2 * max(sizes)) + _optimizer_state(partitioner.torch)


def _optimizer_state(torch: Any) -> int:
    """Bytes of the optimizer state that parameters have not got yet, as in
    torch.optim."""
    state = 0
    for thing in gc.get_objects():
        # isinstance would ask what is a proxy of something.
        if not issubclass(type(thing), torch.optim.Optimizer):
            continue
        for group in thing.param_groups:
            copies = 2 if "betas" in group else 1 if group.get("momentum") else 0
            new = [
                p for p in group["params"] if p.requires_grad and p not in thing.state
            ]
            state += copies * sum(p.nbytes for p in new)
    return state


def _pin(partitioner: Any, joint_graph: Any) -> None:
    """Makes a graph save values that might differ when recomputed.

    With a share below 1 PyTorch may draw the random numbers of a dropout anew in the
    backward part, and the gradients are wrong. Operators that are not PyTorch's own
    may do anything.
    """
    seeded = partitioner.torch.Tag.nondeterministic_seeded
    for node in joint_graph.nodes:
        namespace = getattr(node.target, "namespace", "aten")
        tags = getattr(node.target, "tags", ())
        if namespace not in ("aten", "prims") or seeded in tags:
            node.meta["recompute"] = partitioner.CheckpointPolicy.MUST_SAVE


def _mebibytes(count: int) -> str:
    return f"{max(count, 0) / (1 << 20):.2f} MiB"
