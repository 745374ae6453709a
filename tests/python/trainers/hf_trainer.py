"""transformers.Trainer fine-tunes a small GPT-2."""

import torch
from peft import LoraConfig, get_peft_model
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from shared import arguments, finish, tell


class Tokens(Dataset[dict[str, torch.Tensor]]):
    def __init__(self, rows: int, length: int) -> None:
        generator = torch.Generator().manual_seed(2)
        self.rows = torch.randint(256, (rows, length), generator=generator)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


def main() -> None:
    args = arguments(__doc__, "lora", "checkpointing")
    config = GPT2Config(
        vocab_size=256,
        n_positions=128,
        n_embd=128,
        n_layer=4,
        n_head=4,
        use_cache=False,
    )
    model = GPT2LMHeadModel(config)
    if args.lora:
        lora = LoraConfig(r=8, target_modules=["c_attn"], fan_in_fan_out=True)
        model = get_peft_model(model, lora)
        model.enable_input_require_grads()
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=args.folder or "unused",
            max_steps=args.steps,
            per_device_train_batch_size=8,
            gradient_checkpointing=args.checkpointing,
            save_strategy="steps" if args.folder else "no",
            save_steps=3,
            logging_steps=1,
            report_to="none",
            use_cpu=True,
            disable_tqdm=True,
            seed=1,
        ),
        train_dataset=Tokens(128, 128),
    )
    trainer.train(resume_from_checkpoint=args.resume or None)
    for entry in trainer.state.log_history:
        if "loss" in entry:
            tell(f"loss {entry['step']}", float(entry["loss"]))
            tell(f"norm {entry['step']}", float(entry["grad_norm"]))
    finish(model)


if __name__ == "__main__":
    main()
