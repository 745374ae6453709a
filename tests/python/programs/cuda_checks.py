"""Answers of PyTorch's CUDA allocator to a program, check by check.

Each check is a small program on the simulated device. It returns what it saw, in
values that two runs have in common: addresses are replaced by their order.
"""

import gc
import json
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from programs.trial import Trial

MIB = 1 << 20

Check = Callable[[], Any]


class Checks:
    """The checks of a module; `run` is its case."""

    def __init__(self) -> None:
        self._all: list[Check] = []

    def __call__(self, check: Check) -> Check:
        self._all.append(check)
        return check

    def run(self, trial: Trial) -> None:
        for check in self._all:
            torch.cuda.synchronize()
            gc.collect()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            trial.add(check.__name__, [json.dumps(check(), sort_keys=True)])


def block(mib: float, device: str = "cuda") -> Tensor:
    return torch.empty(int(mib * MIB), dtype=torch.uint8, device=device)


def ordered(addresses: Iterable[int]) -> dict[int, int]:
    """The number of each address among all of them."""
    return {address: place for place, address in enumerate(sorted(set(addresses)))}


def refusal(action: Callable[[], object]) -> list[str]:
    """The error of an action that must not succeed: its type and first line."""
    try:
        action()
    except Exception as error:
        return [type(error).__name__, str(error).split("\n")[0]]
    raise AssertionError("it was not refused")


def segments(snapshot: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A snapshot's segments without addresses, in their order."""
    streams: dict[int, int] = {}
    pools: dict[tuple[int, ...], int] = {}
    told = []
    for each in sorted(snapshot, key=lambda segment: segment["address"]):
        kept = {name: each[name] for name in each.keys() - {"address", "frames"}}
        kept["stream"] = streams.setdefault(each["stream"], len(streams))
        pool = tuple(each["segment_pool_id"])
        kept["segment_pool_id"] = pools.setdefault(pool, len(pools))
        kept["blocks"] = [
            {
                name: part["address"] - each["address"] if name == "address" else value
                for name, value in part.items()
                if name != "frames"
            }
            for part in each["blocks"]
        ]
        told.append(kept)
    return told


def trace(entries: list[dict[str, Any]]) -> list[list[Any]]:
    """A device's history: what, how large, which address by order, and who."""
    places = ordered(entry["addr"] for entry in entries if "addr" in entry)
    return [
        [
            entry["action"],
            entry["size"],
            places.get(entry.get("addr", -1)),
            [
                frame["name"]
                for frame in entry.get("frames", [])
                if "programs" in frame["filename"]
            ],
            sorted(entry.keys()),
        ]
        for entry in entries
    ]
