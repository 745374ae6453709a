"""Lightning's Trainer with a validation loop, clipping and accumulation."""

from pathlib import Path
from typing import Any

import lightning
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from shared import arguments, finish, tell


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(96, 4, 384, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(96, 10)

    def loss(self, batch: list[Tensor]) -> Tensor:
        x, y = batch
        return nn.functional.cross_entropy(self.head(self.encoder(x).mean(1)), y)

    def training_step(self, batch: list[Tensor], _index: int) -> Tensor:
        loss = self.loss(batch)
        tell("training", loss)
        return loss

    def validation_step(self, batch: list[Tensor], _index: int) -> None:
        tell("validation", self.loss(batch))

    def configure_optimizers(self) -> Any:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def loader(seed: int, rows: int) -> DataLoader[tuple[Tensor, ...]]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 64, 96, generator=generator)
    y = torch.randint(10, (rows,), generator=generator)
    return DataLoader(TensorDataset(x, y), batch_size=16)


def main() -> None:
    args = arguments(__doc__)
    model = Classifier()
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_steps=args.steps,
        gradient_clip_val=1.0,
        accumulate_grad_batches=2,
        val_check_interval=4,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    kept = Path(args.folder) / "last.ckpt" if args.folder else None
    start = str(kept) if args.resume else None
    trainer.fit(model, loader(2, 128), loader(3, 32), ckpt_path=start)
    if kept is not None:
        trainer.save_checkpoint(kept)
    finish(model)


if __name__ == "__main__":
    main()
