"""The cases of weights.py on the simulated device.

Zygote has to import this module first, and to have the simulator preloaded.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler

from programs import weights
from programs.cuda_cases import on_device
from programs.trial import Trial, data

# mypy: disallow-untyped-calls=False

weights.shape = weights.ON_CUDA
# Sizes of the tensors of every_list_op.
SIDE = 256
PLACES = 8

loops = on_device(weights.loops)
lists = on_device(weights.lists)
fused = on_device(weights.fused)
accumulated = on_device(weights.accumulated)
momentum = on_device(weights.momentum)
tied = on_device(weights.tied)
averaged = on_device(weights.averaged)
saved = on_device(weights.saved)


@on_device
def mixed_lists(t: Trial) -> None:
    """Lists that PyTorch works through one by one: gradients have other strides."""

    def turn(parameter: Tensor) -> None:
        assert parameter.grad is not None
        parameter.grad = parameter.grad.t().contiguous().t()

    def make(parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
        known = list(parameters)
        for parameter in known:
            if parameter.dim() == 2:
                parameter.register_post_accumulate_grad_hook(turn)
        return torch.optim.AdamW(known, foreach=True)

    weights.run(t, make)


@on_device
def scaled(t: Trial) -> None:
    """Gradients are unscaled as one list, which says whether any is not finite."""
    model = weights.Network()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = GradScaler("cuda", init_scale=2.0**8, growth_interval=2)
    for step in range(weights.STEPS):
        rows = data(32, weights.shape.width, seed=step).to("cuda")
        loss = model(rows).pow(2).mean()
        if step == 2:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        t.note(f"scale {step}", scaler.get_scale())
    weights.note(t, "end", model)


@on_device
def on_two_streams(t: Trial) -> None:
    """Weights used on a second stream, ordered by the program, stay."""
    model = weights.Network()
    optimizer = torch.optim.AdamW(model.parameters())
    side = torch.cuda.Stream()
    for step in range(weights.STEPS):
        weights.backward(model, step)
        optimizer.step()
        optimizer.zero_grad()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            sums = [model.weight(layer).sum() for layer in range(4)]
        torch.cuda.current_stream().wait_stream(side)
        t.note(f"sums {step}", torch.stack(sums).cpu())
    weights.note(t, "end", model)


# Compiled at run time, for which the simulator has no compiler.
COMPILED_LATE = ("erfc", "lgamma")


def list_ops() -> list[Any]:
    """The overloads of `_foreach_` ops without the ones for given results."""
    names = torch._C._dispatch_get_all_op_names()
    found = []
    for name in sorted(n for n in names if n.startswith("aten::_foreach_")):
        base, _, overload = name.removeprefix("aten::").partition(".")
        if not overload.endswith("out") and not any(k in base for k in COMPILED_LATE):
            found.append(getattr(getattr(torch.ops.aten, base), overload or "default"))
    return found


def arguments_for(
    op: Any, numbers: torch.Generator
) -> tuple[list[Any], dict[str, Any]]:
    """By position, and by name for what may only be named."""
    given: list[Any] = []
    named: dict[str, Any] = {}
    for argument in op._schema.arguments:
        kind = str(argument.type)
        if kind == "List[Tensor]":
            drawn = torch.rand(PLACES, SIDE, SIDE, generator=numbers) + 0.1
            value: Any = [part.to("cuda") for part in drawn]
        elif argument.name == "scalars" and kind == "Tensor":
            value = torch.arange(1.0, PLACES + 1)
        elif kind == "Tensor":
            value = torch.tensor(2.0, device="cuda")
        elif kind.startswith("List"):
            value = [float(i + 1) for i in range(PLACES)]
        elif argument.has_default_value():
            continue
        else:
            value = 2.0
        if argument.kwarg_only:
            named[argument.name] = value
        else:
            given.append(value)
    return given, named


@on_device
def every_list_op(t: Trial) -> None:
    """In slices each gives what it gives whole."""
    numbers = torch.Generator().manual_seed(3)
    # So large tensors are managed from here on.
    torch.nn.Parameter(torch.ones(SIDE, SIDE, device="cuda")).sum()
    with torch.no_grad():
        for op in list_ops():
            given, named = arguments_for(op, numbers)
            made = op(*given, **named) or []
            lists = [value for value in given if isinstance(value, list)]
            parts = [part for values in [*lists, made] for part in values]
            tensors = [part.cpu() for part in parts if isinstance(part, Tensor)]
            t.note(str(op), len(tensors), *tensors)
        try:
            torch._foreach_add(lists[0], lists[0][1:])
        except RuntimeError as error:
            t.note("two lengths", str(error).splitlines()[0])
