"""Measures the parts of `./dev bench overhead`, each in a process of its own.

Reads one job per line of standard input, {"part": name, "env": {..}, "windows":
n, ..}, forks a child for it (importing torch takes longer than any part) and
answers with one line: the part's values, or {"error": ..}. This process itself
runs no op and starts no thread, so a child is as good as a fresh process.

Each time is the least of many short windows, in nanoseconds. `env` decides if ebbtide
is there at all; a part that needs one of its states fails when it does not have it.
"""

import ctypes
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import ebbtide
from ebbtide import _entry

Job = dict[str, Any]

MIB = 1 << 20
LAYERS = 24
OPS = 500  # in one window
# The ballast: saved tensors that have to be offloaded.
STAGES = 6
STAGE_FLOATS = 2 * MIB // 4
# Copies in flight are a cost of the step, not of the packs: they end in here.
PAUSE_SECONDS = 0.01


def least(window: Callable[[], float], windows: int) -> float:
    return min(window() for _ in range(windows))


def window_of_ops(tensor: Tensor) -> float:
    """Nanoseconds of one small dispatched op, called from Python."""
    begin = time.perf_counter_ns()
    for _ in range(OPS):
        tensor.add(1.0)
    return (time.perf_counter_ns() - begin) / OPS


def nanoseconds_per_op(windows: int) -> float:
    tensor = torch.randn(8)
    return least(lambda: window_of_ops(tensor), windows)


def small_model(layers: int) -> nn.Sequential:
    return nn.Sequential(
        *[
            nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 32), nn.GELU())
            for _ in range(layers)
        ]
    )


class Step:
    """A training step in which bookkeeping is a large part of the time."""

    def __init__(self, layers: int = LAYERS) -> None:
        torch.manual_seed(1)
        self.model = small_model(layers)
        self.input = torch.randn(4, 32)
        self.parameters = list(self.model.parameters())

    def forget_gradients(self) -> None:
        # zero_grad() hashes addresses, and so differs from process to process.
        for parameter in self.parameters:
            parameter.grad = None

    def __call__(self) -> None:
        self.forget_gradients()
        self.model(self.input).pow(2).mean().backward()

    def packs(self) -> int:
        """Tensors that autograd saves in one step."""
        saved = 0

        def pack(tensor: Tensor) -> Tensor:
            nonlocal saved
            saved += 1
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            self.model(self.input).pow(2).mean()
        return saved

    def nanoseconds(self, windows: int, before: Callable[[], Any]) -> float:
        def window() -> float:
            before()
            begin = time.perf_counter_ns()
            self()
            return time.perf_counter_ns() - begin

        return least(window, windows)


def nothing() -> None:
    pass


def state() -> str:
    return str(ebbtide.report().get("state", "none"))


def expect(wanted: str) -> None:
    if state() != wanted:
        raise RuntimeError(f"ebbtide is in state {state()}, not {wanted}")


def unmanaged(job: Job) -> dict[str, float]:
    expect("none")
    step = Step()
    return {
        "packs": step.packs(),
        "op": nanoseconds_per_op(job["windows"]),
        "step": step.nanoseconds(job["windows"], nothing),
    }


def watch(job: Job) -> dict[str, float]:
    """A pair stays open for the ops, and no step ever fits the budget."""
    weight = torch.randn(8, requires_grad=True)
    held = weight * weight
    expect("watch")
    op = nanoseconds_per_op(job["windows"])
    del held
    step = Step()

    def exceed() -> None:  # never written: it costs address space only
        torch.empty(job["budget"] + MIB, dtype=torch.uint8)

    result = {"op": op, "step": step.nanoseconds(job["windows"], exceed)}
    expect("watch")
    return result


def idle(job: Job) -> dict[str, float]:
    step = Step()
    for _ in range(5):
        step()
    expect("idle")
    result = {
        "op": nanoseconds_per_op(job["windows"]),
        "step": step.nanoseconds(job["windows"], nothing),
    }
    expect("idle")
    return result


