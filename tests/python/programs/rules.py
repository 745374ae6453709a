"""Programs for the rules R1 to R7 (docs/internals/recording.md): what ops do to bytes
and to the generator."""

import torch
from torch import Tensor, nn
from torch.nn import functional as nnf

from programs.trial import ROWS, WIDTH, Trial, data, leaf

# mypy: disallow-untyped-calls=False, warn-return-any=False


def r01_unsafe_view(t: Trial) -> None:
    w, b = leaf(WIDTH, WIDTH, seed=1), leaf(WIDTH, seed=2)
    x = data(4, 32, WIDTH)

    def forward(step: int) -> Tensor:
        y = torch.matmul(x + step, w)  # mm, then _unsafe_view
        y.add_(b)
        return (y.tanh() * y.tanh().exp()).sum()

    t.train([w, b], forward)


def r01_alias_without_version(t: Trial) -> None:
    """A write that autograd does not notice either has to give the same bits too."""
    w = leaf(WIDTH, WIDTH)
    x = data(ROWS, WIDTH)

    def through_unsafe_view(m: Tensor) -> None:
        torch.ops.aten._unsafe_view(m.detach(), (WIDTH, ROWS)).add_(1)

    def through_reshape_alias(m: Tensor) -> None:
        with torch.no_grad():
            torch.ops.aten._reshape_alias(m, (WIDTH, ROWS), (ROWS, 1)).mul_(3)

    def through_data(m: Tensor) -> None:
        m.data.mul_(2)

    def through_a_view_of_data(m: Tensor) -> None:
        m.data.t()[3:].neg_()

    for write in (
        through_unsafe_view,
        through_reshape_alias,
        through_data,
        through_a_view_of_data,
    ):
        with t.work(write.__name__):
            m = torch.mm(x, w)
            sine = m.sin()  # saves m
            try:
                write(m)
                del m
                t.gradients(write.__name__, (sine * sine.exp()).sum(), [w])
            except RuntimeError as error:
                t.note(write.__name__, str(error))


def r01_written_by_an_alias_while_dropped(t: Trial) -> None:
    """The storage is gone when its source is written through an alias."""
    w = leaf(ROWS, WIDTH)
    h = w * 2  # saves nothing
    dropped = (h + 1).tanh().exp()  # tanh and exp save their results
    hold = torch.empty(1 << 20)
    h.data.add_(5)
    del hold
    t.gradients("gradient", (dropped * h).sum(), [w])


def r02_lstm(t: Trial) -> None:
    torch.manual_seed(2)
    lstm = nn.LSTM(64, 64, batch_first=True)
    x = data(32, 64, 64)

    def forward(step: int) -> Tensor:
        return lstm(x * (step + 1))[0].tanh().mean()

    t.train(lstm.parameters(), forward)


def r02_lstm_under_no_grad_between(t: Trial) -> None:
    torch.manual_seed(2)
    lstm = nn.LSTM(64, 64, num_layers=2, dropout=0.2, batch_first=True)
    x = data(32, 64, 64)

    def forward(step: int) -> Tensor:
        with torch.no_grad():
            state = lstm(x.flip(0))[1]
        return lstm(x * (step + 1), state)[0].exp().mean()

    t.train(lstm.parameters(), forward)


def r03_inputs_change_every_step(t: Trial) -> None:
    table, w = leaf(512, WIDTH, seed=3), leaf(WIDTH, WIDTH, seed=4)
    drawn = torch.randint(0, 512, (6, ROWS), generator=torch.Generator().manual_seed(7))
    inputs = data(6, ROWS, WIDTH, seed=8)

    def forward(step: int) -> Tensor:
        ids = drawn[step].view(4, -1)
        h = nnf.embedding(ids, table).view(ROWS, WIDTH)
        h = (h * inputs[step].view(WIDTH, ROWS).t()).tanh() @ w
        return nnf.cross_entropy(h.exp().tanh(), ids.view(-1) % WIDTH)

    t.train([table, w], forward, steps=6)


def r03_one_input_buffer_refilled(t: Trial) -> None:
    """Between the steps, and after forward where no op saved the buffer."""
    w = leaf(ROWS, WIDTH)
    buffer = torch.zeros(ROWS, WIDTH)

    def forward(step: int) -> Tensor:
        g = w.tanh()
        buffer.copy_(data(ROWS, WIDTH, seed=step))
        h = (buffer + 1).exp()
        loss = ((h * g).tanh() * h).sum()
        del g, h
        torch.empty(1 << 20)  # here everything is evicted
        buffer.fill_(float("nan"))
        return loss

    t.train([w], forward)


