"""Trains one model of `./dev bench coverage` for a few steps.

    python bench/coverage_child.py NAME [--count FILE]

Prints what the jobs print; the hash is over the gradients of every step and over
the buffers at the end. With --count it trains once more from the same seed and
fails if the hash is another one; in the last step of that, hooks of Python count the
storages that autograd saves, into FILE.
"""

import argparse
import contextlib
import hashlib
import json
from pathlib import Path

import torch
from torch import Tensor

import coverage_models
from common import Log

STEPS = 3


class Count:
    """Bytes of the storages that autograd packs, each once, by what they are."""

    def __init__(self, case: coverage_models.Case) -> None:
        self._kinds = {
            tensor.untyped_storage().data_ptr(): kind
            for kind, tensors in (
                ("parameters", case.model.parameters()),
                ("buffers", case.model.buffers()),
                ("inputs", case.inputs),
            )
            for tensor in tensors
        }
        # Held, so that no address comes again.
        self._packed: dict[int, torch.UntypedStorage] = {}

    def hooks(self) -> contextlib.AbstractContextManager[object]:
        return torch.autograd.graph.saved_tensors_hooks(self._pack, lambda t: t)

    def _pack(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        self._packed[storage.data_ptr()] = storage
        return tensor

    def result(self) -> dict[str, int]:
        sums = dict.fromkeys(("parameters", "buffers", "inputs", "activations"), 0)
        for address, storage in self._packed.items():
            sums[self._kinds.get(address, "activations")] += storage.nbytes()
        return sums


def train(name: str, file: Path | None, log: Log | None) -> str:
    """The hash over all steps; counts in the last of them if there is a file."""
    torch.manual_seed(1)
    case = coverage_models.CASES[name]()
    digest = hashlib.sha256()

    def add(tensor: Tensor) -> None:
        digest.update(tensor.detach().contiguous().view(-1).numpy().tobytes())

    for number in range(STEPS):
        if log is not None:
            log.begin()
        count = Count(case)
        last = number == STEPS - 1 and file is not None
        with count.hooks() if last else contextlib.nullcontext():
            loss = case.loss()
        loss.backward()
        if last and file is not None:
            file.write_text(json.dumps(count.result()))
        if log is not None:
            log.step(loss.item())
        with torch.no_grad():
            for parameter in case.model.parameters():
                if parameter.grad is None:
                    continue
                add(parameter.grad)
                parameter.sub_(parameter.grad, alpha=0.01)
                parameter.grad = None
    for buffer in case.model.buffers():
        add(buffer)
    return digest.hexdigest()


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("name", choices=coverage_models.CASES)
    p.add_argument("--count", type=Path)
    args = p.parse_args()
    torch.set_num_threads(1)
    first = train(args.name, None, Log())
    if args.count is not None and train(args.name, args.count, None) != first:
        raise SystemExit(f"{args.name}: two unmanaged trainings differ")
    print(f"hash {first}\nmedian 0")


if __name__ == "__main__":
    main()
