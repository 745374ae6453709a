"""Programs for the rules R8, R9, R13, R14 and R15 (docs/internals/recording.md): where
a step begins and ends, and what else happens around it."""

import io
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as nnf
from torch.utils.checkpoint import checkpoint

from programs.trial import ROWS, WIDTH, Trial, await_planner, data, leaf

# mypy: disallow-untyped-calls=False, warn-return-any=False


def network(seed: int = 1) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(WIDTH, WIDTH),
        nn.Tanh(),
        nn.Dropout(0.1),
        nn.Linear(WIDTH, WIDTH),
        nn.Sigmoid(),
        nn.Linear(WIDTH, WIDTH),
    )


def r08_plain(t: Trial) -> None:
    """As the next one without what happens between the pairs."""
    model = network()
    x = data(ROWS, WIDTH)
    t.train(model.parameters(), lambda step: model(x * step).exp().mean(), steps=4)


def r08_between_pairs(t: Trial) -> None:
    model = network()
    average = torch.optim.swa_utils.AveragedModel(model)
    x = data(ROWS, WIDTH)

    def between(step: int) -> None:
        saved = model.state_dict()
        torch.save(saved, io.BytesIO())
        total = torch.stack([p.detach().norm() for p in model.parameters()]).sum()
        model.eval()
        with torch.no_grad():
            loss = model(x).mean()
        with torch.inference_mode():
            loss = loss + model(x + 1).mean()
        model.train()
        weights = sum(p.numel() for p in model.parameters() if p.requires_grad)
        views = [p.view(-1)[:3] for p in model.parameters()]
        t.note(f"between {step}", total, loss.item(), weights, *views)
        average.update_parameters(model)
        model.load_state_dict(saved)

    t.train(
        model.parameters(),
        lambda step: model(x * step).exp().mean(),
        steps=4,
        between=between,
    )


def r08_optimizers(t: Trial) -> None:
    x = data(ROWS, WIDTH)
    for name in ("AdamW", "SGD", "RMSprop", "LBFGS"):
        model = network()
        options: dict[str, Any] = {"momentum": 0.9} if name == "SGD" else {}
        optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.01, **options)

        def closure(model: nn.Module = model, optimizer: Any = optimizer) -> Tensor:
            optimizer.zero_grad()
            loss = model(x).exp().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            return loss

        with t.work(name):
            for step in range(2):
                loss = optimizer.step(closure)
                t.note(f"{name} {step}", loss, *model.parameters())


def r08_graphs_that_never_run_backward(t: Trial) -> None:
    model = network()
    x = data(ROWS, WIDTH)
    own = leaf(ROWS, WIDTH)
    kept: list[Tensor] = []

    def between(step: int) -> None:
        loss = model(x + step).exp().mean()  # validation without no_grad
        t.note(f"validation {step}", loss.item())
        if step == 1:  # and one that stays for the rest of the run
            kept.append((own.tanh().exp() * own.sin()).sum())

    t.train(
        model.parameters(),
        lambda step: model(x * step).exp().mean(),
        steps=4,
        between=between,
    )
    t.gradients("late", kept[0], [own])


def r09_accumulation(t: Trial) -> None:
    model = network()
    x = data(ROWS, WIDTH)
    for step in range(3):
        for micro in range(3):
            loss = model(x + micro).exp().mean() / 3
            loss.backward()
            t.note(f"step {step}.{micro}", loss)
        t.gradients(f"step {step}", model(x * step).exp().mean(), model.parameters())


def r09_two_forwards(t: Trial) -> None:
    first, second = network(1), network(2)
    parameters = [*first.parameters(), *second.parameters()]
    x = data(ROWS, WIDTH)
    for step in range(3):
        one, two = first(x + step).exp().mean(), second(x - step).exp().mean()
        t.gradients(f"sum {step}", one + two, parameters)
        one, two = first(x + step).exp().mean(), second(x - step).exp().mean()
        t.gradients(f"first {step}", one, parameters)
        t.gradients(f"second {step}", two, parameters)
        one, two = first(x + step).exp().mean(), second(x - step).exp().mean()
        t.gradients(f"reversed second {step}", two, parameters)
        t.gradients(f"reversed first {step}", one, parameters)