def prototype(job: Job) -> dict[str, float]:
    """Its recorder alone for the ops, its plan that keeps all for the step."""
    off, observe, steady, recorder_only = 0, 1, 3, 5
    library = ctypes.CDLL(job["library"])
    library.rt_plan.argtypes = [ctypes.c_int] * 2 + [ctypes.c_long] + [ctypes.c_int] * 2
    library.rt_init()
    result = {"op_off": nanoseconds_per_op(job["windows"])}
    library.rt_mode(recorder_only, 1, 0)
    library.rt_step()
    result["op"] = nanoseconds_per_op(job["windows"])
    library.rt_mode(off, 0, 0)
    library.rt_end()
    step = Step()
    library.rt_mode(observe, 1, 0)
    result["step_observe"] = step.nanoseconds(job["windows"], library.rt_step)
    library.rt_step()
    step()
    library.rt_plan(5, 1, 65536, 1, 1)
    library.rt_mode(steady, 0, 0)
    result["step"] = step.nanoseconds(job["windows"], library.rt_step)
    return result


class BallastStep:
    """Large saved tensors in front of the small model, timed apart from them.

    Every stage changes the input of its saved tensor: that cannot be recomputed, so a
    budget below the peak can be kept by offloading only.
    """

    def __init__(self, layers: int) -> None:
        self.small = Step(layers)
        self.buffer = torch.randn(STAGE_FLOATS)
        self.scale = torch.zeros((), requires_grad=True)
        self.tensor = torch.randn(8)
        self.ops: list[float] = []  # times of every step
        self.began = 0
        self.backward_took = 0

    def ballast(self) -> Tensor:
        total = torch.zeros(())
        for _ in range(STAGES):
            saved = self.buffer + self.scale
            total = total + (saved * saved).mean()
            with torch.no_grad():
                self.buffer.add_(0.001)
        return total

    def begin_backward(self, _: Tensor) -> None:
        self.began = time.perf_counter_ns()

    def end_backward(self, _: Tensor) -> None:
        self.backward_took = time.perf_counter_ns() - self.began

    def __call__(self) -> float:
        """Nanoseconds of a forward and a backward pass of the small model.

        Each follows another one, which warms caches: copies have run meanwhile.
        Backward takes the graph that was made last first.
        """
        self.small.forget_gradients()
        self.scale.grad = None
        total = self.ballast()
        total.register_hook(self.end_backward)  # type: ignore[no-untyped-call]
        time.sleep(PAUSE_SECONDS)
        self.ops.append(window_of_ops(self.tensor))
        x = self.small.input + total
        first = self.small.model(x).pow(2).mean()
        begin = time.perf_counter_ns()
        second = self.small.model(x).pow(2).mean()
        forward_took = time.perf_counter_ns() - begin
        first.register_hook(self.begin_backward)
        (first + second).backward()
        return forward_took + self.backward_took


def settle(step: BallastStep, job: Job) -> None:
    """Steps until a plan is made, proven and followed, or long enough."""
    for _ in range(job["settle"]):
        step()
    if "EBBTIDE_BUDGET" not in job["env"]:
        return
    followed = 0
    for _ in range(100):
        if state() == "steady" or followed >= 12:
            return
        step()
        followed += state() == "active"


def ballast(job: Job) -> dict[str, Any]:
    """The small model behind the ballast, with what ebbtide makes of it."""
    step = BallastStep(job["layers"])
    settle(step, job)
    before = len(step.ops)
    result: dict[str, Any] = {}
    if state() == "none":
        result["packs"] = step.small.packs()
    took = least(step, job["windows"])
    report = ebbtide.report()
    wanted = ["state", "peak", "peak_activations", "bytes_spilled", "ops_replayed"]
    result |= {"step": took, "op": min(step.ops[before:])}
    return result | {name: report.get(name) for name in wanted}


PARTS = {part.__name__: part for part in (unmanaged, watch, idle, prototype, ballast)}


def child(job: Job) -> None:
    """Prints the answer and ends; nothing of the parts has to be closed."""
    os.environ.update(job["env"])
    _entry.start()
    torch.set_num_threads(1)
    try:
        answer = PARTS[job["part"]](job)
    except Exception:
        answer = {"error": traceback.format_exc()}
    print(json.dumps(answer), flush=True)
    os._exit(0)


def main() -> None:
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if pid == 0:
            child(job)
        _, status = os.waitpid(pid, 0)
        if status != 0:
            ended = os.waitstatus_to_exitcode(status)
            error = f"the process ended with status {ended}"
            print(json.dumps({"error": error}), flush=True)


if __name__ == "__main__":
    main()
