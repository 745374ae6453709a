"""Programs whose saved bytes the runtime has to account for."""

import torch
from torch import Tensor
from torch.nn import functional as nnf

from programs.trial import ROWS, WIDTH, Trial, data, in_thread, leaf

# mypy: disallow-untyped-calls=False, warn-return-any=False


def of_every_kind(t: Trial) -> None:
    """One step that saves storages of ROWS x WIDTH floats in every way."""
    w, phase = leaf(ROWS, WIDTH), leaf(ROWS, WIDTH, seed=1)
    turn = torch.polar(torch.ones(ROWS, WIDTH), phase.detach()).requires_grad_()
    before = data(ROWS, WIDTH, seed=2).exp()

    x = (w * before).tanh()
    del before
    x = nnf.rrelu(x, training=True).exp()
    held = x.sigmoid()
    small = held.sum(1).exp()
    pairs = torch.view_as_complex(torch.stack([x.sin(), held.neg()], dim=-1))
    del x
    turned = torch.view_as_real(pairs.conj() * turn)
    del pairs
    loss = turned.sum() + small.sum()
    t.gradients("all", loss, [w, turn])
    t.note("held", held)


def saved_by_another_thread(t: Trial) -> None:
    w = leaf(ROWS, WIDTH)
    others: list[Tensor] = []
    mine = w.tanh()
    in_thread(lambda: others.append(leaf(ROWS, WIDTH).exp().sin()))
    t.gradients("mine", mine.exp().sum(), [w])
    t.note("others", *others)
