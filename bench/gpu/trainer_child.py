"""Trains a Llama of 500 million parameters by transformers' Trainer, as users write it.

    trainer_child.py WAY STEPS

Sentences of 512 to 2048 tokens, padded to the longest of eight; a step of the
optimizer has two such batches. Ways: plain (unmanaged, or managed as the environment
says), checkpoint. Prints gpu_child.py's line of JSON with the number of steps; host
seconds include the Trainer's waits, and a loss is the mean of five steps.
"""

import itertools
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import torch
import transformers
from torch import Tensor
from torch.nn.functional import pad
from torch.utils.data import Dataset

import gpu_child

# mypy: disallow-untyped-calls=False, disallow-subclassing-any=False

TINY = gpu_child.is_tiny()
VOCABULARY = 128 if TINY else 32000
SHORTEST, LONGEST = (16, 64) if TINY else (512, 2048)
SHAPE = (
    {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    if TINY
    else {"hidden_size": 1536, "intermediate_size": 4096, "num_hidden_layers": 16}
)
HEADS = (
    {"num_attention_heads": 4, "num_key_value_heads": 2}
    if TINY
    else {"num_attention_heads": 16, "num_key_value_heads": 8}
)


class Sentences(Dataset[dict[str, Tensor]]):
    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(index)
        length = SHORTEST + (index * 37) % (LONGEST - SHORTEST)
        tokens = torch.randint(VOCABULARY, (length,), generator=generator)
        return {"input_ids": tokens, "labels": tokens.clone()}


def collate(rows: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    longest = max(len(row["input_ids"]) for row in rows)

    def stacked(tensors: Sequence[Tensor], filling: int) -> Tensor:
        rest = [(0, longest - len(tensor)) for tensor in tensors]
        return torch.stack(
            [pad(t, r, value=filling) for t, r in zip(tensors, rest, strict=True)]
        )

    tokens = [row["input_ids"] for row in rows]
    return {
        "input_ids": stacked(tokens, 0),
        "labels": stacked([row["labels"] for row in rows], -100),
        "attention_mask": stacked([torch.ones_like(t) for t in tokens], 0),
    }


class Watch(transformers.TrainerCallback):
    """Notes the time and the peaks of each step; it changes nothing."""

    def __init__(self) -> None:
        self.marks: list[torch.cuda.Event] = []
        self.host: list[float] = []
        self.peaks: list[dict[str, int]] = []

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self.mark()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.peaks.append(gpu_child.peaks())
        self.mark()

    def mark(self) -> None:
        mark = torch.cuda.Event(enable_timing=True)
        mark.record()
        self.marks.append(mark)
        self.host.append(time.perf_counter())
        torch.cuda.reset_peak_memory_stats()


def train(way: str, steps: int, folder: str) -> dict[str, Any]:
    config = transformers.LlamaConfig(
        **SHAPE, **HEADS, vocab_size=VOCABULARY, use_cache=False
    )
    with torch.device("cuda"):
        model = transformers.LlamaForCausalLM(config)
    arguments = transformers.TrainingArguments(
        folder,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2,
        max_steps=steps,
        bf16=True,
        logging_steps=5,
        save_strategy="no",
        report_to=[],
        gradient_checkpointing=way == "checkpoint",
        dataloader_num_workers=2,
        learning_rate=1e-4,
        disable_tqdm=True,
    )
    watch = Watch()
    trainer = transformers.Trainer(
        model=model,
        args=arguments,
        train_dataset=Sentences(),
        data_collator=collate,
        callbacks=[watch],
    )
    trainer.train()
    torch.cuda.synchronize()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return {
        "steps": len(watch.peaks),
        "seconds": [
            a.elapsed_time(b) / 1e3 for a, b in itertools.pairwise(watch.marks)
        ],
        "host": [b - a for a, b in itertools.pairwise(watch.host)],
        "peaks": watch.peaks,
        "losses": [float(loss).hex() for loss in losses],
        "parameters": sum(p.numel() for p in model.parameters()),
        **gpu_child.told(),
    }


def main() -> None:
    way, steps = sys.argv[1], int(sys.argv[2])
    if way not in ("plain", "checkpoint"):
        raise SystemExit(f"trainer_child.py: no way {way}")
    gpu_child.wait_for_device()
    torch.manual_seed(gpu_child.SEED)
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(train(way, steps, folder)))


if __name__ == "__main__":
    main()
