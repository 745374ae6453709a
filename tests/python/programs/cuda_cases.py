"""Small trainings on the simulated device that use it in ways of their own.

    cuda_cases.py SCHEDULE CASE

Prints one line of JSON: the bits of what was computed, and what the simulator found.
"""

import cudasim  # isort: skip  # before torch
import hashlib
import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

# mypy: disallow-untyped-calls=False, warn-return-any=False

ROWS, WIDTH, DEPTH = 512, 128, 8


def bits(tensors: Iterable[Tensor]) -> str:
    digest = hashlib.sha256()
    for tensor in tensors:
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def chain() -> nn.Sequential:
    layers = [
        nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Dropout(0.1))
        for _ in range(DEPTH)
    ]
    return nn.Sequential(*layers).to("cuda")


def rows() -> Tensor:
    return torch.randn(ROWS, WIDTH).to("cuda")


def trained(
    model: nn.Module, loss_of: Callable[[], Tensor], steps: int = 3
) -> list[str]:
    """Bits of losses, gradients and the generator's next numbers, by step."""
    found = []
    for _ in range(steps):
        model.zero_grad()
        loss = loss_of()
        loss.backward()
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        found.append(bits([loss, *grads, torch.rand(4, device="cuda")]))
    return found


def plain() -> list[str]:
    model, x = chain(), rows()
    return trained(model, lambda: model(x).square().mean())


def side_stream() -> list[str]:
    """Half of the model runs on a stream of its own, as the program orders it."""
    model, x = chain(), rows()
    side = torch.cuda.Stream()

    def loss() -> Tensor:
        h = model[:4](x)
        side.wait_stream(torch.cuda.current_stream())
        h.record_stream(side)
        with torch.cuda.stream(side):
            h = model[4:](h)
        torch.cuda.current_stream().wait_stream(side)
        h.record_stream(torch.cuda.current_stream())
        return h.square().mean()

    return trained(model, loss)


def retained_graph() -> list[str]:
    model, x = chain(), rows()
    found = []
    for _ in range(3):
        loss = model(x).square().mean()
        for _ in range(2):
            model.zero_grad()
            loss.backward(retain_graph=True)
            grads = (p.grad for p in model.parameters())
            found.append(bits(grad for grad in grads if grad is not None))
    return found


def out_of_memory() -> list[str]:
    """What does not fit is PyTorch's error, and less of it fits afterwards."""
    model = chain()
    try:
        torch.empty(1 << 40, device="cuda")
        caught = "nothing"
    except torch.OutOfMemoryError as error:
        caught = str(error).split(".")[0]
    torch.cuda.empty_cache()
    x = rows()
    return [caught, *trained(model, lambda: model(x).square().mean())]


CASES: dict[str, Callable[[], list[str]]] = {
    case.__name__: case
    for case in (
        plain,
        side_stream,
        retained_graph,
        out_of_memory,
    )
}


def main() -> None:
    exact = cudasim.Exact()
    cudasim.set_schedule(sys.argv[1])
    torch.zeros(1, device="cuda")
    exact.watch_blocks()
    torch.manual_seed(1)
    torch.backends.cudnn.enabled = False
    found: Any = CASES[sys.argv[2]]()
    torch.cuda.synchronize()
    left = {"found": found, "broken": cudasim.broken(), "hazards": cudasim.hazards()}
    print(json.dumps(left))


if __name__ == "__main__":
    main()
