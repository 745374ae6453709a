"""A job of small ops for `./dev bench fits`: prints its state and step times.

    python bench/fits_child.py [--steps N] [--marks FILE]

The steps that count begin after those that ebbtide takes to find out that
nothing has to be done. With --marks (libcallgrind_marks.so) their instructions
are counted by valgrind's callgrind.
"""

import argparse
import ctypes
import gc
import json
import time

import torch

import ebbtide
from overhead_child import Step

SETTLE = 6


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--steps", type=int, default=3)
    p.add_argument("--marks")
    args = p.parse_args()
    torch.set_num_threads(1)
    step = Step()
    for _ in range(SETTLE):
        step()
    state = ebbtide.report().get("state", "none")
    gc.disable()  # a collection would fall into either run by chance
    took = []
    if args.marks:
        marks = ctypes.CDLL(args.marks)
        begin, end = marks.BeginCounting, marks.EndCounting
        begin()
        for _ in range(args.steps):
            step()
        end()
    else:
        for _ in range(args.steps):
            began = time.perf_counter_ns()
            step()
            took.append(time.perf_counter_ns() - began)
    print(json.dumps({"state": state, "nanoseconds": took}))


if __name__ == "__main__":
    main()
