"""PyTorch's own samples of its ops (torch.testing's OpInfo), trained through.

An op's inputs are computed from leaves, its outputs are saved: both can be dropped.
OPINFO in the environment says which ops, types and samples (Sweep). A line of JSON per
sample on standard output has the runtime's work for it.
"""

import ctypes
import dataclasses
import hashlib
import json
import os
import random
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.testing._internal import common_methods_invocations
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils import _pytree

import ebbtide
from programs.trial import Trial

# mypy: disallow-untyped-calls=False, warn-return-any=False


M_PERTURB = -6  # M_PERTURB of malloc.h


@dataclasses.dataclass
class Sweep:
    """Which samples: of the ops `part`, `part` + `parts` ... and each type at
    most `samples`, spread over all; `order` 2 also takes the gradient of the
    gradient."""

    part: int = 0
    parts: int = 1
    dtypes: list[str] = dataclasses.field(default_factory=lambda: ["float64"])
    samples: int = 4
    order: int = 1
    only: str = ""  # a name: these ops alone
    fill: int = 0  # a byte that new memory of the C library is filled with


FLOATING = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
COMPLEX = [torch.complex128, torch.complex64, torch.complex32]


def make_weights() -> dict[torch.dtype, Tensor]:
    steps = torch.arange(1 << 17, dtype=torch.float64)
    real = (steps * 0.7).cos() + 1.5
    both = torch.complex(real, (steps * 0.3).sin())
    return {d: real.to(d) for d in FLOATING} | {d: both.to(d) for d in COMPLEX}


WEIGHTS = make_weights()


def weights(like: Tensor) -> Tensor:
    """Fixed factors for the elements, which depend on the shape alone."""
    return WEIGHTS[like.dtype][: like.numel()].view(like.shape)


def digest(value: object) -> str:
    """SHA-256 over type, shape and bytes, without an op of its own where the
    tensor is dense: an op would be recorded, a NumPy array over it is seen."""
    if not isinstance(value, Tensor):
        return repr(value)
    if value.layout != torch.strided:
        return digest(value.detach().to_dense())
    dense = value.detach().resolve_conj().resolve_neg()
    if not dense.is_contiguous() or dense._is_zerotensor():
        dense = dense.clone(memory_format=torch.contiguous_format)
    size = dense.numel() * dense.element_size()
    data = ctypes.string_at(dense.data_ptr(), size) if size else b""
    text = f"{value.dtype} {tuple(value.shape)}".encode()
    return hashlib.sha256(text + data).hexdigest()[:16]


def is_differentiable(value: object) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def weighted(values: list[Tensor]) -> Tensor | None:
    """A number that has saved all of `values`."""
    total = None
    while values:
        value = values.pop()
        if value.layout != torch.strided:
            value = value.to_dense()
        term = ((value * value + value) * weights(value)).sum()
        del value
        term = term.real if term.is_complex() else term
        total = term if total is None else total + term
    return total


class Run:
    """One sample in one way."""

    def __init__(self, order: int) -> None:
        self._order = order
        self._leaves: list[Tensor] = []

    def _computed(self, value: object) -> object:
        if not isinstance(value, Tensor) or not value.requires_grad:
            return value
        leaf = value.detach().requires_grad_()
        self._leaves.append(leaf)
        return leaf.clone()

    def _forward(self, op: OpInfo, sample: SampleInput, in_place: bool) -> list[Tensor]:
        read = _pytree.tree_map(
            self._computed, (sample.input, sample.args, sample.kwargs)
        )
        function = op.inplace_variant if in_place else op.op
        result = function(read[0], *read[1], **read[2])
        result = sample.output_process_fn_grad(result)
        return [v for v in _pytree.tree_leaves(result) if isinstance(v, Tensor)]

    def notes(self, op: OpInfo, sample: SampleInput, in_place: bool) -> list[str]:
        outputs = self._forward(op, sample, in_place)
        notes = [digest(value) for value in outputs]
        loss = weighted([v for v in outputs if v.requires_grad])
        del outputs
        if loss is None:
            return ["'no output is differentiable'"]
        press()
        notes.append(digest(loss))
        gradients = torch.autograd.grad(
            loss, self._leaves, allow_unused=True, create_graph=self._order == 2
        )
        notes += [digest(value) for value in gradients]
        if self._order == 2:
            loss = weighted([v for v in gradients if is_differentiable(v)])
            del gradients
            if loss is not None:
                press()
                again = torch.autograd.grad(loss, self._leaves, allow_unused=True)
                notes += [digest(value) for value in again]
        return notes


def press() -> None:
    """A request, so that just released tensors are evicted as well."""
    torch.empty(1024)


def samples_of(op: OpInfo, dtype: torch.dtype, most: int) -> Iterator[tuple[int, Any]]:
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)
    every = list(op.sample_inputs("cpu", dtype, requires_grad=True))
    chosen = sorted({i * len(every) // most for i in range(min(most, len(every)))})
    if len(every) <= most:
        chosen = list(range(len(every)))
    for i in chosen:
        yield i, every[i]


def counted() -> dict[str, Any]:
    report = ebbtide.report()
    return {
        "replayed": report.get("ops_replayed", 0),
        "dropped": report.get("bytes_by_tier", {}).get("dropped", 0),
        "spilled": report.get("bytes_spilled", 0),
        "kept": report.get("not_replayable", {}),
    }


def difference(after: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    grown = {name: after[name] - before[name] for name in after if name != "kept"}
    kept = {
        why: size - before["kept"].get(why, 0)
        for why, size in after["kept"].items()
        if size > before["kept"].get(why, 0)
    }
    return grown | {"kept": kept}


def may_be_in_place(op: OpInfo, sample: SampleInput) -> bool:
    return (
        op.inplace_variant is not None
        and not sample.broadcasts_input
        and is_differentiable(sample.input)
    )


def sweep(t: Trial) -> None:
    warnings.simplefilter("ignore")
    plan = Sweep(**json.loads(os.environ["OPINFO"]))
    if plan.fill:
        ctypes.CDLL(None).mallopt(M_PERTURB, plan.fill)
    for op in common_methods_invocations.op_db[plan.part :: plan.parts]:
        for dtype in (getattr(torch, name) for name in plan.dtypes):
            if not op.supports_autograd:
                continue
            if dtype not in op.supported_backward_dtypes("cpu"):
                continue
            if plan.only and op.name != plan.only:
                continue
            print(json.dumps({"op": op.name}), flush=True)
            each_sample(t, op, dtype, plan)


def each_sample(t: Trial, op: OpInfo, dtype: torch.dtype, plan: Sweep) -> None:
    name = ".".join(filter(None, (op.name, op.variant_test_name)))
    for i, sample in samples_of(op, dtype, plan.samples):
        for in_place in (False, True):
            if in_place and not may_be_in_place(op, sample):
                continue
            label = f"{name}{'_' * in_place} {str(dtype)[6:]} {i}"
            torch.manual_seed(7)
            before = counted()
            try:
                notes = Run(plan.order).notes(op, sample, in_place)
            except Exception as error:  # PyTorch's own refusals
                notes = [repr(f"{type(error).__name__}: {error}")]
            t.add(label, notes)
            done = difference(counted(), before)
            print(json.dumps({"label": label, **done}), flush=True)
