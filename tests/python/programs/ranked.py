"""A GPT that several ranks train together, in one of many ways; for torchrun.

It does not import ebbtide. Each rank writes FOLDER/rankN.json: losses, a digest of its
part of parameters and optimizer state, and the times of its steps: by the wall, and of
the CPU in the thread that trains.
"""

import argparse
import dataclasses
import hashlib
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.utils.checkpoint import checkpoint

from gpt import GPT, SHAPES, Block

# mypy: disallow-untyped-calls=False


def sharded(model: GPT, args: argparse.Namespace) -> nn.Module:
    policy = MixedPrecisionPolicy()
    if args.mixed:
        policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    for block in model.blocks:
        fully_shard(block, reshard_after_forward=args.reshard, mp_policy=policy)
    fully_shard(model, reshard_after_forward=args.reshard, mp_policy=policy)
    return model


def tensor_parallel(model: GPT) -> nn.Module:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        plan = {"mlp.0": ColwiseParallel(), "mlp.2": RowwiseParallel()}
        parallelize_module(block, mesh, plan)
    return model


def checkpointed(model: GPT) -> None:
    """Every other block drops and recomputes what it saves."""
    for block in model.blocks[::2]:
        assert isinstance(block, Block)
        plain = block.forward

        def forward(x: Tensor, plain: Any = plain) -> Any:
            return checkpoint(plain, x, use_reentrant=False)

        block.forward = forward  # type: ignore[method-assign]


def wrapped(model: GPT, args: argparse.Namespace) -> nn.Module:
    if args.checkpoint:
        checkpointed(model)
    if args.way in ("fsdp",):
        return sharded(model, args)
    if args.way == "tp":
        return tensor_parallel(model)
    return nn.parallel.DistributedDataParallel(model)


def digest_of(values: Any) -> str:
    digest = hashlib.sha256()

    def add(value: Any) -> None:
        if isinstance(value, DTensor):
            value = value.to_local()
        if isinstance(value, Tensor):
            flat = value.detach().contiguous().reshape(-1)
            digest.update(flat.view(torch.uint8).numpy().tobytes())
        elif isinstance(value, dict):
            for key in value:
                add(value[key])
        elif isinstance(value, (list, tuple)):
            for item in value:
                add(item)

    add(values)
    return digest.hexdigest()


def train(args: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)  # the same weights everywhere
    torch.zeros(1).sin_()
    shape = SHAPES[args.size]
    if args.batch:
        shape = dataclasses.replace(shape, batch=args.batch)
    model = GPT(shape)
    trained = wrapped(model, args)
    if args.way == "zero":
        optimizer: Any = ZeroRedundancyOptimizer(
            trained.parameters(), optimizer_class=torch.optim.AdamW, lr=1e-3
        )
    else:
        optimizer = torch.optim.AdamW(trained.parameters(), lr=1e-3)
    torch.manual_seed(1 if args.way == "tp" else rank)
    losses, seconds, cpu = [], [], []
    for step in range(args.steps):
        began, cpu_began = time.perf_counter(), time.thread_time()
        if step == args.dies_at and rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        for part in range(args.accumulate):
            tokens = torch.randint(256, (shape.batch, shape.length + 1))
            if args.slow and rank == 1:
                time.sleep(0.05)
            last = part == args.accumulate - 1
            if args.accumulate > 1 and args.way == "fsdp":
                trained.set_requires_gradient_sync(last)  # type: ignore[operator]
            loss = trained(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
            loss.backward()
            losses.append(loss.item().hex())
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - began)
        cpu.append(time.thread_time() - cpu_began)
    result = {
        "losses": losses,
        "parameters": digest_of(dict(trained.named_parameters())),
        "optimizer": digest_of(
            optimizer.state_dict()["state"]
            if args.way != "zero"
            else optimizer.optim.state_dict()["state"]
        ),
        "seconds": seconds,
        "cpu": cpu,
    }
    Path(args.folder, f"rank{rank}.json").write_text(json.dumps(result))
    dist.destroy_process_group()


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    p.add_argument("--way", choices=["ddp", "zero", "fsdp", "tp"], default="ddp")
    p.add_argument("--reshard", action="store_true")
    p.add_argument("--mixed", action="store_true")
    p.add_argument("--checkpoint", action="store_true")
    p.add_argument("--accumulate", type=int, default=1)
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--size", choices=["small", "full"], default="small")
    p.add_argument("--batch", type=int, default=0)
    p.add_argument("--slow", action="store_true", help="rank 1, for its data")
    p.add_argument("--dies-at", type=int, default=-1, help="step of rank 1")
    train(p.parse_args())


if __name__ == "__main__":
    main()
