"""Counts the instructions of training steps on the simulated device, under callgrind.

    valgrind --tool=callgrind --instr-atstart=no python bench/watch_child.py MARKS

Three stretches, each of steps of a kind that was not seen before: the first WINDOW of
one, then FEW more of it, and FEW of another early on, between two profiles. Where
ebbtide only records, the second are among those that are not recorded, and the third
among those that are. Prints as JSON how many windows of CUPTI ended in all, why there
were none, and how many steps of which state there were.
"""

import cudasim  # isort: skip  # before torch
import ctypes
import gc
import json
import sys

import torch
from torch import Tensor, nn

import ebbtide

WINDOW, FEW = 192, 2
STRETCHES = {"window": WINDOW, "between": FEW, "recorded": FEW}
# The profiles of a kind are written at its 3rd, 6th, 9th and 30th recorded step; the
# first of another kind is not recorded.
SETTLE, EARLY = 4, 7
WIDTH, LAYERS, BATCH = 128, 6, 32


class Block(nn.Module):
    """As in a transformer, without attention: small ops, so that the host is busy."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.wide = nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        wide = nn.functional.gelu(self.wide(self.norm(x)))
        return x + nn.functional.dropout(self.narrow(wide), 0.1)


def report() -> dict[str, object]:
    known = ebbtide.report()
    cupti = known.get("cupti") or {}
    found = {name: cupti.get(name) for name in ("windows", "refused")}
    return found | {"steps": known.get("steps_by_state")}


def main() -> None:
    cudasim.set_schedule("late")
    model = nn.Sequential(*[Block() for _ in range(LAYERS)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    batches = [torch.randn(BATCH + i, WIDTH, device="cuda") for i in range(3)]

    def train(batch: Tensor, steps: int) -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()

    marks = ctypes.CDLL(sys.argv[1])
    marks.DumpCounts.argtypes = [ctypes.c_char_p]

    def count(name: str, batch: Tensor) -> None:
        marks.BeginCounting()
        train(batch, STRETCHES[name])
        marks.EndCounting()
        marks.DumpCounts(name.encode())

    train(batches[0], SETTLE)
    gc.collect()
    gc.disable()  # a collection would fall into any stretch by chance
    count("window", batches[1])
    count("between", batches[1])
    train(batches[2], EARLY)
    count("recorded", batches[2])
    print(json.dumps(report()))


if __name__ == "__main__":
    main()
