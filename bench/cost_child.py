"""Counts the instructions of one part of `./dev bench cost`, under callgrind.

    valgrind --tool=callgrind --instr-atstart=no python bench/cost_child.py PART MARKS

Each part counts one or two windows, every one of them dumped under its name:
"ops" (OPS small dispatched ops) and "steps" (STEPS small training steps). At the
end the part's values are printed as JSON, the state of ebbtide among them.
"""

import ctypes
import gc
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import torch

import ebbtide
import overhead_child
from overhead_child import MIB, BallastStep, Step, expect, state

OPS = 200
STEPS = 3
# Steps before those that count: caches are filled, and ebbtide has decided.
SETTLE = 6
STEADY = 10
WATCH_BUDGET = 64 * MIB


class Counter:
    """Windows whose instructions are counted (bench/callgrind_marks.c)."""

    def __init__(self, library: str) -> None:
        self._marks = ctypes.CDLL(library)
        self._marks.DumpCounts.argtypes = [ctypes.c_char_p]

    def count(self, name: str, work: Callable[[], object], times: int) -> None:
        gc.collect()
        gc.disable()  # a collection would fall into any window by chance
        self._marks.BeginCounting()
        for _ in range(times):
            work()
        self._marks.EndCounting()
        self._marks.DumpCounts(name.encode())
        gc.enable()

    def ops(self, name: str = "ops") -> None:
        tensor = torch.randn(8)
        tensor.add(1.0)
        self.count(name, lambda: tensor.add(1.0), OPS)


def settled() -> Step:
    step = Step()
    for _ in range(SETTLE):
        step()
    return step


def plain(counter: Counter) -> dict[str, Any]:
    """Without ebbtide, or in the state in which nothing has to be done."""
    step = settled()
    counter.ops()
    counter.count("steps", step, STEPS)
    return {"packs": step.packs(), "state": state()}


def watch(counter: Counter) -> dict[str, Any]:
    """A pair stays open for the ops, and no step ever fits the budget."""
    weight = torch.randn(8, requires_grad=True)
    tensor = torch.randn(8)

    def exceed() -> None:  # never written: it costs address space only
        torch.empty(WATCH_BUDGET + MIB, dtype=torch.uint8)

    for _ in range(2):  # a tape's memory is reused by its successor
        held = (weight * weight).sum()
        for _ in range(2 * OPS):
            tensor.add(1.0)
        exceed()
        held.backward()  # type: ignore[no-untyped-call]
    held = (weight * weight).sum()
    expect("watch")
    counter.ops()
    held.backward()  # type: ignore[no-untyped-call]
    step = Step()

    def over() -> None:
        exceed()
        step()

    for _ in range(SETTLE):
        over()
    counter.count("steps", over, STEPS)
    return {"state": state()}


def prototype(counter: Counter) -> dict[str, Any]:
    """Its recorder alone for the ops, its plan that keeps all for the steps."""
    off, observe, steady, recorder_only = 0, 1, 3, 5
    library = ctypes.CDLL(sys.argv[3])
    library.rt_plan.argtypes = [ctypes.c_int] * 2 + [ctypes.c_long] + [ctypes.c_int] * 2
    library.rt_init()
    counter.ops("ops off")
    library.rt_mode(recorder_only, 1, 0)
    library.rt_step()
    counter.ops()
    library.rt_mode(off, 0, 0)
    library.rt_end()
    step = Step()

    def next_step() -> None:
        library.rt_step()
        step()

    library.rt_mode(observe, 1, 0)
    for _ in range(SETTLE):
        next_step()
    counter.count("steps observed", next_step, STEPS)
    library.rt_plan(5, 1, 65536, 1, 1)
    library.rt_mode(steady, 0, 0)
    for _ in range(SETTLE):
        next_step()
    counter.count("steps", next_step, STEPS)
    return {"state": state()}


def settle(step: Callable[[], object]) -> None:
    """Steps until ebbtide has kept to one plan for a while, or long enough."""
    steady = 0
    for _ in range(200):
        step()
        steady = steady + 1 if state() == "steady" else 0
        if steady == STEADY:
            return


def ballast(counter: Counter) -> dict[str, Any]:
    """A small step behind large saved tensors that a plan offloads."""
    # Under valgrind copies take longer, too.
    overhead_child.PAUSE_SECONDS = 0.5
    step = BallastStep(int(sys.argv[3]))
    if "EBBTIDE_BUDGET" in os.environ:
        settle(step)
    else:
        step()
    counter.count("steps", step, STEPS)
    report = ebbtide.report()
    wanted = ["peak", "peak_activations", "bytes_spilled", "ops_replayed"]
    result = {name: report.get(name) for name in wanted}
    # A step has two passes through the small model.
    return result | {"packs": 2 * step.small.packs(), "state": state()}


PARTS = {part.__name__: part for part in (plain, watch, prototype, ballast)}


def main() -> None:
    torch.set_num_threads(1)
    print(json.dumps(PARTS[sys.argv[1]](Counter(sys.argv[2]))))


if __name__ == "__main__":
    main()
