"""A loop of one's own with accelerate: bfloat16, accumulation, state saved."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from shared import arguments, finish, tell


def main() -> None:
    args = arguments(__doc__)
    accelerator = Accelerator(
        cpu=True, mixed_precision="bf16", gradient_accumulation_steps=2
    )
    blocks = [
        nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.Dropout(0.1)) for _ in range(8)
    ]
    model: nn.Module = nn.Sequential(*blocks, nn.Linear(256, 10))
    optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    rows = TensorDataset(torch.randn(2048, 256), torch.randint(10, (2048,)))
    loader: DataLoader[tuple[torch.Tensor, ...]] = DataLoader(rows, batch_size=256)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    if args.resume:
        accelerator.load_state(args.folder)
    step = 0
    while step < args.steps:
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(x), y)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            tell(f"loss {step}", loss)
            step += 1
            if step >= args.steps:
                break
    if args.folder:
        accelerator.save_state(args.folder)
    finish(accelerator.unwrap_model(model))


if __name__ == "__main__":
    main()
