"""Models whose weights, gradients and optimizer state do not fit their budget.

Results are noted as copies: who asks for the address of a weight keeps it here.
"""

import copy
import ctypes
import dataclasses
import io
import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from programs.trial import WIDTH, Trial, data

# mypy: disallow-untyped-calls=False, warn-return-any=False

STEPS = 4


@dataclasses.dataclass
class Shape:
    layers: int
    width: int
    device: str

    @property
    def state_bytes(self) -> int:
        """Bytes of parameters, gradients and two moments."""
        return 4 * self.layers * self.width * self.width * 4


ON_CPU = Shape(8, WIDTH, "cpu")
# PyTorch's allocator reserves pieces of 2 and 20 MiB.
ON_CUDA = Shape(16, 512, "cuda")
shape = ON_CPU


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        layers = (nn.Linear(shape.width, shape.width) for _ in range(shape.layers))
        self.layers = nn.ModuleList(layers)
        self.to(shape.device)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x).tanh()
        return x

    def weight(self, layer: int) -> nn.Parameter:
        found = self.layers[layer].weight
        assert isinstance(found, nn.Parameter)
        return found


def backward(model: Network, step: int) -> None:
    rows = data(32, shape.width, seed=step).to(shape.device)
    model(rows).pow(2).mean().backward()


def note(t: Trial, label: str, model: nn.Module) -> None:
    for name, value in model.state_dict().items():
        t.note(f"{label} {name}", value.clone().cpu())


def note_moments(t: Trial, optimizer: torch.optim.Optimizer) -> None:
    for number, state in optimizer.state_dict()["state"].items():
        for name, value in state.items():
            t.note(f"moments {number} {name}", value.clone().cpu())


def run(
    t: Trial,
    make: Callable[..., torch.optim.Optimizer],
    after: Callable[[int, Network, Any], None] = lambda *_: None,
    *,
    clip: bool = False,
    to_none: bool = True,
    passes: int = 1,
) -> None:
    model = Network()
    optimizer = make(model.parameters())
    for step in range(STEPS):
        for part in range(passes):
            backward(model, 10 * step + part)
        if clip:
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
            t.note(f"norm {step}", norm.cpu())
        optimizer.step()
        optimizer.zero_grad(set_to_none=to_none)
        after(step, model, optimizer)
    note(t, "end", model)
    note_moments(t, optimizer)


def loops(t: Trial) -> None:
    run(t, lambda p: torch.optim.AdamW(p, foreach=False))


def lists(t: Trial) -> None:
    run(t, lambda p: torch.optim.AdamW(p, foreach=True), clip=True)


def fused(t: Trial) -> None:
    run(t, lambda p: torch.optim.AdamW(p, fused=True))


def accumulated(t: Trial) -> None:
    run(t, lambda p: torch.optim.AdamW(p, foreach=False), passes=3, to_none=False)


def momentum(t: Trial) -> None:
    run(t, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), clip=True)


def saved(t: Trial) -> None:
    """Checkpoints of model and optimizer, read back and trained on."""

    def after(step: int, model: Network, optimizer: Any) -> None:
        file = io.BytesIO()
        torch.save({"model": model.state_dict(), "moments": optimizer}, file)
        t.note(f"whole {step}", len(file.getvalue()))
        file.seek(0)
        loaded = torch.load(file, weights_only=False)
        other = Network()
        other.load_state_dict(loaded["model"])
        note(t, f"loaded {step}", other)
        note_moments(t, loaded["moments"])
        optimizer.load_state_dict(loaded["moments"].state_dict())

    run(t, lambda p: torch.optim.AdamW(p, foreach=False), after)


def copied(t: Trial) -> None:
    def after(step: int, model: Network, optimizer: Any) -> None:
        note(t, f"copy {step}", copy.deepcopy(model))
        first = copy.deepcopy(optimizer.state_dict())["state"][0]["exp_avg"]
        t.note(f"moment {step}", first)

    run(t, lambda p: torch.optim.AdamW(p, foreach=False), after)


def averaged(t: Trial) -> None:
    means: list[AveragedModel] = []

    def after(step: int, model: Network, _: Any) -> None:
        if not means:
            means.append(AveragedModel(model))
        means[0].update_parameters(model)
        note(t, f"mean {step}", means[0])

    run(t, lambda p: torch.optim.AdamW(p), after)


def tied(t: Trial) -> None:
    model = Network()
    model.layers[7].weight = model.weight(0)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for step in range(STEPS):
        backward(model, step)
        optimizer.step()
        optimizer.zero_grad()
    note(t, "end", model)


def through_arrays(t: Trial) -> None:
    """Weights written by NumPy, their storage, a pointer and DLPack."""
    model = Network()
    array = model.weight(0).detach().numpy()
    bytes_of = model.weight(1).untyped_storage()
    address = model.weight(2).data_ptr()
    twin = torch.utils.dlpack.from_dlpack(
        vars(torch)["to_dlpack"](model.weight(3).detach())
    )
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for step in range(STEPS):
        backward(model, step)
        optimizer.step()
        optimizer.zero_grad()
        array[step] += 1
        bytes_of[4 * step] = step
        ctypes.memset(address, step, 8)
        twin[step] -= 1
        t.note(f"array {step}", array.tobytes())
        t.note(f"moved {step}", model.weight(2).data_ptr() == address)
    note(t, "end", model)


def tensors_asked_for_numbers(t: Trial) -> None:
    def after(step: int, model: Network, _: Any) -> None:
        weight = model.weight(3)
        t.note(f"numbers {step}", weight.tolist(), weight[1, 1].item(), str(weight))

    run(t, lambda p: torch.optim.AdamW(p, foreach=False), after)


def read_in_a_child(t: Trial) -> None:
    """A forked child, which has no copy threads, reads every weight."""

    def after(step: int, model: Network, _: Any) -> None:
        readable, writable = os.pipe()
        if os.fork() == 0:
            sums = [p.double().sum().item() for p in model.parameters()]
            os.write(writable, repr(sums).encode())
            os._exit(0)
        os.wait()
        t.note(f"child {step}", os.read(readable, 1 << 16))

    run(t, lambda p: torch.optim.AdamW(p, foreach=False), after)
