"""Counts the instructions of training steps on the simulated device, under callgrind.

    valgrind --tool=callgrind --instr-atstart=no python bench/watch_child.py MARKS

STEPS steps are counted, in which ebbtide, if it is there, records the ops. Prints as
JSON how many windows of CUPTI ended among them, and why there were none.
"""

import cudasim  # isort: skip  # before torch
import ctypes
import gc
import json
import sys

import torch
from torch import Tensor, nn

import ebbtide

# Between two profiles, which are written at the 5th and the 9th step, and with the
# settling ones no more than a signature has windows.
SETTLE, STEPS = 6, 2
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


def windows() -> dict[str, object]:
    cupti = ebbtide.report().get("cupti") or {}
    return {name: cupti.get(name) for name in ("windows", "refused")}


def main() -> None:
    cudasim.set_schedule("late")
    model = nn.Sequential(*[Block() for _ in range(LAYERS)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    batch = torch.randn(BATCH, WIDTH, device="cuda")

    def step() -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    for _ in range(SETTLE):
        step()
    marks = ctypes.CDLL(sys.argv[1])
    marks.DumpCounts.argtypes = [ctypes.c_char_p]
    gc.collect()
    gc.disable()  # a collection would fall into any window by chance
    marks.BeginCounting()
    for _ in range(STEPS):
        step()
    marks.EndCounting()
    marks.DumpCounts(b"steps")
    print(json.dumps(windows()))


if __name__ == "__main__":
    main()
