"""Two ranks of one job that train together: prints what each of them got."""

import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.multiprocessing.spawn import spawn

import ebbtide
from programs.pairs import network
from programs.trial import ROWS, WIDTH, data, digest

# mypy: disallow-untyped-calls=False


def train(rank: int, meeting: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=2)
    model = nn.parallel.DistributedDataParallel(network())
    torch.manual_seed(rank)
    x = data(4 * ROWS, WIDTH, seed=rank)
    for step in range(6):
        loss = model(x + step).exp().mean()
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                assert p.grad is not None
                p.sub_(p.grad, alpha=0.05)
                p.grad = None
    done = ebbtide.report()
    evicted = done["bytes_spilled"] + done["ops_replayed"] if done else 0
    # One write each: the ranks share their streams.
    digests = [digest(value) for value in (loss, *model.parameters())]
    sys.stdout.write(f"{rank} {' '.join(digests)}\n")
    sys.stdout.flush()
    sys.stderr.write(f"{rank} evicted {evicted}\n")
    dist.destroy_process_group()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        spawn(train, (f"{folder}/meeting",), nprocs=2)


if __name__ == "__main__":
    main()
