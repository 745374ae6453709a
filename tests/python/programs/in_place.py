"""Programs for rule R5 (docs/internals/recording.md): ops that write where they
read."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as nnf

from programs.trial import ROWS, WIDTH, Trial, data, leaf


def nested_views(h: Tensor) -> None:
    half = h[:, : WIDTH // 2]
    half[::2].mul_(2)
    half.t()[3:7].add_(1)


def masked(h: Tensor) -> None:
    h[data(ROWS, WIDTH, seed=9) > 0.5] = 0.25


def masked_by_itself(h: Tensor) -> None:
    h[h > 0.5] = 0.25


def rows_added(h: Tensor) -> None:
    h[1:5] += 2
    h[:, 0] = 0.5
    h[..., -1] *= 3


def with_itself(h: Tensor) -> None:
    h.add_(h)


def transposed(h: Tensor) -> None:
    h.t_()
    h.unsqueeze_(0)
    h.squeeze_()
    h.t_()


def filled_view(h: Tensor) -> None:
    h[: ROWS // 2].fill_(0.5)
    h[ROWS // 2 :].zero_()


def drawn_view(h: Tensor) -> None:
    h[:, 3:9].normal_()
    h[5].uniform_(0, 1)
    h[:, ::2].bernoulli_(0.5)


def drawn_whole(h: Tensor) -> None:
    h.uniform_(0.1, 1)


def copied_view(h: Tensor) -> None:
    h[:, : WIDTH // 2].copy_(h[:, WIDTH // 2 :])


def copied_cast(h: Tensor) -> None:
    h.copy_(data(ROWS, WIDTH, seed=3).double())


def copied_broadcast(h: Tensor) -> None:
    h[::2] = data(WIDTH, seed=4)


def strided(h: Tensor) -> None:
    h.as_strided((ROWS, 4), (WIDTH, 1), 7).exp_()


def diagonal(h: Tensor) -> None:
    h.diagonal().add_(3)


def scattered(h: Tensor) -> None:
    index = torch.arange(WIDTH).expand(4, -1) % ROWS
    h.scatter_(0, index, 0.75)
    h.scatter_add_(0, index, data(4, WIDTH, seed=2))
    h.index_add_(0, torch.tensor([1, 3, 1]), data(3, WIDTH, seed=5))
    h.index_copy_(0, torch.tensor([7, 9]), data(2, WIDTH, seed=6))
    h.index_fill_(1, torch.tensor([0, 2]), 0.125)
    h.index_put_((torch.tensor([2, 2]),), data(2, WIDTH, seed=7), accumulate=True)
    h.masked_fill_(data(ROWS, WIDTH, seed=8) > 0.9, 0.5)


def ternary(h: Tensor) -> None:
    h.addcmul_(data(ROWS, WIDTH, seed=2), data(ROWS, WIDTH, seed=3), value=0.5)
    h.lerp_(data(ROWS, WIDTH, seed=4), 0.25)
    h.addmm_(data(ROWS, 64, seed=5), data(64, WIDTH, seed=6))


def clamped(h: Tensor) -> None:
    h.clamp_(-0.5, 0.5)


def cumulative(h: Tensor) -> None:
    h.cumsum_(1)
    h.triu_()


def through_foreach(h: Tensor) -> None:
    torch._foreach_add_([h[:9], h[9:]], 1.0)
    torch._foreach_mul_([h[:9], h[9:]], [h[:9].detach() * 2, h[9:].detach() * 3])


WRITES: list[Callable[[Tensor], object]] = [
    nested_views,
    masked,
    masked_by_itself,
    rows_added,
    with_itself,
    transposed,
    filled_view,
    drawn_view,
    drawn_whole,
    copied_view,
    copied_cast,
    copied_broadcast,
    strided,
    diagonal,
    scattered,
    ternary,
    clamped,
    cumulative,
    through_foreach,
    torch.relu_,
    torch.sigmoid_,
    torch.tanh_,
    torch.exp_,
    nnf.leaky_relu_,
    nnf.elu_,
    nnf.hardtanh_,
]


def r05_in_place(t: Trial) -> None:
    w = leaf(ROWS, WIDTH)
    for write in WRITES:
        label = write.__name__
        with t.work(label):
            h = w * 1.5
            write(h)
            sine = h.sin()  # saves h as it is now
            del h
            t.gradients(label, (sine * sine.exp()).sum(), [w])
            del sine
    t.note("generator", torch.get_rng_state())


def r05_into_something_new(t: Trial) -> None:
    """Bytes that start as nothing in particular and are written part by part."""
    w = leaf(ROWS, WIDTH)
    ways: dict[str, Callable[[], Tensor]] = {
        "empty": lambda: torch.empty(ROWS, WIDTH),
        "empty_like": lambda: torch.empty_like(w, requires_grad=False),
        "zeros": lambda: torch.zeros(ROWS, WIDTH),
        "new_full": lambda: w.new_full((ROWS, WIDTH), 2.0),
        "resized": lambda: torch.empty(0).resize_(ROWS, WIDTH),
        "strided": lambda: torch.empty_strided((ROWS, WIDTH), (1, ROWS)),
    }
    for label, make in ways.items():
        with t.work(label):
            h = make()
            h[:, : WIDTH // 2] = w[:, : WIDTH // 2].tanh()
            h[:, WIDTH // 2 :] = w[:, WIDTH // 2 :].exp()
            sine = h.sin()
            del h
            t.gradients(label, (sine * sine.exp()).sum(), [w])
            del sine


def r05_pre_image(t: Trial) -> None:
    """A value made from bytes that are overwritten afterwards."""
    w = leaf(ROWS, WIDTH)

    def dropped_before(h: Tensor) -> Tensor:
        made = (h + 1).sin().exp()
        torch.empty(1 << 20).fill_(0)  # here everything is evicted
        h.mul_(2)
        return made

    def dropped_after(h: Tensor) -> Tensor:
        after_one = h + 1
        made = after_one.sin().exp()
        h.mul_(2)
        del after_one
        torch.empty(1 << 20).fill_(0)
        return made

    def overwritten_whole(h: Tensor) -> Tensor:
        made = (h + 1).sin().exp()
        torch.empty(1 << 20).fill_(0)
        h.fill_(0.5)
        return made

    def overwritten_twice(h: Tensor) -> Tensor:
        first = (h + 1).sin().exp()
        h[:9] = 3
        second = (h + 1).cos().exp()
        torch.empty(1 << 20).fill_(0)
        h.relu_()
        return first * second

    for way in (dropped_before, dropped_after, overwritten_whole, overwritten_twice):
        with t.work(way.__name__):
            h = w * 1.5
            loss = (way(h) * h.cos()).sum()
            del h
            t.gradients(way.__name__, loss, [w])


def r05_parameters_written_before_backward(t: Trial) -> None:
    """A parameter that no op saved changes between forward and backward."""
    w, b = leaf(ROWS, WIDTH), leaf(WIDTH, seed=3)
    for label in ("one", "two"):
        with t.work(label):
            loss = (w + b).tanh().exp().sum()
            with torch.no_grad():
                b.add_(1)
                w.mul_(0.5)
            t.gradients(label, loss, [w, b])


def saved_before_the_write(t: Trial) -> None:
    """Autograd saves a copy of what these ops overwrite, which no op gives."""
    w, row = leaf(ROWS, WIDTH), leaf(WIDTH, seed=2)

    def forward(step: int) -> Tensor:
        h = (w * (step + 1)).add_(row)
        h = nnf.silu(h, inplace=True).mul_(row)
        g = h * 2
        g[: ROWS // 2].sin_()  # writes a part: that copy is kept
        g.pow_(2)
        return (g * h.detach()).cos_().mean()

    t.train([w, row], forward, steps=9)


def activations_in_place(t: Trial) -> None:
    w = leaf(WIDTH, WIDTH, low=-0.1, high=0.1)
    x = data(4 * ROWS, WIDTH)

    def forward(step: int) -> Tensor:
        h = x + step
        for _ in range(6):
            h = nnf.silu(h @ w, inplace=True)
        return h.square().mean()

    t.train([w], forward, steps=9)


def inputs_of_copies_written(t: Trial) -> None:
    """The inputs of the overwritten bytes have changed since: the copy comes first."""
    w = leaf(ROWS, WIDTH)
    buffer = data(ROWS, WIDTH, seed=3)
    for step in range(3):
        h = nnf.silu(w + buffer, inplace=True)
        torch.empty(1 << 20)  # drops the copy of `w + buffer`
        with torch.no_grad():
            buffer.mul_(1.5)
        t.gradients(f"step {step}", (h * h.exp()).sum(), [w])
