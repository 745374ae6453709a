"""As torchvision's reference for classification: SGD, warm-up, label smoothing."""

from pathlib import Path

import torch
import torchvision
from torch import nn
from torchvision.transforms import v2

from shared import arguments, finish, tell


def main() -> None:
    args = arguments(__doc__)
    model = torchvision.models.resnet18(num_classes=10)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4
    )
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=3)
    augment = v2.Compose([v2.RandomHorizontalFlip(), v2.RandomErasing()])
    kept = Path(args.folder) / "checkpoint.pth"
    first = 0
    if args.resume:
        saved = torch.load(kept)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        warm.load_state_dict(saved["warm"])
        torch.set_rng_state(saved["rng"])
        first = saved["step"]
    for step in range(first, args.steps):
        model.train()
        images = augment(torch.randn(32, 3, 64, 64))
        loss = criterion(model(images), torch.randint(10, (32,)))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        warm.step()
        tell(f"loss {step}", loss)
        model.eval()
        with torch.inference_mode():
            tell(f"evaluation {step}", model(images).sum())
    if args.folder:
        state = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "warm": warm.state_dict(),
            "rng": torch.get_rng_state(),
            "step": args.steps,
        }
        torch.save(state, kept)
    finish(model)


if __name__ == "__main__":
    main()
