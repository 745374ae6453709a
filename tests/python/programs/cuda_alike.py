"""Random training loops whose steps look alike but differ: seed_N is that of one seed.

Each cell of a network has something that a step can change although hardly an op, or
none, shows it: a number, a mask, a branch, a module, a rate at which the model learns
inside itself, or noise of Python's own generator. Most loops change nothing before
plans are followed; from then on a change comes in some of the steps, before them or
before their backward, and some of them change back. Zygote has to import this module
first, and to have the simulator preloaded.
"""

import functools
import random
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as nnf

import ebbtide
from programs import cuda_random, layers
from programs.layers import ACTIVATIONS, TIME, WIDTH
from programs.trial import Trial

# mypy: disallow-untyped-calls=False, warn-return-any=False

LATE = 12  # plans are followed by then
SETTLED = 6  # steps behind the first change


class Twist(nn.Module):
    """A difference between steps: 0 as the loop begins, 1 or 2 once it has changed."""

    def __init__(self, draw: random.Random) -> None:
        super().__init__()
        self.value = 0
        self.how = draw.randrange(len(self.ways()))

    def ways(self) -> list[Callable[[Tensor], Tensor]]:
        raise NotImplementedError

    def change(self, value: int) -> None:
        """Between two steps."""
        self.value = value

    def forward(self, h: Tensor) -> Tensor:
        return self.ways()[self.how](h)


class Scalar(Twist):
    """A number: an argument, a tensor of the host, or one that the program holds."""

    held: Tensor

    def __init__(self, draw: random.Random) -> None:
        super().__init__(draw)
        self.register_buffer("held", torch.full((), 0.5))

    @property
    def number(self) -> float:
        return (0.5, 0.75, 0.25)[self.value]

    def change(self, value: int) -> None:
        super().change(value)
        self.held.fill_(self.number)

    def ways(self) -> list[Callable[[Tensor], Tensor]]:
        return [
            lambda h: h * self.number,
            lambda h: torch.add(h, h.detach(), alpha=self.number),
            lambda h: h.clamp(max=self.number),
            lambda h: nnf.leaky_relu(h, self.number),
            lambda h: h + torch.tensor(self.number),  # on the host
            lambda h: h + torch.full((), self.number, device=h.device),
            lambda h: h + self.held,
        ]


class Mask(Twist):
    held: Tensor

    def __init__(self, draw: random.Random) -> None:
        super().__init__(draw)
        self.register_buffer("held", torch.tensor(self.bits))

    @property
    def bits(self) -> list[bool]:
        return [i % (self.value + 2) == 0 for i in range(WIDTH)]

    def change(self, value: int) -> None:
        super().change(value)
        self.held.copy_(torch.tensor(self.bits))

    def made(self, h: Tensor) -> Tensor:
        return torch.tensor(self.bits, device=h.device)

    def order(self, h: Tensor) -> Tensor:
        return torch.arange(TIME, device=h.device).roll(self.value)

    def ways(self) -> list[Callable[[Tensor], Tensor]]:
        return [
            lambda h: h.masked_fill(self.held, 0.25),
            lambda h: h.masked_fill(self.made(h), 0.25),
            lambda h: torch.where(self.made(h), h, -h),
            lambda h: h.index_select(1, self.order(h)),
            lambda h: h * self.made(h),
        ]


class Branch(Twist):
    """Another op, the same one of another tensor, or one op more."""

    def turn(self, h: Tensor) -> Tensor:
        return (h.sin, h.cos, h.tanh)[self.value]()

    def choose(self, h: Tensor) -> Tensor:
        parts = h * 0.5, h * 0.25, h * 2.0
        return h + parts[self.value].sin()

    def extend(self, h: Tensor) -> Tensor:
        for _ in range(self.value):
            h = h * 0.5
        return h.sin()

    def part(self, h: Tensor) -> Tensor:
        """Views of one storage."""
        begin = (0, 8, 16)[self.value]
        return h + h[:, begin : begin + 8].sin().mean(1, keepdim=True)

    def ways(self) -> list[Callable[[Tensor], Tensor]]:
        return [self.turn, self.choose, self.extend, self.part]


class Swap(Twist):
    """A module, its weight, or how a module does what it does."""

    def __init__(self, draw: random.Random) -> None:
        super().__init__(draw)
        self.each = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        weights = (layer.get_parameter("weight") for layer in self.each)
        self.kept = [weight.detach().to("cuda") for weight in weights]
        self.inner: nn.Module = self.each[0]
        self.gelu = nn.GELU()
        self.drop = nn.Dropout(0.1)

    def change(self, value: int) -> None:
        super().change(value)
        if self.how == 0:
            self.inner = self.each[value]
        elif self.how == 1:
            # It has an equal shape, but another address, and no version counter
            # changes.
            self.each[0].get_parameter("weight").data = self.kept[value].clone()
        elif self.how == 2:
            self.gelu = nn.GELU("tanh" if value else "none")
        else:
            self.drop = nn.Dropout((0.1, 0.2, 0.3)[value])

    def ways(self) -> list[Callable[[Tensor], Tensor]]:
        return [
            lambda h: self.inner(h),
            lambda h: self.each[0](h),
            lambda h: self.gelu(h),
            lambda h: self.drop(h),
        ]


