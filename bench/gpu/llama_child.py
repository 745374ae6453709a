"""Trains transformers' Llama in one way and prints gpu_child.py's line of JSON.

    llama_child.py MODEL WAY STEPS

Models: llama (1.1 billion parameters, 8 sequences of 2048 tokens), llama22 (22 of
them), llama-small. Ways: plain (unmanaged, or managed as the environment says),
checkpoint (transformers' own).
"""

import contextlib
import dataclasses
import itertools
import json
import sys
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, logging

import gpu_child
import gpu_models

# mypy: disallow-untyped-calls=False


@dataclasses.dataclass(frozen=True)
class Shape:
    width: int = 2048
    wide: int = 5632
    layers: int = 22
    heads: int = 32
    key_heads: int = 4
    vocabulary: int = 32000
    batch: int = 8
    length: int = 2048


SHAPES = {
    "llama": Shape(),
    "llama22": Shape(batch=22),
    "llama-small": Shape(1024, 2816, 12, 16, 4, 8000, 8, 1024),
}
TINY = Shape(256, 768, 6, 4, 2, 1024, 8, 128)
BATCHES = 4


def llama(shape: Shape) -> gpu_models.Task:
    config = LlamaConfig(
        hidden_size=shape.width,
        intermediate_size=shape.wide,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_heads,
        vocab_size=shape.vocabulary,
        use_cache=False,
    )
    with gpu_models.made_on_device(torch.bfloat16):
        model = LlamaForCausalLM(config)
    model.train()
    size = (shape.batch, shape.length)
    batches = itertools.cycle(
        [torch.randint(shape.vocabulary, size).pin_memory() for _ in range(BATCHES)]
    )

    def loss() -> torch.Tensor:
        tokens = next(batches).to("cuda", non_blocking=True)
        found: torch.Tensor = model(input_ids=tokens, labels=tokens).loss
        return found

    return gpu_models.Task(model, [], loss)


def main() -> None:
    name, way, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
    gpu_child.wait_for_device()
    logging.set_verbosity_error()
    torch.manual_seed(gpu_child.SEED)
    task = llama(TINY if gpu_child.is_tiny() else SHAPES[name])
    if way == "checkpoint":
        model: Any = task.model
        model.gradient_checkpointing_enable({"use_reentrant": False})
    elif way != "plain":
        raise SystemExit(f"llama_child.py: no way {way}")
    optimizer = torch.optim.AdamW(task.model.parameters(), lr=1e-4, fused=True)
    saving = contextlib.nullcontext
    print(json.dumps(gpu_child.train(task, optimizer, saving, steps)))


if __name__ == "__main__":
    main()
