"""A GPT on the simulated device, timed by its virtual clock; nothing is computed.

    overlap_child.py STEPS [SAME]

Takes STEPS steps, or as many as it takes until SAME of them in a row have followed
one plan, and prints one line of JSON. The device always has work queued: its clock
runs on kernels and copies, and the host's own speed is in no figure.
"""

import cudasim  # noqa: F401, isort: skip  # before torch
import json
import sys
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as nnf

import ebbtide

# mypy: disallow-untyped-calls=False, warn-return-any=False

WIDTH, HEADS, DEPTH, BATCH, LENGTH = 256, 4, 8, 8, 256


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.project = nn.Linear(WIDTH, WIDTH)
        self.wide = nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norms[0](x)).chunk(3, dim=2)
        q, k, v = (
            part.view(BATCH, LENGTH, HEADS, -1).transpose(1, 2) for part in (q, k, v)
        )
        y = nnf.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(y.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH))
        return x + self.narrow(nnf.gelu(self.wide(self.norms[1](x))))


class Step:
    """One step's place on the device's clock."""

    def __init__(self) -> None:
        self._marks = [torch.cuda.Event(enable_timing=True) for _ in range(4)]
        self._reached = 0
        self.mark()

    def mark(self) -> None:
        self._marks[self._reached].record()
        self._reached += 1

    def milliseconds(self) -> list[float]:
        """Times of forward, of backward, and of all with the optimizer."""
        begin, middle, last, end = self._marks
        return [
            begin.elapsed_time(middle),
            middle.elapsed_time(last),
            begin.elapsed_time(end),
        ]


def is_settled(report: dict[str, Any], same: int) -> bool:
    """True if the last steps, all but one of those in the report, followed one plan."""
    steps = [plan["steps"] for plan in report.get("plans", [])]
    last: list[int] = max(steps, key=lambda s: s[-1], default=[])
    known = int(report.get("steps", 0))
    return last[-same:] == list(range(known - same, known))


def done_in_last_step(reports: list[dict[str, Any]], what: str) -> int:
    before, after = ([{}, {}, *reports])[-2:]
    return int(after.get(what, 0) - before.get(what, 0))


def main(most: int, same: int) -> None:
    model = nn.Sequential(*[Block() for _ in range(DEPTH)]).to("cuda")
    x = torch.empty(BATCH, LENGTH, WIDTH, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    steps: list[Step] = []
    reports: list[dict[str, Any]] = []
    while len(steps) < most and not (
        same and reports and is_settled(reports[-1], same)
    ):
        step = Step()
        loss = model(x).square().mean()
        step.mark()
        loss.backward()
        step.mark()
        optimizer.step()
        optimizer.zero_grad()
        step.mark()
        steps.append(step)
        reports.append(ebbtide.report())
    torch.cuda.synchronize()
    told = {
        "steps": [step.milliseconds() for step in steps],
        "allocated_peak": torch.cuda.max_memory_allocated(),
        "reserved_peak": torch.cuda.max_memory_reserved(),
        "moved": done_in_last_step(reports, "bytes_spilled"),
        "replayed": done_in_last_step(reports, "ops_replayed"),
        "report": ebbtide.report(),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
