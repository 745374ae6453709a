"""A GPT, or convolutions, trained through torch.compile; does not import ebbtide.

Prints losses, a digest of the parameters, what Dynamo counted and the budget that the
partitioner has.
"""

import argparse
import dataclasses
import hashlib

import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch._functorch import config

from gpt import GPT, SHAPES

# mypy: disallow-untyped-calls=False, warn-return-any=False


class Convolutions(nn.Module):
    """Into whose results inductor's kernels write."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).relu()).relu()


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Convolutions(16) for _ in range(4))

    def forward(self, x: Tensor, _: Tensor) -> Tensor:
        x = x[:, :1, None, None] * torch.linspace(-0.01, 0.01, 32)[:, None]
        x = x.expand(-1, 16, 32, 32).contiguous(memory_format=torch.channels_last)
        for block in self.blocks:
            x = block(x)
        return x.square().mean()


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("backend", choices=["eager", "aot_eager", "inductor"])
    p.add_argument("--regional", action="store_true", help="each block by itself")
    p.add_argument("--images", action="store_true", help="convolutions")
    p.add_argument("--steps", type=int, default=6)
    p.add_argument("--dropout", type=float, default=0.1)
    p.add_argument("--share", type=float, help="the partitioner's budget")
    p.add_argument("--saved", action="store_true", help="prints the bytes, too")
    args = p.parse_args()
    if args.share is not None:
        config.activation_memory_budget = args.share
    torch.set_num_threads(1)
    torch.manual_seed(1)
    torch.zeros(1).sin_()
    # Dropout is compiled to random numbers that eager does not draw: that is the
    # compiler's, and the same in both runs.
    shape = dataclasses.replace(SHAPES["small"], batch=16, dropout=args.dropout)
    model = Images() if args.images else GPT(shape)
    if args.regional:
        for block in model.blocks:
            block.compile(backend=args.backend)
    else:
        model.compile(backend=args.backend)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(args.steps):
        # The last batch is shorter: a graph more.
        rows = shape.batch if step < args.steps - 1 else shape.batch - 4
        tokens = torch.randint(256, (rows, shape.length + 1))
        loss = model(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        if args.saved:
            graph = loss.grad_fn
            print("saved", sum(tensor.nbytes for tensor in graph.saved_tensors))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print("loss", step, loss.item().hex())
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    print("hash", digest.hexdigest())
    for kind in ("stats", "frames", "graph_break", "aot_autograd", "recompiles"):
        print(kind, sorted(counters[kind].items()))
    print("activation_memory_budget", config.activation_memory_budget)


if __name__ == "__main__":
    main()
