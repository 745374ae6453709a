"""Programs whose plan only offloads: after a few steps the recorder rests.

Each does something at step 14 that the step before did not do.
"""

import contextlib
import threading
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as nnf

from programs.trial import Trial, data, in_thread, leaf

# mypy: disallow-untyped-calls=False

UNUSUAL = 14
STEPS = 18
MANY_STEPS = 80


def opaque(h: Tensor) -> Tensor:
    """Equal values that no recipe gives: unwritten memory is read."""
    return torch.empty_like(h).copy_(h)


def layer(h: Tensor, weight: Tensor, scale: float = 1.25) -> Tensor:
    return opaque(h @ weight).mul(scale).sigmoid()


def train(
    t: Trial,
    forward: Callable[[int, Tensor, list[Tensor]], Tensor],
    before: Callable[[int, Tensor, list[Tensor]], None] = lambda *_: None,
    steps: int = STEPS,
) -> None:
    weights = [leaf(256, 256, seed=i, low=-0.1, high=0.1) for i in range(6)]
    x = data(640, 256)

    def step_of(step: int) -> Tensor:
        before(step, opaque(x + step), weights)
        return forward(step, opaque(x + step), weights)

    t.train(weights, step_of, steps=steps)


def stacked(x: Tensor, weights: list[Tensor]) -> Tensor:
    for weight in weights:
        x = layer(x, weight)
    return x


def usual(_: int, x: Tensor, weights: list[Tensor]) -> Tensor:
    return stacked(x, weights).square().mean()


def exception_in_backward(t: Trial) -> None:
    """It ends a pair that is not recorded."""

    def refuse(_: Tensor) -> Tensor:
        raise ValueError("refused")

    def before(step: int, x: Tensor, weights: list[Tensor]) -> None:
        if step != UNUSUAL:
            return
        handle = weights[0].register_hook(refuse)
        with contextlib.suppress(ValueError):
            usual(step, x, weights).backward()
        handle.remove()
        for weight in weights:
            weight.grad = None

    train(t, usual, before)


def pair_ended_by_another_thread(t: Trial) -> None:
    """One thread runs the backward of what another goes on with; a third, too."""
    others: list[Tensor] = []

    def other_pairs() -> None:
        weights = [leaf(256, 256, seed=i, low=-0.1, high=0.1) for i in range(2)]
        for step in range(8):
            stacked(data(640, 256, seed=step), weights).mean().backward()
        others.extend(weights)

    def forward(step: int, x: Tensor, weights: list[Tensor]) -> Tensor:
        if step == UNUSUAL:
            early = usual(step, x, weights[:3])
            threads = [
                threading.Thread(target=early.backward),
                threading.Thread(target=other_pairs),
            ]
            for thread in threads:
                thread.start()
            late = usual(step, x, weights)
            for thread in threads:
                thread.join()
            late.backward()
        return usual(step, x, weights)

    train(t, forward)
    t.note("gradients of the others", *(weight.grad for weight in others))


def every_step_the_same(t: Trial) -> None:
    train(t, usual)


def many_steps_the_same(t: Trial) -> None:
    train(t, usual, steps=MANY_STEPS)


def trained_by_its_optimizer(t: Trial) -> None:
    """Forward and backward are inside the step of an optimizer."""
    weights = [leaf(256, 256, seed=i, low=-0.1, high=0.1) for i in range(6)]
    x = data(640, 256)
    optimizer = torch.optim.LBFGS(weights, lr=1e-3, max_iter=1, history_size=2)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = usual(0, opaque(x), weights)
        loss.backward()
        return loss

    for _ in range(STEPS):
        t.note("loss", optimizer.step(closure))
    t.note("weights", *weights)


def nothing_large_is_saved(t: Trial) -> None:
    weight = leaf(8, 8, seed=1)
    x = data(4, 8)
    t.train([weight], lambda _: (x @ weight).sigmoid().mean(), steps=STEPS)


def a_shorter_batch(t: Trial) -> None:
    def forward(step: int, x: Tensor, weights: list[Tensor]) -> Tensor:
        return usual(step, x[:320] if step == UNUSUAL else x, weights)

    train(t, forward)


