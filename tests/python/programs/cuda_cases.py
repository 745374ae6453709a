"""Small trainings on the simulated device that use it in ways of their own.

Zygote has to import this module first, and to have the simulator preloaded.
"""

import contextlib
import ctypes
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import cudasim
from programs.api import within
from programs.cuda_random import exact, left, schedule
from programs.trial import Trial

# mypy: disallow-untyped-calls=False, warn-return-any=False

ROWS, WIDTH, DEPTH = 4096, 128, 8


def chain(depth: int = DEPTH) -> nn.Sequential:
    layers = [
        nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Dropout(0.1))
        for _ in range(depth)
    ]
    return nn.Sequential(*layers).to("cuda")


def rows(count: int = ROWS) -> Tensor:
    return torch.randn(count, WIDTH).to("cuda")


def on_device(case: Callable[[Trial], None]) -> Callable[[Trial], None]:
    """The case with what goes before and after each."""

    def run(t: Trial) -> None:
        schedule()
        torch.zeros(1, device="cuda")
        exact.watch_blocks()
        case(t)
        torch.cuda.synchronize()
        peak = max(map(torch.cuda.max_memory_allocated, range(2)))
        reserved = max(map(torch.cuda.max_memory_reserved, range(2)))
        t.count("memory", allocated=peak, reserved=reserved)
        t.add("device", [str(cudasim.broken()), *cudasim.hazards()])
        t.count("left", **left())

    return run


def note(t: Trial, label: str, *values: Tensor | None) -> None:
    t.note(label, *(value.cpu() for value in values if value is not None))


def trained(
    t: Trial, model: nn.Module, loss_of: Callable[[], Tensor], steps: int = 3
) -> None:
    """Notes losses, gradients and the generator's next numbers, by step."""
    for step in range(steps):
        model.zero_grad()
        loss = loss_of()
        loss.backward()
        grads = [p.grad for p in model.parameters()]
        note(t, f"step {step}", loss, *grads, torch.rand(4, device="cuda"))


@on_device
def plain(t: Trial) -> None:
    model, x = chain(), rows()
    trained(t, model, lambda: model(x).square().mean(), steps=12)


@on_device
def wide(t: Trial) -> None:
    model, x = chain(1), torch.randn(48 << 10, WIDTH).to("cuda")
    trained(t, model, lambda: model(x).square().mean(), steps=12)


@on_device
def changes_its_budget(t: Trial) -> None:
    """Prints what each phase may use, and what is reserved at most in it."""
    model, x = chain(), rows(512)

    def phase(name: str, amount: str | None) -> None:
        with within(amount) if amount else contextlib.nullcontext():
            # The first step under a smaller budget gives up what is above it.
            trained(t, model, lambda: model(x).square().mean(), steps=1)
            torch.cuda.reset_peak_memory_stats()
            trained(t, model, lambda: model(x).square().mean(), steps=5)
            most = torch.cuda.max_memory_reserved()
        print(name, amount, most, flush=True)

    phase("fits", None)
    phase("smaller", "cuda:0=6MiB")
    phase("of all devices", "8MiB")
    phase("fits again", None)


@on_device
def side_stream(t: Trial) -> None:
    """Half of the model runs on a stream of its own, as the program orders it."""
    model, x = chain(), rows()
    side = torch.cuda.Stream()

    def loss() -> Tensor:
        h = model[:4](x)
        side.wait_stream(torch.cuda.current_stream())
        h.record_stream(side)
        with torch.cuda.stream(side):
            h = model[4:](h)
        torch.cuda.current_stream().wait_stream(side)
        h.record_stream(torch.cuda.current_stream())
        return h.square().mean()

    trained(t, model, loss)


def write_past_pytorch(to: Tensor, value: Tensor) -> None:
    """Copies as a kernel of the program's own would: no op runs."""
    torch.cuda.synchronize()
    runtime = ctypes.CDLL("libcudart.so.13")
    size = ctypes.c_size_t(to.nbytes)
    ends = (ctypes.c_void_p(at.data_ptr()) for at in (to, value))
    assert runtime.cudaMemcpy(*ends, size, 3) == 0  # on the device


