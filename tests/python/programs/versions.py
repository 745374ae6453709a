"""Tensors that are written between forward and backward, and what is said then."""

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from programs.trial import ROWS, WIDTH, Trial, data, leaf

# mypy: disallow-untyped-calls=False, warn-return-any=False


def modified(label: str, h: Tensor) -> None:
    with torch.no_grad():
        if label == "leaf":
            h.mul_(2)
        elif label == "view":
            h[0].mul_(2)
        else:
            h.add_(1)


def version_check(t: Trial) -> None:
    """The text of the error is PyTorch's own, word for word."""
    makers: dict[str, Callable[[Tensor], Tensor]] = {
        "output": lambda w: w * 2,
        "view": lambda w: (w * 2)[1:].t(),
        "second": lambda w: w.sort(1)[0],
        "double": lambda w: (w * 2).double(),
        "half": lambda w: (w * 2).bfloat16(),
        "small": lambda w: w[:2, :2] * 2,
        "leaf": lambda w: w,
        "input": lambda _: data(ROWS, WIDTH),
        "complex": lambda w: torch.complex(w, w),
        "conjugated": lambda w: torch.complex(w, w).conj(),
        "split": lambda w: (w * 2).split(64)[1],
        "scalar": lambda w: w.sum(),
    }
    for label, make in makers.items():
        w = leaf(ROWS, WIDTH)
        h = make(w)
        loss = (h * h.clone().detach().sin() * (h * w[:1, :1])).sum().abs()
        torch.empty(1 << 20)
        modified(label, h)
        try:
            loss.backward()
            t.note(label, "no error")
        except RuntimeError as error:
            t.note(label, str(error))
        w.grad = None
    noted_in_place(t)
    w = leaf(ROWS, WIDTH)
    loss = w.tanh().exp().sum()
    loss.backward()
    try:
        loss.backward()
    except RuntimeError as error:
        t.note("second backward", str(error))
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        h = w.tanh()
        loss = h.exp().sum()
        h.detach().add_(1)
        try:
            loss.backward()
        except RuntimeError as error:
            t.note("anomaly", str(error))


def noted_in_place(t: Trial) -> None:
    """Written by ops that autograd records, so that the maker changes."""

    def dead(w: Tensor) -> Tensor:
        h = w * 2
        loss = h.sin().sum()
        h.add_(1)
        return loss + h.sum()

    def dead_through_a_view(w: Tensor) -> Tensor:
        h = w * 2
        loss = h.sin().sum()
        h[0].add_(1)
        return loss + h.sum()

    def dead_view(w: Tensor) -> Tensor:
        h = w * 2
        loss = h[1:].sin().sum()
        h.add_(1)
        return loss + h.sum()

    def view_itself(w: Tensor) -> Tensor:
        h = (w * 2)[1:]
        loss = h.sin().sum()
        h.mul_(2)
        return loss + h.sum()

    def own_result(w: Tensor) -> Tensor:
        h = w.tanh()
        h.add_(1)
        return h.sum()

    def dead_of_several(w: Tensor) -> Tensor:
        h = w * 2
        loss = h.split(64)[1].sin().sum()
        h.add_(1)
        return loss + h.sum()

    def made_without_grad(w: Tensor) -> Tensor:
        with torch.no_grad():
            view = w[1:]
        loss = (view * w[1:]).sum()
        with torch.no_grad():
            w.add_(1)
        return loss

    def complex_view(w: Tensor) -> Tensor:
        z = torch.complex(w, w) * 2
        loss = torch.view_as_real(z).sin().sum()
        z.mul_(3)
        return loss + z.abs().sum()

    def dead_and_written_unseen(w: Tensor) -> Tensor:
        h = w * 2
        h[0].add_(1)
        loss = h.sin().sum()
        h.mul_(3)
        loss = loss + h.sum()
        h.detach().add_(1)
        return loss

    for make in (
        dead,
        dead_through_a_view,
        dead_view,
        view_itself,
        own_result,
        dead_of_several,
        made_without_grad,
        complex_view,
        dead_and_written_unseen,
    ):
        for alive in (False, True):
            label = f"{make.__name__}, {'kept' if alive else 'let go'}"
            w = leaf(ROWS, WIDTH)
            kept: list[Any] = []

            def look(frame: Any, event: str, _: Any, kept: list[Any] = kept) -> None:
                if event == "return":
                    kept.append(dict(frame.f_locals))

            sys.setprofile(look if alive else None)
            loss = make(w)
            sys.setprofile(None)
            try:
                loss.backward()
                t.note(label, "no error")
            except RuntimeError as error:
                t.note(label, str(error))
