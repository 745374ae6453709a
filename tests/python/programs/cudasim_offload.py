"""An offloader of saved tensors, right and with one synchronization left out.

Prints for every variant the schedules under which its gradients are wrong, and
what the simulator said of freed blocks.
"""

import cudasim  # isort: skip  # before torch
import contextlib
import json
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from programs.cudasim_exact import Block

# mypy: disallow-untyped-calls=False, warn-return-any=False

VARIANTS = (
    "right",
    "no_wait_produce",
    "no_record_stream",
    "no_d2h_wait",
    "no_wait_h2d",
)
# Copies that take as long as many kernels, and copies that take no time.
SLOW, FAST = 1e-3, 25.0
SCHEDULES = (
    ("eager", FAST, 1),
    ("ontime", FAST, 1),
    ("ontime", SLOW, 1),
    ("late", FAST, 1),
    ("late", SLOW, 1),
    ("race", SLOW, 1),
    ("random", SLOW, 10),
)


class Offloader:
    """Copies saved tensors to pinned memory on a side stream, and back."""

    def __init__(self, model: nn.Module, variant: str) -> None:
        self.variant = variant
        self.side = torch.cuda.Stream()
        self.keep = {p.untyped_storage().data_ptr() for p in model.parameters()}
        self.count = 0

    def pack(self, t: Tensor) -> Any:
        kept = t.untyped_storage().data_ptr() in self.keep
        if kept or not t.is_contiguous() or t.numel() < 1024:
            return t
        self.count += 1
        host = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
        if self.variant != "no_wait_produce":
            self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            host.copy_(t.detach(), non_blocking=True)
            copied = self.side.record_event()
        if self.variant != "no_record_stream":
            t.record_stream(self.side)
        return host, copied

    def unpack(self, packed: Any) -> Tensor:
        if isinstance(packed, Tensor):
            return packed
        host, copied = packed
        main = torch.cuda.current_stream()
        waits = self.variant != "no_d2h_wait"
        up = self.side if waits else torch.cuda.Stream()
        t = torch.empty(host.shape, dtype=host.dtype, device="cuda")
        up.wait_stream(main)
        if waits:
            up.wait_event(copied)
        with torch.cuda.stream(up):
            t.copy_(host, non_blocking=True)
            restored = up.record_event()
        if self.variant != "no_wait_h2d":
            main.wait_event(restored)
        return t


def gradients(variant: str | None) -> list[Tensor]:
    """Gradients of four blocks, offloaded or, without a variant, kept."""
    torch.manual_seed(1)
    model = nn.Sequential(*[Block() for _ in range(4)]).to("cuda")
    x = torch.randn(2, 16, 64).to("cuda")
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    hooks: Any = contextlib.nullcontext()
    offloader = Offloader(model, variant or "")
    if variant is not None:
        hooks = torch.autograd.graph.saved_tensors_hooks(
            offloader.pack, offloader.unpack
        )
    with hooks:
        h = model(x)
        loss = h.pow(2).mean()
    del h
    loss.backward()
    torch.cuda.synchronize()
    assert variant is None or offloader.count > 20
    return [p.grad.cpu() for p in model.parameters() if p.grad is not None]


def run(variant: str, wanted: list[Tensor]) -> tuple[bool, list[str]]:
    """Returns True for wrong gradients, and the hazards of the run."""
    cudasim.mend()
    got = gradients(variant)
    hazards = cudasim.hazards()
    assert cudasim.broken() is None, cudasim.broken()
    return not all(map(torch.equal, got, wanted)), hazards


def main() -> None:
    cudasim.set_hazards_fatal(False)
    wanted = gradients(None)
    table: dict[str, Any] = {}
    for variant in VARIANTS:
        wrong, hazards, said = [], [], ""
        for schedule, rate, seeds in SCHEDULES:
            name = f"{schedule} {'fast' if rate == FAST else 'slow'}"
            cudasim.set_rates(h2d_gbps=rate, d2h_gbps=rate)
            runs = []
            for seed in range(seeds):
                cudasim.set_schedule(schedule, seed)
                runs.append(run(variant, wanted))
            if any(bad for bad, _ in runs):
                wrong.append(name)
            if any(found for _, found in runs):
                hazards.append(name)
                said = next(found for _, found in runs if found)[0]
        table[variant] = {"wrong": wrong, "hazards": hazards, "said": said}
    print(json.dumps(table))


if __name__ == "__main__":
    torch.backends.cudnn.enabled = False
    exact = cudasim.Exact()
    torch.empty(1, device="cuda")
    exact.watch_blocks()
    with sdpa_kernel(SDPBackend.MATH):
        main()
