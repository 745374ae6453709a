"""The output of the programs of this folder, for a comparison of two runs.

They are small jobs as people write them for the libraries they are named after, with
models made from a configuration and random data. They know nothing of ebbtide.
"""

import argparse
import hashlib

import torch
from torch import Tensor, nn


def arguments(doc: str, *options: str) -> argparse.Namespace:
    p = argparse.ArgumentParser(description=doc.splitlines()[0])
    p.add_argument("--steps", type=int, default=6)
    p.add_argument("--folder", default="", help="checkpoints are written there")
    p.add_argument("--resume", action="store_true", help="from the checkpoint there")
    for option in options:
        p.add_argument(f"--{option}", action="store_true")
    args = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    torch.zeros(1).sin_()  # MKL settles on instructions in one thread
    return args


def tell(name: str, value: float | Tensor) -> None:
    """One line with all bits of the number."""
    print(name, float(value).hex(), flush=True)


def finish(model: nn.Module) -> None:
    digest = hashlib.sha256()
    for _, tensor in sorted(model.state_dict().items()):
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().tobytes())
    print("hash", digest.hexdigest(), flush=True)
