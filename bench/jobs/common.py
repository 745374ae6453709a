"""Helpers shared by the training jobs of this folder: arguments, data, printing.

Every job prints one line per training step, one per evaluation pass, and two
closing lines:

    step 3 loss 0x1.56c4d20000000p+2 seconds 0.412345
    eval 3 loss 0x1.4f01a80000000p+2
    hash <SHA-256 of parameters, buffers, optimizer state, next random number>
    median 0.409876
"""

import argparse
import functools
import hashlib
import pathlib
import statistics
import sysconfig
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


def parser(description: str, steps: int) -> argparse.ArgumentParser:
    """The arguments every job takes; `steps` is the default at full size."""
    p = argparse.ArgumentParser(description=description)
    p.add_argument(
        "--steps", type=int, default=None, help=f"default {steps}, small size 6"
    )
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--size", choices=["small", "full"], default="full")
    p.add_argument("--batch", type=int, default=None, help="default that of the size")
    p.add_argument(
        "--device",
        choices=["cpu", "cuda"],
        default="cpu",
        help="cuda: without cuDNN, and attention as plain products",
    )
    p.add_argument(
        "--checkpoint",
        action="store_true",
        help="run every block through torch.utils.checkpoint",
    )
    p.set_defaults(full_steps=steps)
    return p


def start(p: argparse.ArgumentParser) -> argparse.Namespace:
    """Reads the command line, then sets threads, seed and kernels."""
    args = p.parse_args()
    if args.steps is None:
        args.steps = args.full_steps if args.size == "full" else 6
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    settle_vector_functions()
    if args.device == "cuda":
        torch.backends.cudnn.enabled = False
        torch.backends.cuda.enable_flash_sdp(False)
        torch.backends.cuda.enable_mem_efficient_sdp(False)
    return args


def settle_vector_functions() -> None:
    """Has one thread make the process's first call of MKL's vector functions.

    That call finds out which instructions they use. Two threads that make it
    together can get different ones, and then a process another last bit than
    the next: torch.sin on two threads did in 1 of 400 fresh ones.
    """
    torch.zeros(1).sin_()


def checkpointed(block: nn.Module) -> None:
    """Makes the calls of `block` drop and recompute what it saves."""
    block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)


def standard_library_text(limit: int = 2_000_000) -> Tensor:
    """The sources of Python's standard library, as one tensor of bytes."""
    folder = pathlib.Path(sysconfig.get_path("stdlib"))
    text = bytearray()
    for source in sorted(folder.glob("*.py")):
        text += source.read_bytes()
        if len(text) >= limit:
            break
    return torch.frombuffer(text[:limit], dtype=torch.uint8)


def text_batch(
    text: Tensor, batch: int, length: int, device: str = "cpu"
) -> tuple[Tensor, Tensor]:
    """Random windows of the text and the same windows one byte further on."""
    begins = torch.randint(len(text) - length - 1, (batch,)).tolist()
    rows = torch.stack([text[b : b + length + 1] for b in begins]).long().to(device)
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def tensors_of(value: Any) -> Iterator[Tensor]:
    """All tensors inside nested dicts and lists, in a fixed order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            yield from tensors_of(value[key])
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_of(item)


def state_hash(model: nn.Module, optimizer: torch.optim.Optimizer) -> str:
    """SHA-256 of everything the next step would depend on."""
    digest = hashlib.sha256()
    device = next(model.parameters()).device
    state = [
        dict(model.named_parameters()),
        dict(model.named_buffers()),
        optimizer.state_dict(),
        torch.rand(1),
        torch.rand(1, device=device) if device.type == "cuda" else None,
    ]
    for tensor in tensors_of(state):
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


class Log:
    """Times the steps and prints what a comparison of two runs needs."""

    def __init__(self) -> None:
        self._seconds: list[float] = []
        self._since = time.perf_counter()

    def begin(self) -> None:
        self._since = time.perf_counter()

    def step(self, loss: float) -> None:
        seconds = time.perf_counter() - self._since
        number = len(self._seconds)
        self._seconds.append(seconds)
        print(f"step {number} loss {loss.hex()} seconds {seconds:.6f}", flush=True)

    def evaluation(self, loss: float) -> None:
        number = len(self._seconds) - 1
        print(f"eval {number} loss {loss.hex()}", flush=True)

    def finish(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        print(f"hash {state_hash(model, optimizer)}")
        # The first step also warms caches and thread pools.
        seconds = self._seconds[1:] or self._seconds or [0.0]
        print(f"median {statistics.median(seconds):.6f}", flush=True)