def r09_double_use(t: Trial) -> None:
    w = leaf(ROWS, WIDTH)

    def forward(step: int) -> Tensor:
        h = (w * (step + 1)).tanh()
        return (h * h + h.exp() * h.sin() + h.view(-1).cos().view_as(h)).sum()

    t.train([w], forward)


def r09_alternating_networks(t: Trial) -> None:
    """As in adversarial training: one graph goes through both."""
    first, second = network(1), network(2)
    x = data(ROWS, WIDTH)
    for step in range(3):
        made = first(x + step)
        t.gradients(f"one {step}", second(made.detach()).mean(), second.parameters())
        t.gradients(f"two {step}", second(made).exp().mean(), first.parameters())
        second.zero_grad()


def r09_backward_in_another_order(t: Trial) -> None:
    model = network()
    x = data(ROWS, WIDTH)
    losses = [model(x + i).exp().mean() for i in range(3)]
    for i in (1, 0, 2):
        t.gradients(f"loss {i}", losses[i], model.parameters(), retain_graph=True)
    for i in (2, 1, 0):
        t.gradients(f"again {i}", losses[i], model.parameters())


def r13_autocast(t: Trial) -> None:
    torch.manual_seed(3)
    layer = nn.TransformerEncoderLayer(64, 4, 256, 0.1, batch_first=True)
    table = leaf(128, 64)
    ids = torch.randint(0, 128, (8, 64), generator=torch.Generator().manual_seed(1))
    parameters = [table, *layer.parameters()]

    def forward(step: int) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = layer(nnf.embedding((ids + step) % 128, table))
            with torch.autocast("cpu", enabled=False):
                h = h.float().exp()
            logits = h @ table.t()
        return nnf.cross_entropy(logits.float().view(-1, 128), ids.view(-1))

    t.train(parameters, forward)


def r13_autocast_of_ops_that_are_no_composites(t: Trial) -> None:
    """Autocast wraps ops that are recorded by themselves elsewhere."""
    w, v = leaf(WIDTH, WIDTH, seed=1), leaf(ROWS, ROWS, seed=2)
    x = data(4 * ROWS, WIDTH)

    def forward(_: int) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = torch.mm(x, w).tanh()
            h = torch.bmm(v.expand(4, -1, -1), h.view(4, ROWS, WIDTH))
            return torch.addmm(h[0], h[1], w).sigmoid().float().sum()

    t.train([w, v], forward)


def r14_expanded_views(t: Trial) -> None:
    """Saved views far larger than the storage below them."""
    row, w = leaf(1, 1 << 16, seed=1), leaf(8, 1 << 16, seed=2)

    def forward(_: int) -> Tensor:
        wide = row.tanh().expand(64, -1)  # 256 KiB, seen as 16 MiB
        return (wide[:8] * w).sum() + (wide * wide[:1]).mean()

    t.train([row, w], forward)


def r14_one_storage_saved_many_times(t: Trial) -> None:
    w = leaf(1 << 16)
    h = w * 2
    loss = sum((h[i:].sin().sum() for i in range(9)), h.cos().sum())
    del h
    t.gradients("gradient", loss, [w])


def r14_expanded_mask_and_indices(t: Trial) -> None:
    table, w = leaf(100, WIDTH), leaf(WIDTH, WIDTH, seed=2)
    ids = torch.arange(1 << 13) % 100  # as int64 large enough to be managed

    def forward(step: int) -> Tensor:
        h = nnf.embedding(ids + 0, table)
        mask = (ids % 3 == 0).unsqueeze(1).expand(-1, WIDTH)
        h = torch.where(mask, h, h.exp()).masked_fill(mask, 0.5)
        return nnf.cross_entropy(h.tanh() @ w, (ids + step) % WIDTH)

    t.train([table, w], forward, steps=2)


class Failing(torch.autograd.Function):
    """Fails in backward while `armed`."""

    armed = False

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = x.exp()
        ctx.save_for_backward(y)
        ctx.stash = x * 2
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        if Failing.armed:
            raise ValueError("backward fails")
        return gradients[0] * y + ctx.stash * 0


