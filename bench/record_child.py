"""Counts the instructions of steps of bench/jobs/gpt.py, under callgrind.

    valgrind --tool=callgrind --instr-atstart=no python bench/record_child.py MARKS

At the job's small size, where what is recorded weighs most against what is
computed. Its budget is one that the steps fit; EBBTIDE_BENCH_PRESS=BYTES asks for so
many before each step, more than the budget, so that ebbtide never rests and records
all that it can. Prints {"steps": .., "state": ..} at the end.
"""

import json
import os
import sys

import torch

from cost_child import Counter
from harness import JOBS
from overhead_child import state

sys.path.insert(0, str(JOBS))
import common
import gpt

STEPS = 3
SETTLE = 6


class Training:
    """One optimizer step of the job."""

    def __init__(self) -> None:
        torch.manual_seed(1)
        self.shape = gpt.SHAPES["small"]
        self.text = common.standard_library_text(200_000)
        self.model = gpt.GPT(self.shape)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.press = int(os.environ.get("EBBTIDE_BENCH_PRESS", "0"))

    def __call__(self) -> None:
        if self.press:  # never written: it costs address space only
            torch.empty(self.press, dtype=torch.uint8)
        batch = common.text_batch(self.text, self.shape.batch, self.shape.length)
        self.optimizer.zero_grad()
        self.model(*batch).backward()
        self.optimizer.step()


def main() -> None:
    torch.set_num_threads(1)
    common.settle_vector_functions()
    step = Training()
    for _ in range(SETTLE):
        step()
    Counter(sys.argv[1]).count("steps", step, STEPS)
    print(json.dumps({"steps": STEPS, "state": state()}))


if __name__ == "__main__":
    main()