def r04_batch_norm(t: Trial) -> None:
    torch.manual_seed(4)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(inplace=True),
        nn.Conv2d(16, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16, momentum=None),
        nn.GELU(),
        nn.Conv2d(16, 16, 1),
        nn.BatchNorm2d(16, track_running_stats=False),
        nn.Tanh(),
    )
    x = data(4, 3, 32, 32)

    def note_buffers(step: int) -> None:
        t.note(f"buffers {step}", *model.buffers())

    t.train(
        model.parameters(),
        lambda step: model(x + step).pow(2).mean(),
        between=note_buffers,
    )


def r04_batch_norm_of_every_kind(t: Trial) -> None:
    w = leaf(ROWS, WIDTH, seed=1)
    scale, shift = leaf(WIDTH, seed=2), leaf(WIDTH, seed=3)
    mean, var = torch.zeros(WIDTH), torch.ones(WIDTH)
    evaluating = nn.BatchNorm1d(WIDTH).eval()
    evaluating.running_mean = data(WIDTH, seed=5)
    image = nn.BatchNorm2d(4)
    instance = nn.InstanceNorm1d(4, affine=True, track_running_stats=True)

    def with_buffers(h: Tensor) -> Tensor:
        return nnf.batch_norm(h, mean, var, scale, shift, training=True)

    def frozen(h: Tensor) -> Tensor:
        return nnf.batch_norm(h, mean, var, scale, shift, training=False)

    def channels_last(h: Tensor) -> Tensor:
        return image(
            h.view(2, 4, 64, 64).contiguous(memory_format=torch.channels_last)
        ).reshape(ROWS, WIDTH)

    def instances(h: Tensor) -> Tensor:
        return instance(h.view(2, 4, -1)).view(ROWS, WIDTH)

    for norm in (with_buffers, frozen, evaluating, channels_last, instances):
        label = getattr(norm, "__name__", "evaluating")
        with t.work(label):
            h = norm((w * 2).tanh()).sin()
            t.gradients(label, (h * h.exp()).sum(), [w, scale, shift])
            del h
    t.note("buffers", mean, var, *evaluating.buffers(), *image.buffers())
    t.note("instance buffers", *instance.buffers())


def r06_random(t: Trial) -> None:
    w = leaf(ROWS, WIDTH)
    own = torch.Generator().manual_seed(11)

    def forward(_: int) -> Tensor:
        h = nnf.dropout(w.tanh(), 0.3)
        h = h * torch.rand_like(h) + nnf.alpha_dropout(h, 0.2, training=True)
        h = h + torch.bernoulli(h.detach().sigmoid(), generator=own)
        h = nnf.dropout(nnf.rrelu(h, training=True).exp(), 0.5)
        h = h * torch.empty_like(h).uniform_(0.5, 1, generator=own)
        h = nnf.feature_alpha_dropout(h.view(8, 16, 16, 16), 0.1).view(ROWS, WIDTH)
        h = nnf.dropout1d(h.tanh(), 0.2) * torch.randn(ROWS, WIDTH).cos()
        return (nnf.gumbel_softmax(h) * h.sin()).sum()

    def note_generators(step: int) -> None:
        t.note(f"generators {step}", torch.get_rng_state(), own.get_state())

    t.train([w], forward, between=note_generators)


def r06_generator_moved_by_the_script(t: Trial) -> None:
    w = leaf(ROWS, WIDTH)

    def forward(_: int) -> Tensor:
        h = nnf.dropout(w.tanh(), 0.3)
        torch.manual_seed(99)
        h = nnf.dropout(h.exp(), 0.4)
        state = torch.get_rng_state()
        with torch.random.fork_rng(devices=[]):
            h = nnf.dropout(h.sin(), 0.1)
        torch.set_rng_state(state)
        return nnf.dropout(h.exp(), 0.2).sum()

    t.train([w], forward)


def r06_random_bytes_are_not_saved_twice(t: Trial) -> None:
    """Only dropout's own product and noise are saved: they are recomputed."""
    w = leaf(1024, 1024)
    t.train([w], lambda _: nnf.dropout(w.tanh(), 0.5).tanh().sum())


def r07_own_ops_are_not_recorded(t: Trial) -> None:
    """Recomputes in the middle of forward, with observers of the script's own."""
    w = leaf(ROWS, WIDTH)
    state = leaf(ROWS, WIDTH, seed=3)
    seen: list[str] = []

    def forward() -> Tensor:
        h = state * 2
        dropped = nnf.dropout((h + 1).tanh(), 0.1).exp()
        hold = torch.empty(1 << 20)
        h.mul_(3)  # dropped values have to be recomputed first
        del hold
        again = torch.autograd.grad((dropped * w).sum(), w, retain_graph=True)[0]
        return (dropped * h * w).sum() + again.sum()

    for step in range(3):
        loss = forward()
        t.gradients(f"step {step}", loss, [w, state])
        seen.append(str(torch.is_grad_enabled()))
    t.note("seen", seen)