def r15_exceptions(t: Trial) -> None:
    model = network()
    x = data(ROWS, WIDTH)

    def in_forward() -> None:
        model(x).exp() @ torch.ones(3, 3)

    def in_forward_by_the_script() -> None:
        h = model(x).exp()
        raise ValueError(f"forward fails after {tuple(h.shape)}")

    def in_backward() -> None:
        Failing.apply(model(x).sin()).sum().backward()

    def in_a_hook() -> None:
        h = model(x).sin()
        h.register_hook(lambda g: g @ torch.ones(3, 3))
        h.exp().sum().backward()

    def in_place_on_a_leaf() -> None:
        next(model.parameters()).add_(1)

    def twice() -> None:
        loss = model(x).exp().mean()
        loss.backward()
        loss.backward()

    failures: list[Callable[[], None]] = [
        in_forward,
        in_forward_by_the_script,
        in_backward,
        in_a_hook,
        in_place_on_a_leaf,
        twice,
    ]
    for failing in failures:
        Failing.armed = True
        try:
            failing()
        except (RuntimeError, ValueError) as error:
            t.note(failing.__name__, str(error))
        Failing.armed = False
        model.zero_grad()
        for step in range(2):
            label = f"after {failing.__name__} {step}"
            with t.work(label):
                loss = Failing.apply(model(x).sin()).exp().mean()
                t.gradients(label, loss, model.parameters())


def r15_out_of_memory_is_survived(t: Trial) -> None:
    """A script that halves its batch when memory is short, as many do."""
    model = network()
    for step in range(3):
        try:
            torch.empty(1 << 60)
        except RuntimeError as error:
            t.note(f"error {step}", isinstance(error, MemoryError))
        x = data(ROWS, WIDTH, seed=step)
        t.gradients(f"step {step}", model(x).exp().mean(), model.parameters())


def checkpointed(t: Trial) -> None:
    """torch.utils.checkpoint and the script's own hooks come first."""
    model = network()
    x = data(ROWS, WIDTH)
    packed: list[int] = []

    def pack(tensor: Tensor) -> Tensor:
        packed.append(tensor.numel())
        return tensor.detach().clone()

    for reentrant in (False, True):
        leaves = [x.clone().requires_grad_(), *model.parameters()]

        def forward(step: int, x: Tensor = leaves[0], r: bool = reentrant) -> Tensor:
            h = checkpoint(model, x + step, use_reentrant=r)
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept):
                h = h.sin().exp()
            with torch.autograd.graph.save_on_cpu():
                h = h.cos()
            return (h.exp() * h).mean()

        t.train(leaves, forward)
        t.note("packed", packed)


def planned_everything(
    t: Trial,
    batch: Callable[[Tensor, int], Tensor] = lambda images, i: images[i].clone(),
) -> None:
    """Most rules in one step that repeats, for a plan to be made and followed."""
    torch.manual_seed(5)
    blocks = nn.ModuleList(
        nn.ModuleDict(
            {
                "conv": nn.Conv2d(16, 16, 3, padding=1, bias=False),
                "norm": nn.BatchNorm2d(16),
                "mix": nn.Linear(64, 64),
            }
        )
        for _ in range(4)
    )
    rows = leaf(1, 64, seed=6)
    images = data(8, 4, 16, 64, 64, seed=7)

    def forward(step: int) -> Tensor:
        h = batch(images, step).view(4, 16, 64, 64)
        for part in blocks:
            block: Any = part
            h = nnf.relu_(block.norm(block.conv(h)))
            h = nnf.dropout(torch.tanh(block.mix(h)), 0.1)
            h = h * rows.tanh().expand(4, 16, 64, 64)
            g = h * 1.5
            g[:, 0] = 0.5
            h = h + g.mul_(0.5).exp()
        return h.pow(2).mean()

    def note_buffers(step: int) -> None:
        t.note(f"buffers {step}", *blocks.buffers())
        t.note(f"generator {step}", torch.get_rng_state())
        await_planner()

    parameters = [rows, *blocks.parameters()]
    t.train(parameters, forward, steps=8, between=note_buffers)


def planned_batches_of_one_tensor(t: Trial) -> None:
    """Every batch lies elsewhere in the same storage."""
    planned_everything(t, lambda images, i: images[i])


def planned_other_programs_between(t: Trial) -> None:
    """Steps that are not what was planned, between steps that are."""
    planned_everything(t)
    r15_exceptions(t)
    r09_two_forwards(t)
    planned_everything(t)
