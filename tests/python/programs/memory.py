"""Programs that run out of memory."""

import torch

from programs.trial import Trial, leaf

# mypy: disallow-untyped-calls=False


def asks_for_more_than_there_is(t: Trial) -> None:
    """No machine has an EiB; the second time nothing more is written down."""
    w = leaf(1 << 18)
    h = w.tanh()
    for _ in range(2):
        try:
            torch.empty(1 << 58)
        except RuntimeError as error:  # PyTorch's own allocator has no other
            print(type(error).__name__, *str(error).splitlines(), sep=" | ", flush=True)
    t.gradients("the rest", h.sum(), [w])
