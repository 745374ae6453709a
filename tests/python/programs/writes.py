"""Bytes that change without an op, behind the recorder, or with their storage."""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from programs.trial import ROWS, WIDTH, Trial, await_planner, data, leaf

# mypy: disallow-untyped-calls=False


def written_behind_the_dispatcher(t: Trial) -> None:
    """Bytes changed through NumPy: no op runs and no version is counted."""
    w = leaf(ROWS, WIDTH)
    row = leaf(WIDTH)
    wide, small = torch.zeros(ROWS, WIDTH), torch.zeros(WIDTH)
    mapped = torch.zeros(ROWS, WIDTH).share_memory_()
    read = torch.zeros(ROWS, WIDTH)
    sources = {
        "ours": (wide, wide.numpy()),
        "foreign": (foreign := torch.from_numpy(wide.numpy().copy()), foreign.numpy()),
        "small": (small, small.numpy()),
        "mapped": (mapped, None),
        "only read": (read, read.numpy()),
    }
    for step in range(3):
        for name, (source, array) in sources.items():
            if array is not None and name != "only read":
                array[:] = step + 1
            with t.work(f"{name} {step}"):
                g = w.tanh() * row.sin()
                h = (source * 0.5 + g).exp()  # saves nothing of the source
                loss = ((h * g).tanh() * h).sum() + (small * row).sum()
                del g, h
                torch.empty(1 << 20)
                if array is not None and name != "only read":
                    array[:] = 7  # the next batch is read already
                t.gradients(f"{name} {step}", loss, [w, row])


def rollout(
    t: Trial, label: str, w: Tensor, times: int, observe: Callable[[int], Tensor]
) -> None:
    """Steps that are each made of another observation, and one backward pass."""
    losses = []
    for time in range(times):
        h = observe(time)
        losses.append((h.sin() * h).sum())
        del h
        torch.empty(1 << 20)
    t.gradients(label, torch.stack(losses).sum(), [w])


def one_array_for_all_observations(t: Trial) -> None:
    """A rollout: NumPy fills one small array again before each of its steps."""
    w = leaf(ROWS, WIDTH)
    row = torch.zeros(WIDTH)
    flag = torch.zeros(1)
    arrays = row.numpy(), flag.numpy()
    for step in range(3):

        def observe(time: int, step: int = step) -> Tensor:
            arrays[0][:] = step + time
            arrays[1][:] = time % 2
            return ((w + row).tanh() * flag).exp()  # saves nothing of the two

        with t.work(f"rollout {step}"):
            rollout(t, f"rollout {step}", w, 4, observe)


def one_frame_for_all_observations(t: Trial) -> None:
    """The same with a large array, whose first frame each rollout begins with."""
    w = leaf(ROWS, WIDTH)
    frame = torch.zeros(ROWS, WIDTH)
    array = frame.numpy()

    def observe(time: int) -> Tensor:
        array[:] = time
        return (w + frame).tanh().exp()  # saves nothing of the frame

    for step in range(4):
        rollout(t, f"rollout {step}", w, 3, observe)


def inference_mode_writes(t: Trial) -> None:
    """Writes under inference mode look as if they came from below autograd."""
    w = leaf(ROWS, WIDTH)
    buffer = torch.ones(ROWS, WIDTH)
    for step in range(3):
        h = w * 1.5  # saves nothing
        loss = ((h + buffer).tanh().exp() * h.detach()[:1]).sum()
        torch.empty(1 << 20)
        with torch.inference_mode():
            buffer.add_(1)
            h.detach().mul_(2)
            h.data[1:].add_(1)
        try:
            t.gradients(f"step {step}", loss, [w])
        except RuntimeError as error:
            t.note(f"step {step}", str(error))
        h = w * 1.5
        loss = (h + buffer).tanh().exp().sum()
        torch.empty(1 << 20)
        with torch.inference_mode():
            buffer.add_(1)
            h.data.mul_(2)
        t.gradients(f"unsaved {step}", loss, [w])


def written_by_the_next_pair(t: Trial) -> None:
    """An op of one pair writes what a recipe of another reads."""
    w = leaf(ROWS, WIDTH)
    buffer = torch.ones(ROWS, WIDTH)
    for step in range(3):
        h = w * 1.5
        first = (h + buffer).tanh().exp().sum()
        t.gradients(f"between {step}", (w.sin() * w).sum(), [w])
        second = w.sigmoid()
        torch.empty(1 << 20)
        buffer.mul_(3)
        h.data.add_(1)
        loss = (second + buffer).exp().sum()
        torch.empty(1 << 20)
        t.gradients(f"first {step}", first, [w])
        t.gradients(f"second {step}", loss, [w])


def too_late(t: Trial) -> None:
    """Bytes that are relied upon are written through a pointer: an error, no number."""
    w = leaf(ROWS, WIDTH)
    source = data(ROWS, WIDTH)
    exporters: dict[str, Callable[[], Any]] = {
        "numpy": lambda: source.numpy(),
        "dlpack": lambda: np.from_dlpack(source),
        "pointer": lambda: np.ctypeslib.as_array(
            (ctypes.c_float * source.numel()).from_address(source.data_ptr())
        ),
    }
    for name, export in exporters.items():
        source = source.clone()
        for written in (False, True):
            loss = (source + w).tanh().exp().sum()
            torch.empty(1 << 20)
            array = export()
            if written:
                array += 3
            try:
                t.gradients(f"{name} {written}", loss, [w])
            except RuntimeError as error:
                t.note(f"{name} {written}", "behind PyTorch's back" in str(error))
            source = source.clone()


