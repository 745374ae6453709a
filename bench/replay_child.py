"""A job of bench/jobs on the simulated device: its memory, and a snapshot of one step.

    replay_child.py SNAPSHOT STEPS SHARE JOB ARGUMENTS...

The snapshot's history is of the last of STEPS steps, from the end of one call of the
optimizer to the end of the next. Nothing is computed. SHARE per cent of the large
tensors that autograd saves are moved to the host by a copy on a stream of its own and
come back on that stream, as programs do that offload by themselves. Prints one line of
JSON: what was reserved and live at most.
"""

import cudasim  # noqa: F401, isort: skip  # before torch
import contextlib
import json
import runpy
import sys
from pathlib import Path

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook

# mypy: disallow-untyped-calls=False

JOBS = Path(__file__).resolve().parent / "jobs"
LARGE = 1 << 18


class Offload:
    """Saved-tensor hooks with a copy stream; record_stream keeps blocks apart."""

    def __init__(self, share: int) -> None:
        self.share = share
        self.seen = 0
        self.side = torch.cuda.Stream()

    def pack(self, tensor: Tensor) -> Tensor:
        if not tensor.is_cuda or tensor.nbytes < LARGE or tensor.is_leaf:
            return tensor
        self.seen += 1
        if self.seen * self.share // 100 == (self.seen - 1) * self.share // 100:
            return tensor
        away = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            away.copy_(tensor, non_blocking=True)
        tensor.record_stream(self.side)
        return away

    def unpack(self, tensor: Tensor) -> Tensor:
        if tensor.is_cuda or not tensor.is_pinned():
            return tensor
        with torch.cuda.stream(self.side):
            back = tensor.to("cuda", non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.side)
        back.record_stream(torch.cuda.current_stream())
        return back


def main() -> None:
    path, steps, share, job, *arguments = sys.argv[1:]
    done = 0

    def after_step(*_: object) -> None:
        nonlocal done
        done += 1
        if done == int(steps) - 1:
            torch.cuda.memory._record_memory_history("all", context=None)
        elif done == int(steps):
            torch.cuda.memory._dump_snapshot(path)
            torch.cuda.memory._record_memory_history(None)

    register_optimizer_step_post_hook(after_step)
    sys.argv = [job, *arguments, "--steps", steps, "--device", "cuda"]
    with contextlib.ExitStack() as stack:
        if int(share) > 0:
            offload = Offload(int(share))
            stack.enter_context(
                torch.autograd.graph.saved_tensors_hooks(offload.pack, offload.unpack)
            )
        with contextlib.redirect_stdout(sys.stderr):
            runpy.run_path(str(JOBS / f"{job}.py"), run_name="__main__")
    stats = torch.cuda.memory_stats()
    print(
        json.dumps(
            {
                "reserved": stats["reserved_bytes.all.peak"],
                "live": stats["allocated_bytes.all.peak"],
            }
        )
    )


if __name__ == "__main__":
    main()
