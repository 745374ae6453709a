"""As timm's train.py: a model, an optimizer and a schedule by name, mixup, an EMA."""

import torch
from timm import create_model
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV3, dispatch_clip_grad, random_seed

from shared import arguments, finish, tell


def main() -> None:
    args = arguments(__doc__)
    random_seed(1)  # mixup draws from NumPy
    model = create_model(
        "vit_tiny_patch16_224",
        img_size=64,
        depth=4,
        num_classes=10,
        drop_path_rate=0.1,
        drop_rate=0.1,
    )
    optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
    schedule = CosineLRScheduler(optimizer, t_initial=10, warmup_t=2)
    mixup = Mixup(mixup_alpha=0.8, num_classes=10)
    average = ModelEmaV3(model, decay=0.9)
    criterion = SoftTargetCrossEntropy()
    for step in range(args.steps):
        x, y = mixup(torch.randn(16, 3, 64, 64), torch.randint(10, (16,)))
        loss = criterion(model(x), y)
        loss.backward()
        dispatch_clip_grad(model.parameters(), 1.0, mode="norm")
        optimizer.step()
        optimizer.zero_grad()
        average.update(model, step=step)
        schedule.step_update(step)
        tell(f"loss {step}", loss)
    model.eval()
    with torch.no_grad():
        tell("evaluation", model(torch.randn(16, 3, 64, 64)).float().mean())
    finish(average)


if __name__ == "__main__":
    main()
