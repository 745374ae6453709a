"""A small job for every way in which jobs are started; does not import ebbtide.

Prints one line per step and a digest of the parameters, and ends with the status that
it was given.
"""

import argparse
import hashlib
import os
import sys

import torch
from torch import nn
from torch.multiprocessing.spawn import start_processes

# mypy: disallow-untyped-calls=False

STEPS = 6
ROWS, WIDTH, LAYERS = 512, 192, 8


def train(seed: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(LAYERS)]
    model = nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    lines = []
    for step in range(STEPS):
        loss = model(torch.randn(ROWS, WIDTH)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        lines.append(f"{seed} step {step} loss {loss.item().hex()}\n")
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    lines.append(f"{seed} hash {digest.hexdigest()}\n")
    # One write each: processes share their streams.
    sys.stdout.write("".join(lines))
    sys.stdout.flush()


def main() -> int:
    p = argparse.ArgumentParser()
    p.add_argument("--exit", type=int, default=0)
    p.add_argument("--start", choices=["spawn", "fork"])
    p.add_argument("--exec", action="store_true", help="anew, in the same process")
    args = p.parse_args()
    if args.exec:
        arguments = [arg for arg in sys.argv if arg != "--exec"]
        os.execv(sys.executable, [sys.executable, *arguments])
    if args.start:
        start_processes(train, nprocs=2, start_method=args.start)
    else:
        train(int(os.environ.get("RANK", "0")))
    return int(args.exit)


if __name__ == "__main__":
    sys.exit(main())
