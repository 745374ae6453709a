"""Random training loops: seed_N is the one with that seed, both_N two at once.

A loop trains a random network (layers.py) for some steps, and does in some of them what
training scripts do besides: accumulation, several losses, a graph that is kept,
evaluation, shorter batches, exceptions, unused graphs. The results of a step are noted
as digests: losses, gradients, parameters, buffers and the state of the generator.
"""

import functools
import gc
import random
import threading
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as nnf

from programs.layers import PIXELS, TIME, Network
from programs.trial import Trial, await_planner, digest, resources

# mypy: disallow-untyped-calls=False, warn-return-any=False

WARM = 4  # steps after which no more files and threads are opened


class Refused(torch.autograd.Function):
    """Fails in backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * 1

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        raise ValueError(f"backward refused {tuple(x.shape)}")


class Loop:
    """One random training loop and what came of it."""

    device = "cpu"
    lengths = range(8, 15)  # how many steps
    batches: tuple[int, ...] = (4, 4, 6)

    def __init__(self, seed: int, noise: bool = True) -> None:
        self.draw = random.Random(seed)
        self.noise = noise
        self.notes: list[tuple[str, list[str]]] = []
        torch.manual_seed(seed)
        draw = self.draw
        self.network = self.make_network()
        self.optimizer = self.choose_optimizer()
        self.data = torch.Generator().manual_seed(seed)
        self.steps = draw.choice(self.lengths)
        self.batch = draw.choice(self.batches)
        self.parts = draw.choice((1, 1, 1, 2, 3))
        self.to_none = draw.random() < 0.7
        self.clip = draw.random() < 0.4
        self.loss = draw.randrange(4)
        self.autocast = draw.random() < 0.15
        self.kept: Tensor | None = None
        events: list[Callable[[int], None]] = [
            self.evaluate,
            self.evaluate,
            self.fail_in_forward,
            self.fail_in_backward,
            self.fail_in_a_hook,
            self.forget_a_graph,
            self.keep_a_graph,
            self.penalize,
            self.take_the_state_back,
        ]
        # Mostly late, when plans are followed.
        self.events = {
            draw.randrange(1, self.steps): draw.choice(events)
            for _ in range(draw.randrange(5))
        }
        self.short = draw.randrange(3, 2 * self.steps)

    def make_network(self) -> Network:
        return Network(self.draw, self.noise)

    def choose_optimizer(self) -> torch.optim.Optimizer:
        parameters = list(self.network.parameters())
        makers: list[Callable[[], torch.optim.Optimizer]] = [
            lambda: torch.optim.SGD(parameters, lr=0.02),
            lambda: torch.optim.SGD(parameters, lr=0.02, momentum=0.9, foreach=True),
            lambda: torch.optim.Adam(parameters, lr=0.002),
            lambda: torch.optim.AdamW(parameters, lr=0.002, foreach=True),
        ]
        return self.draw.choice(makers)()

    def note(self, label: str, *values: object) -> None:
        """Notes digests of copies: recipes do not rely on bytes that NumPy has seen."""
        copies = [v.detach().clone() if isinstance(v, Tensor) else v for v in values]
        self.notes.append((label, [digest(value) for value in copies]))

    def inputs(self, batch: int) -> tuple[Tensor, Tensor]:
        if self.network.images:
            x = torch.rand(batch, 3, PIXELS, PIXELS, generator=self.data)
            classes = torch.randint(0, 16, (batch,), generator=self.data)
        else:
            x = torch.randint(0, 256, (batch, TIME), generator=self.data)
            classes = torch.randint(0, 16, (batch * TIME,), generator=self.data)
        return x.to(self.device), classes.to(self.device)

    def losses(self, step: int, batch: int) -> list[Tensor]:
        x, classes = self.inputs(batch)
        # Threads share the cache of autocast, and clear it for each other.
        with torch.autocast(
            self.device,
            torch.bfloat16,
            enabled=self.autocast,
            cache_enabled=self.noise,
        ):
            scores = self.network(x, step)
        scores = scores.float()
        if self.loss == 0:
            return [scores.logsumexp(-1).mean(), scores.square().mean()]
        if self.loss == 1:
            return [nnf.mse_loss(scores.tanh(), torch.ones_like(scores))]
        smooth = 0.1 if self.loss == 2 else 0.0
        return [nnf.cross_entropy(scores, classes, label_smoothing=smooth)]

    def backward(self, losses: list[Tensor]) -> None:
        for i, loss in enumerate(losses):
            loss.backward(retain_graph=i + 1 < len(losses))

    def step(self, step: int) -> None:
        batch = self.batch // 2 if step == self.short else self.batch
        self.optimizer.zero_grad(set_to_none=self.to_none)
        for part in range(self.parts):
            losses = self.losses(step, batch)
            self.backward(losses)
            self.note(f"loss {step}.{part}", *losses)
        self.update(step)

    def update(self, step: int) -> None:
        parameters = list(self.network.parameters())
        if self.clip:
            total = nn.utils.clip_grad_norm_(parameters, 0.5)
            self.note(f"norm {step}", total)
        self.note(f"gradients {step}", *(p.grad for p in parameters))
        self.optimizer.step()
        self.note(f"network {step}", *parameters, *self.network.buffers())
        if self.noise:
            self.note(f"generator {step}", self.generator_state())

    def generator_state(self) -> Tensor:
        return torch.get_rng_state()

    def wrong_shape(self) -> Tensor:
        return torch.ones(3, 3, device=self.device)

    def run(self) -> None:
        """All steps; leaves nothing alive but what the network is."""
        self.resources: list[tuple[int, int]] = []
        for step in range(self.steps):
            if step in self.events:
                self.attempt(self.events[step], step)
            self.attempt(self.step, step)
            await_planner()
            if step == WARM:
                self.resources.append(resources())
        if self.kept is not None:
            self.attempt(self.use_what_was_kept, self.steps)
            self.kept = None
        self.optimizer.zero_grad()
        self.resources.append(resources(most=self.resources[0][1]))

    def attempt(self, action: Callable[[int], None], step: int) -> None:
        try:
            action(step)
        except (RuntimeError, ValueError) as error:
            self.note(f"{action.__name__} {step}: {error}")
            self.optimizer.zero_grad(set_to_none=self.to_none)

    # Actions between two steps.

    def evaluate(self, step: int) -> None:
        self.network.eval()
        guard = torch.inference_mode if step % 2 else torch.no_grad
        with guard():
            for _ in range(2):
                self.note(f"evaluation {step}", *self.losses(step, self.batch + 1))
        self.network.train()

    def fail_in_forward(self, step: int) -> None:
        losses = self.losses(step, self.batch)
        losses[0] @ self.wrong_shape()

    def fail_in_backward(self, step: int) -> None:
        x, _ = self.inputs(self.batch)
        layers = self.network.layers
        h = self.network.first(x) if self.network.images else self.network.table(x)
        h = layers[-1](Refused.apply(layers[0](h, step)), step)
        h.sum().backward()

    def fail_in_a_hook(self, step: int) -> None:
        losses = self.losses(step, self.batch)
        bias = self.network.head.weight
        handle = bias.register_hook(lambda gradient: gradient @ self.wrong_shape())
        try:
            self.backward(losses)
        finally:
            handle.remove()

    def forget_a_graph(self, step: int) -> None:
        self.note(f"forgotten {step}", *self.losses(step, self.batch))

    def keep_a_graph(self, step: int) -> None:
        """Its backward comes at the end, when all parameters have been written."""
        x, _ = self.inputs(self.batch)
        self.kept = self.network(x, step).exp().mean()

    def use_what_was_kept(self, step: int) -> None:
        assert self.kept is not None
        self.kept.backward()
        self.note(f"kept {step}", self.kept)

    def penalize(self, step: int) -> None:
        """Double backward."""
        loss = self.losses(step, self.batch)[0]
        weight = self.network.head.weight
        (gradient,) = torch.autograd.grad(loss, [weight], create_graph=True)
        (loss + gradient.square().sum()).backward()
        self.update(step)

    def take_the_state_back(self, step: int) -> None:
        state = {k: v.clone() for k, v in self.network.state_dict().items()}
        self.step(step)
        self.network.load_state_dict(state)


def report_growth(t: Trial, loops: Iterable[Loop]) -> None:
    grown = [0, 0]
    for loop in loops:
        (files, tasks), (last_files, last_tasks) = loop.resources
        grown = [
            max(grown[0], last_files - files),
            max(grown[1], last_tasks - tasks),
        ]
    t.count("grown", files=grown[0], threads=grown[1])


def train(t: Trial, seed: int) -> None:
    loop = Loop(seed)
    loop.run()
    for label, digests in loop.notes:
        t.add(label, digests)
    report_growth(t, [loop])


def train_both(t: Trial, seed: int) -> None:
    """Two threads without noise: they would draw from one generator in any order."""
    loops = [Loop(2 * seed + i, noise=False) for i in range(2)]
    threads = [threading.Thread(target=loop.run) for loop in loops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, loop in enumerate(loops):
        for label, digests in loop.notes:
            t.add(f"thread {number}: {label}", digests)


def run(t: Trial, seed: int, how: Callable[[Trial, int], None]) -> None:
    how(t, seed)
    gc.collect()


def __getattr__(name: str) -> Any:
    for prefix, how in (("seed_", train), ("both_", train_both)):
        if name.startswith(prefix):
            return functools.partial(run, seed=int(name.removeprefix(prefix)), how=how)
    raise AttributeError(name)