class Rate(Twist):
    """The model learns inside itself, at a rate that is a number of Python."""

    def __init__(self, draw: random.Random) -> None:
        super().__init__(draw)
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH) * 0.05)

    @property
    def rate(self) -> float:
        return (0.1, 0.05, 0.2)[self.value]

    def learn(self, h: Tensor) -> Tensor:
        """One step of gradient descent on a copy of the weight."""
        fast = self.weight.detach().requires_grad_()
        loss = nnf.linear(h.detach(), fast).square().mean()
        (gradient,) = torch.autograd.grad(loss, [fast])
        return nnf.linear(h, self.weight - self.rate * gradient)

    def remember(self, h: Tensor) -> Tensor:
        means = h.detach().mean((0, 1))
        fast = torch.add(self.weight, torch.outer(means, means), alpha=-self.rate)
        return nnf.linear(h, fast)

    def average(self, h: Tensor) -> Tensor:
        return torch.lerp(h, h.detach().flip(1), self.rate)

    def ways(self) -> list[Callable[[Tensor], Tensor]]:
        return [self.learn, self.remember, self.average]


class PythonNoise(Twist):
    """Drawn by Python's own generator, in each step once it has changed."""

    def drawn(self) -> float:
        return random.random() if self.value else 0.5

    def ways(self) -> list[Callable[[Tensor], Tensor]]:
        return [
            lambda h: h + self.drawn(),
            lambda h: h * torch.tensor(self.drawn(), device=h.device),
            lambda h: nnf.dropout(h, 0.3 * self.drawn()),
            lambda h: h.roll(int(self.drawn() * TIME), 1),
            lambda h: h.sin() if self.drawn() < 0.6 else h.cos(),
        ]


TWISTS: list[type[Twist]] = [Scalar, Mask, Branch, Swap, Rate, PythonNoise]


class Cell(nn.Module):
    """A cell whose saved tensors depend on the twist before it."""

    def __init__(self, draw: random.Random, kind: type[Twist]) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.before, self.after = draw.choices(ACTIVATIONS, k=2)
        self.twist = kind(draw)
        self.adds = draw.random() < 0.5

    def forward(self, h: Tensor, _: int) -> Tensor:
        g = self.after(self.twist(self.before(self.linear(h))) * 1.5)
        return h + g if self.adds else g


class Network(layers.Network):
    """A network on sequences; two cells at least have the given kind of twist."""

    def __init__(self, draw: random.Random, twist: type[Twist]) -> None:
        nn.Module.__init__(self)
        self.images, self.pace = False, 1
        kinds = [twist, twist, *draw.choices(TWISTS, k=draw.randrange(1, 4))]
        draw.shuffle(kinds)
        self.table = nn.Embedding(256, WIDTH)
        self.layers = nn.ModuleList(Cell(draw, kind) for kind in kinds)
        self.head = nn.Linear(WIDTH, 16)
        self.to("cuda")


class Loop(cuda_random.Loop):
    """A loop without other events than changes, in which all steps look alike."""

    batches = (16, 32)

    def __init__(self, seed: int, trial: Trial) -> None:
        self.trial = trial
        self.turn = TWISTS[seed % len(TWISTS)]
        super().__init__(seed)
        random.seed(seed)
        self.events = {}
        self.short = -1
        self.first = LATE if self.draw.random() < 0.75 else 1
        self.steps = self.first + SETTLED
        # Changes come between forward and backward, not between two steps.
        self.between = self.draw.random() < 0.25
        self.twists = [m for m in self.network.modules() if isinstance(m, Twist)]
        # In most loops one kind of thing changes, in the others anything does.
        every = self.draw.random() < 0.25
        self.changing = [t for t in self.twists if every or isinstance(t, self.turn)]

    def make_network(self) -> Network:
        return Network(self.draw, self.turn)

    def step(self, step: int) -> None:
        if step == self.first:
            self.trial.count("before changes", steps=step, followed=followed())
        self.changes = step == self.first or (
            step > self.first and self.draw.random() < 0.6
        )
        if not self.between:
            self.change()
        super().step(step)

    def backward(self, losses: list[Tensor]) -> None:
        self.change()
        super().backward(losses)

    def change(self) -> None:
        """Once in a step that is to change anything, and to a new value at first."""
        if not self.changes:
            return
        self.changes = False
        for twist in self.changing:
            values = (0, 1, 2) if twist.value else (1, 2)
            twist.change(self.draw.choice(values))


def followed() -> int:
    """Steps so far that were those of a plan."""
    states = ebbtide.report().get("steps_by_state", {})
    return sum(states.get(state, 0) for state in ("active", "steady"))


def run(t: Trial, seed: int) -> None:
    cuda_random.run(t, seed, functools.partial(Loop, trial=t))


def __getattr__(name: str) -> Callable[[Trial], None]:
    if not name.startswith("seed_"):
        raise AttributeError(name)
    return functools.partial(run, seed=int(name.removeprefix("seed_")))