@on_device
def written_past_pytorch(t: Trial) -> None:
    """The program writes what it holds after something made of it was dropped."""
    w = rows().requires_grad_()
    source = rows()
    reversed_rows = source.flip(0).contiguous()
    for name, value in (("kept", None), ("same", source), ("written", reversed_rows)):
        held = source * 1.0
        loss = (held + w).tanh().exp().sigmoid().sum()
        torch.empty(4 * ROWS, WIDTH, device="cuda")  # memory is short
        if value is not None:
            write_past_pytorch(held, value)
        try:
            loss.backward()
            note(t, name, w.grad)
        except RuntimeError as error:
            t.add(name, [str("behind PyTorch's back" in str(error))])
        w.grad = None


@on_device
def retained_graph(t: Trial) -> None:
    model, x = chain(), rows()
    for step in range(3):
        loss = model(x).square().mean()
        for way in ("first", "again"):
            model.zero_grad()
            loss.backward(retain_graph=True)
            note(t, f"step {step} {way}", *(p.grad for p in model.parameters()))


@on_device
def checkpointed(t: Trial) -> None:
    """Both kinds of PyTorch's checkpoint, which draw their dropout again."""
    model, x = chain(2 * DEPTH), rows().requires_grad_()

    def loss() -> Tensor:
        h = checkpoint(model[:2], x, use_reentrant=True)
        h = checkpoint(model[2:4], h, use_reentrant=False)
        return model[4:](h).square().mean()

    trained(t, model, loss)


@on_device
def second_derivative(t: Trial) -> None:
    """A penalty on gradients, whose own graph is differentiated and offloaded.

    So the layers behind the penalty are where room can be made.
    """
    model, x = chain(2 * DEPTH), rows().requires_grad_()

    def loss() -> Tensor:
        h = model[:DEPTH](x)
        (grad,) = torch.autograd.grad(h.sum(), x, create_graph=True)
        return model[DEPTH:](h).square().mean() + grad.square().sum()

    trained(t, model, loss)


@on_device
def ends_in_an_error(_t: Trial) -> None:
    """The work queued for the device then has not been waited for."""
    model, x = chain(), rows()
    for _ in range(12):
        model(x).square().mean().backward()
    raise RuntimeError("of the script")


@on_device
def two_devices(t: Trial) -> None:
    """A model whose halves are on a device each: two backward threads at once."""
    model, x = chain(), rows()
    model[DEPTH // 2 :].to("cuda:1")

    def loss() -> Tensor:
        h = model[: DEPTH // 2](x)
        return model[DEPTH // 2 :](h.to("cuda:1")).square().mean()

    trained(t, model, loss)


@on_device
def captured_graph(t: Trial) -> None:
    """A teacher that is captured once and replayed beside the training."""
    model, x = chain(), rows()
    teacher, given = chain().eval(), x.clone()
    with torch.no_grad():
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            teacher(given)
        torch.cuda.current_stream().wait_stream(warm)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            wanted = teacher(given)

    def loss() -> Tensor:
        given.copy_(x)
        graph.replay()
        return (model(x) - wanted).square().mean()

    trained(t, model, loss)


@on_device
def saves_nothing(t: Trial) -> None:
    """Autograd saves a tensor of no bytes, and whatever can go does."""
    model, x = chain(), rows()

    def loss() -> Tensor:
        h = model(x)
        nothing = h[:0].exp().sum()
        with contextlib.suppress(torch.OutOfMemoryError):
            torch.empty(1 << 40, device="cuda")
        return h.square().mean() + nothing

    trained(t, model, loss)


@on_device
def out_of_memory(t: Trial) -> None:
    """A request that does not fit is PyTorch's error, and a smaller one fits
    afterwards."""
    model = chain()
    try:
        torch.empty(1 << 40, device="cuda")
        caught = "nothing"
    except torch.OutOfMemoryError as error:
        caught = str(error).split(".")[0]
    torch.cuda.empty_cache()
    t.add("caught", [caught])
    x = rows()
    trained(t, model, lambda: model(x).square().mean())
