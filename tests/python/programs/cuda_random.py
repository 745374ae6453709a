"""Random training loops on the simulated device: seed_N is the one with that seed.

The loops of training.py on the device, with the layers that exact mode computes, each
forward pass of at most a hundred ops. Zygote has to import this module first, and to
have the simulator preloaded; CUDA is initialised in the children alone.
"""

import functools
import gc
import os
import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

import cudasim
from programs import layers, training
from programs.layers import Layer
from programs.trial import Trial, digest

# mypy: disallow-untyped-calls=False, warn-return-any=False

MOST_OPS = (10, 10, 15, 15, 20, 25, 35, 50, 100)

exact = cudasim.Exact()
torch.backends.cudnn.enabled = False

# Without what takes an op for each of its time steps, and what the host has to
# know sizes of.
KINDS = {
    False: [
        kind
        for kind in layers.SEQUENCE
        if kind not in (layers.Recurrent, layers.Selecting)
    ],
    True: layers.IMAGE,
}


class Counter(TorchDispatchMode):
    """Counts the ops that run under it."""

    def __init__(self) -> None:
        super().__init__()
        self.ops = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.ops += 1
        return func(*args, **(kwargs or {}))


class InnerSequence(layers.Inner):
    make = staticmethod(layers.choose(KINDS[False]))


class Network(layers.Network):
    def __init__(self, draw: random.Random, noise: bool) -> None:
        super().__init__(draw, noise)
        inner: type[Layer] = layers.InnerImage if self.images else InnerSequence
        make = layers.choose([*KINDS[self.images], inner, inner, inner])
        self.layers = nn.ModuleList(make(draw, noise) for _ in range(9))
        self.shorten(draw.choice(MOST_OPS))
        self.to("cuda")

    def shorten(self, most: int) -> None:
        """Leaves the layers, at least one, that have so many ops together."""
        shape = (2, 3, layers.PIXELS, layers.PIXELS)
        x = torch.rand(shape) if self.images else torch.zeros(2, layers.TIME).long()
        while len(self.layers) > 1 and not self.is_short(x, most):
            del self.layers[-1]

    def is_short(self, x: Tensor, most: int) -> bool:
        """True if a forward pass has at most `most` ops; False if it fails."""
        try:
            # Saved tensors would count, which are detached for whoever manages them.
            with torch.no_grad(), Counter() as counter:
                self(x, 0)
        except RuntimeError:
            return False
        return counter.ops <= most


class Loop(training.Loop):
    device = "cuda"
    lengths = range(5, 8)
    batches: tuple[int, ...] = (16,)

    def __init__(self, seed: int) -> None:
        self.read_later: list[tuple[int, list[object]]] = []
        super().__init__(seed)
        self.parts = min(self.parts, 2)
        # Set if the host looks at all results at the end instead of at each.
        self.patient = self.draw.random() < 0.6

    def make_network(self) -> layers.Network:
        return Network(self.draw, self.noise)

    def generator_state(self) -> Tensor:
        return torch.cuda.get_rng_state()

    def note(self, label: str, *values: object) -> None:
        if not self.patient:
            copies = [v.cpu() if isinstance(v, Tensor) else v for v in values]
            super().note(label, *copies)
            return
        copies = [bring(v) if isinstance(v, Tensor) else v for v in values]
        self.read_later.append((len(self.notes), copies))
        self.notes.append((label, []))

    def run(self) -> None:
        with sdpa_kernel(SDPBackend.MATH):
            super().run()
        torch.cuda.synchronize()
        for index, copies in self.read_later:
            self.notes[index][1].extend(digest(copy) for copy in copies)


def bring(value: Tensor) -> Tensor:
    """A copy that the host may read once the device is done."""
    pinned = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
    return pinned.copy_(value.detach(), non_blocking=True)


def schedule() -> None:
    variable = os.environ.get
    cudasim.set_schedule(
        variable("RANDOM_SCHEDULE", "late"), int(variable("RANDOM_ORDER", "1"))
    )
    # Copies that take long find more than fast ones.
    speed = float(variable("RANDOM_GBPS", "25"))
    cudasim.set_rates(h2d_gbps=speed, d2h_gbps=speed)
    poison = variable("RANDOM_POISON")
    cudasim.set_poison(int(poison) if poison else None)


def left() -> dict[str, int]:
    """Bytes of the device and the host after everything has been released.

    The runtime holds the inputs of the last graph until the next one begins. It is a
    tiny one here, and so is the one before, which may have begun as another's.
    """
    gc.collect()
    for _ in range(2):
        tiny = torch.nn.Linear(1, 1, device="cuda")
        tiny(torch.ones(1, 1, device="cuda")).backward()
        del tiny
    gc.collect()
    torch.cuda.synchronize()
    torch._C._cuda_clearCublasWorkspaces()
    live = torch.cuda.memory_allocated()
    torch.cuda.empty_cache()
    torch._C._host_emptyCache()
    stats = cudasim.stats()
    return {
        "live": live,
        "reserved": torch.cuda.memory_reserved(),
        "device": stats.device_bytes,
        "pinned": stats.pinned_bytes,
        "out_of_bounds": stats.out_of_bounds,
        "hazards": stats.hazards,
    }


def run(t: Trial, seed: int, make: Callable[[int], Loop] = Loop) -> None:
    schedule()
    torch.zeros(1, device="cuda")
    exact.watch_blocks()
    loop = make(seed)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    loop.run()
    for label, digests in loop.notes:
        t.add(label, digests)
    t.add("device", [str(cudasim.broken()), *cudasim.hazards()])
    stats = torch.cuda.memory_stats()
    training.report_growth(t, [loop])
    t.count(
        "memory",
        before=before,
        peak=stats["allocated_bytes.all.peak"],
        reserved=stats["reserved_bytes.all.peak"],
        retries=stats["num_alloc_retries"],
        ooms=stats["num_ooms"],
        ops=exact.ops,
    )
    del loop
    t.count("left", **left())


def __getattr__(name: str) -> Callable[[Trial], None]:
    if not name.startswith("seed_"):
        raise AttributeError(name)
    return functools.partial(run, seed=int(name.removeprefix("seed_")))