def one_op_more(t: Trial) -> None:
    def forward(step: int, x: Tensor, weights: list[Tensor]) -> Tensor:
        x = stacked(x, weights[:3])
        if step == UNUSUAL:
            x = x.cos()
        return stacked(x, weights[3:]).square().mean()

    train(t, forward)


def another_op_of_the_same_shape(t: Trial) -> None:
    def forward(step: int, x: Tensor, weights: list[Tensor]) -> Tensor:
        x = stacked(x, weights[:3])
        x = x.tanh() if step == UNUSUAL else x.sigmoid()
        return stacked(x, weights[3:]).square().mean()

    train(t, forward)


def another_number(t: Trial) -> None:
    def forward(step: int, x: Tensor, weights: list[Tensor]) -> Tensor:
        for weight in weights:
            x = layer(x, weight, scale=2.5 if step == UNUSUAL else 1.25)
        return x.square().mean()

    train(t, forward)


def fewer_saves(t: Trial) -> None:
    def forward(step: int, x: Tensor, weights: list[Tensor]) -> Tensor:
        return usual(step, x, weights[:4] if step >= UNUSUAL else weights)

    train(t, forward)


def a_graph_nobody_uses(t: Trial) -> None:
    def before(step: int, x: Tensor, weights: list[Tensor]) -> None:
        if step == UNUSUAL:
            usual(step, x, weights[:4])

    train(t, usual, before)


def an_exception(t: Trial) -> None:
    def before(step: int, x: Tensor, weights: list[Tensor]) -> None:
        if step != UNUSUAL:
            return
        try:
            stacked(x, weights[:4]).view(3, 5)
        except RuntimeError:
            t.note("raised")

    train(t, usual, before)


def two_graphs_at_once(t: Trial) -> None:
    def forward(step: int, x: Tensor, weights: list[Tensor]) -> Tensor:
        if step != UNUSUAL:
            return usual(step, x, weights)
        return usual(step, x, weights) + usual(step, x + 1, weights)

    train(t, forward)


def backward_twice(t: Trial) -> None:
    def before(step: int, x: Tensor, weights: list[Tensor]) -> None:
        if step == UNUSUAL:
            loss = usual(step, x, weights)
            first = torch.autograd.grad(loss, weights, retain_graph=True)
            second = torch.autograd.grad(loss, weights)
            t.note("twice", *first, *second)

    train(t, usual, before)


def double_backward(t: Trial) -> None:
    def before(step: int, x: Tensor, weights: list[Tensor]) -> None:
        if step == UNUSUAL:
            loss = usual(step, x, weights)
            (first,) = torch.autograd.grad(loss, weights[:1], create_graph=True)
            t.note("double", *torch.autograd.grad(first.square().sum(), weights))

    train(t, usual, before)


def another_thread(t: Trial) -> None:
    def before(step: int, x: Tensor, weights: list[Tensor]) -> None:
        def work() -> None:
            loss = usual(step, x, weights)
            t.note("thread", *torch.autograd.grad(loss, weights))

        if step == UNUSUAL:
            in_thread(work)

    train(t, usual, before)


def evaluation_between(t: Trial) -> None:
    def before(step: int, x: Tensor, weights: list[Tensor]) -> None:
        if step >= UNUSUAL:
            with torch.no_grad():
                t.note("evaluation", usual(step, x, weights))

    train(t, usual, before)


def written_in_place(t: Trial) -> None:
    """The error of backward then is PyTorch's own."""

    def before(step: int, x: Tensor, weights: list[Tensor]) -> None:
        if step != UNUSUAL:
            return
        for written in (0, 1):
            h = [stacked(x, weights[:2]), layer(x[:8], weights[0])]
            loss = h[0].sum() + h[1].sum()
            with torch.no_grad():
                h[written].mul_(2)
            try:
                loss.backward()
            except RuntimeError as error:
                t.note(str(error))
            for weight in weights:
                weight.grad = None

    train(t, usual, before)


def dropout(t: Trial) -> None:
    def forward(_: int, x: Tensor, weights: list[Tensor]) -> Tensor:
        x = stacked(x, weights[:3])
        return nnf.dropout(stacked(x, weights[3:]), 0.3).square().mean()

    train(t, forward)