def storages_that_change_size(t: Trial) -> None:
    w = leaf(ROWS, WIDTH)
    for step in range(2):
        x = data(ROWS, WIDTH, seed=step)
        h = (x + 1).tanh()
        loss = ((h * w).exp() * h).sum()
        x.resize_(4)
        x = x.new_empty(0)
        t.gradients(f"input {step}", loss, [w])
        held = torch.zeros(ROWS, WIDTH)
        loss = ((held + w).tanh().exp()).sum()
        held.set_(torch.ones(3))  # type: ignore[call-overload]
        t.gradients(f"set {step}", loss, [w])
        shared = leaf(ROWS, WIDTH, seed=4)
        loss = (shared.tanh().exp() * w).sum()
        shared.share_memory_()
        t.gradients(f"shared {step}", loss, [shared, w])


def written_input_that_leaves(t: Trial) -> None:
    """Its block is freed by ebbtide alone, which has what it held."""
    w = leaf(ROWS, WIDTH)
    for step in range(3):
        h = data(ROWS, WIDTH, seed=step)
        g = w.sin()
        h.mul_(2)
        loss = ((h * g).tanh().exp() * (h * g.exp())).sum()
        del h, g
        torch.empty(1 << 20)
        t.gradients(f"step {step}", loss, [w])


class Gathered:
    """A weight as fully sharded training has it: there while its layer is used."""

    def __init__(self, seed: int) -> None:
        self.kept = data(WIDTH, WIDTH, seed=seed)
        self.weight = nn.Parameter(torch.empty(WIDTH, WIDTH))
        self.memory = self.weight.untyped_storage()
        self.size = self.memory.size()
        self.stays = False
        self.weight.register_post_accumulate_grad_hook(lambda _: self.release())
        self.release()

    def release(self) -> None:
        if not self.stays:
            self.memory.resize_(0)

    def gather(self) -> None:
        self.memory.resize_(self.size)
        torch.empty(1 << 22)  # drops what may go, while there is nothing in it
        weight = self.weight
        kept = torch.autograd.grad_mode._unsafe_preserve_version_counter(weight)
        with torch.no_grad(), kept:
            weight.copy_(self.kept)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.gather()
        y = self.compute(x)
        self.release()
        y.register_hook(lambda _: self.gather())
        return y

    def compute(self, x: torch.Tensor) -> torch.Tensor:
        return ((x @ self.weight).sin() * x).tanh()


def step_through(t: Trial, layers: Sequence[Gathered], step: int) -> None:
    x = data(ROWS, WIDTH, seed=step)
    for layer in layers:
        x = layer(x)
    torch.empty(1 << 22)
    t.gradients(f"step {step}", x.exp().sum(), [layer.weight for layer in layers])


def parameters_that_come_and_go(t: Trial) -> None:
    """Their bytes change without an op or a new version."""
    layers = [Gathered(seed) for seed in range(3)]
    for step in range(4):
        step_through(t, layers, step)


class GatheredLinear(Gathered):
    """Its product is not saved; the saved tensor is held until its weight is gone."""

    def compute(self, x: torch.Tensor) -> torch.Tensor:
        return (x @ self.weight + 1).tanh()


def parameters_that_go_once_plans_are_followed(t: Trial) -> None:
    """Values that plans have dropped until then cannot be dropped any more."""
    layers = [GatheredLinear(seed) for seed in range(4)]
    for step in range(24):
        for layer in layers:
            layer.stays = step < 12
        step_through(t, layers, step)
        await_planner()


def hooks_added_once_plans_are_followed(t: Trial) -> None:
    """A backward pass that went unobserved begins to write what recipes read."""
    factors = [torch.ones(WIDTH) for _ in range(4)]
    weights = [leaf(WIDTH, WIDTH, seed=i) for i in range(4)]

    def write(_: Tensor) -> None:
        for factor in factors:
            factor.add_(0.5)

    def forward(step: int) -> Tensor:
        x = data(ROWS, WIDTH, seed=step)
        for factor, weight in zip(factors, weights, strict=True):
            x = ((x @ weight + factor).sin() * x).tanh()
        if step >= 12:
            x.register_hook(write)
        torch.empty(1 << 22)
        return x.exp().sum()

    t.train(weights, forward, steps=24)


def leaf_given_other_data(t: Trial) -> None:
    """PyTorch saves a leaf as the variable that it is, not as its bytes."""
    w = leaf(ROWS, WIDTH)
    for step in range(2):
        other = nn.Parameter(w.detach().clone())
        loss = (other.tanh().exp() * other.sin()).sum()
        other.data = torch.zeros(ROWS, WIDTH)
        t.gradients(f"leaf {step}", loss, [other])


def written_through_lazy_views(t: Trial) -> None:
    """Views that are not dense tensors share the bytes of one."""
    w = leaf(ROWS, WIDTH)
    for name in ("batched", "conjugate", "negative"):
        a = torch.complex(data(ROWS, WIDTH, seed=1), data(ROWS, WIDTH, seed=2))
        loss = torch.view_as_real((a + w).sin().exp()).sum()
        torch.empty(1 << 20)  # drops `a + w`, which reads `a`
        lazy = a.conj()
        if name == "batched":
            torch.vmap(lambda row: row.mul_(2))(a)
        else:
            (lazy if name == "conjugate" else lazy.imag).mul_(2)
        t.gradients(name, loss, [w])
