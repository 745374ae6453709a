"""Programs for the traps: what scripts do that a memory manager can trip over."""

import ctypes
import gc
import sys
import threading
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as nnf

from programs.pairs import network
from programs.trial import ROWS, WIDTH, Trial, data, in_thread, leaf

# mypy: disallow-untyped-calls=False, warn-return-any=False
# mypy: disallow-untyped-decorators=False


def swap_tensors(t: Trial) -> None:
    """torch.utils.swap_tensors refuses tensors with weak references."""
    model = network()
    x = data(ROWS, WIDTH)

    def between(_: int) -> None:
        torch.__future__.set_swap_module_params_on_conversion(True)
        saved = {name: value.clone() for name, value in model.state_dict().items()}
        model.load_state_dict(saved)
        model.to(torch.float64).to(torch.float32)
        for parameter in model.parameters():
            other = nn.Parameter(parameter.detach() * 1.01)
            torch.utils.swap_tensors(parameter, other)
        torch.__future__.set_swap_module_params_on_conversion(False)

    t.train(
        model.parameters(),
        lambda step: model(x + step).exp().mean(),
        steps=4,
        between=between,
    )


def threads_of_the_script(t: Trial) -> None:
    """Two threads train; a third allocates; passes start and end elsewhere."""
    stop = threading.Event()

    def allocate() -> None:
        while not stop.is_set():
            torch.empty(1 << 18).fill_(1).sum()

    def train(seed: int, results: list[Tensor]) -> None:
        w = leaf(ROWS, WIDTH, seed=seed)
        for _ in range(5):
            loss = (w.tanh().exp() * w.sin()).sum()
            loss.backward()
            assert w.grad is not None
            results.append(w.grad.clone())
            w.grad = None

    results: list[list[Tensor]] = [[], [], []]
    others = [threading.Thread(target=allocate)]
    for seed in (1, 2):
        others.append(threading.Thread(target=train, args=(seed, results[seed])))
    for thread in others:
        thread.start()
    train(3, results[0])
    for thread in others[1:]:
        thread.join()
    stop.set()
    others[0].join()
    for label, gradients in zip(("main", "first", "second"), results, strict=True):
        t.note(label, *gradients)


def backward_on_another_thread(t: Trial) -> None:
    w = leaf(ROWS, WIDTH)
    kept: list[Tensor] = []
    for step in range(3):
        loss = (w.tanh().exp() * w.sin()).sum()
        in_thread(lambda loss=loss: loss.backward())  # type: ignore[misc]
        t.note(f"backward {step}", w.grad)
        w.grad = None
        in_thread(lambda: kept.append((w.tanh().exp() * w.sin()).sum()))
        t.gradients(f"forward {step}", kept.pop(), [w])


def profiler_sees_memory(t: Trial) -> None:
    """An allocator of one's own has to report what it does."""
    w = leaf(ROWS, WIDTH)
    with torch.profiler.profile(profile_memory=True) as profile:
        kept = torch.empty(1 << 18)
        t.gradients("while profiled", (w.tanh() * w.exp()).sum(), [w])
    events = profile.key_averages()
    bytes_of = {event.key: event.self_cpu_memory_usage for event in events}
    t.note("empty", bytes_of.get("aten::empty"), kept.shape)


def wrappers_of_storages(t: Trial) -> None:
    """Storages with a Python object, released while they are being copied."""
    w = leaf(ROWS, WIDTH)
    for step in range(4):
        h = (w + step).tanh()
        wrapper = h.untyped_storage()
        out = h.exp()
        other = out.untyped_storage()
        size = wrapper.nbytes() + other.nbytes()
        del h, wrapper
        torch.empty(1 << 20)
        loss = (out * out.sin()).sum()
        del out, other
        gc.collect()
        torch.empty(1 << 20)
        t.gradients(f"step {step}", loss, [w])
        t.note(f"bytes {step}", size)


def saved_tensors_read_by_the_script(t: Trial) -> None:
    w = leaf(ROWS, WIDTH)
    out = w.tanh().exp()
    node: Any = out.grad_fn
    torch.empty(1 << 20)
    t.note("result", node._saved_result, node._raw_saved_result is not None)
    below = node.next_functions[0][0]
    t.note("below", below._saved_result, below._saved_result)
    t.gradients("gradient", out.sum(), [w])
    try:
        node._saved_result  # noqa: B018
    except RuntimeError as error:
        t.note("released", str(error))


def tensors_that_are_not_plain(t: Trial) -> None:
    w = leaf(ROWS, WIDTH)

    def conjugated() -> Tensor:
        z = torch.complex(w.tanh(), w.sin())
        return (z.conj() * z.exp().conj()).abs().sum()

    def negated() -> Tensor:
        return (torch.complex(w, w.exp()).conj().imag * w.sin()).exp().sum()

    def sparse() -> Tensor:
        return torch.sparse.mm(w.tanh().relu().to_sparse(), w.t().exp()).sum()

    def vmapped() -> Tensor:
        return torch.func.vmap(lambda row: row.tanh().exp().sum())(w).sum()

    def transformed() -> Tensor:
        inner = torch.func.grad(lambda v: v.tanh().exp().sum())(w)
        return (inner * w).sum()

    def scripted() -> Tensor:
        return torch.jit.trace(lambda v: v.tanh().exp() * v, w)(w).sum()

    def inference_input() -> Tensor:
        with torch.inference_mode():
            x = data(ROWS, WIDTH).sin()
        return (w.tanh() * w.exp()).sum() + x.sum()

    def quantized_aware() -> Tensor:
        return (
            torch.fake_quantize_per_tensor_affine(w.tanh(), 0.1, 0, -128, 127)
            .exp()
            .sum()
        )

    def nested() -> Tensor:
        rows = torch.nested.nested_tensor_from_jagged(
            w.tanh(), torch.tensor([0, 3, ROWS])
        )
        return (rows * 2).exp().values().sum()

    for make in (
        conjugated,
        negated,
        sparse,
        vmapped,
        transformed,
        scripted,
        inference_input,
        quantized_aware,
        nested,
    ):
        with t.work(make.__name__):
            t.gradients(make.__name__, make(), [w])


CALLS: list[float] = []


@torch.library.custom_op("ebbtide_test::scaled", mutates_args=())
def scaled(x: Tensor) -> Tensor:
    """Depends on what a schema does not show."""
    CALLS.append(1.0)
    return x * float(len(CALLS))


scaled.register_autograd(lambda _, gradient: gradient)


def ops_of_the_script_run_once(t: Trial) -> None:
    """An op registered from Python may do anything: it is not recomputed."""
    w = leaf(ROWS, WIDTH)
    for step in range(3):
        h = scaled(w.tanh()).exp()
        CALLS.append(1.0)
        t.gradients(f"step {step}", (h * h.sin()).sum(), [w])
    t.note("calls", len(CALLS))


@torch.library.custom_op("ebbtide_test::tripled", mutates_args=())
def tripled(x: Tensor) -> Tensor:
    """Writes what no op shows, as a kernel of C or Triton does."""
    out = x.clone()
    count = out.numel()
    memory = (ctypes.c_float * count).from_address(out.data_ptr())
    memory[:] = [3.0 * value for value in memory]
    return out


def ops_with_kernels_of_their_own(t: Trial) -> None:
    """Where gradients are on: the ops inside look like any others."""
    w = leaf(ROWS, WIDTH)
    for step in range(3):
        y = w.tanh()
        y = (tripled(y.detach()) * y).sin()
        t.gradients(f"step {step}", y.sum(), [w])


def idle_then_awake(t: Trial) -> None:
    """Steps that fit, then steps that do not, and back."""
    w = leaf(WIDTH, WIDTH)
    x = data(8 * ROWS, WIDTH)

    def forward(step: int) -> Tensor:
        rows = 8 * ROWS if 6 <= step < 9 else ROWS
        h = x[:rows] @ w
        for _ in range(6):  # 12 MiB in all where the steps are large
            h = h.tanh().exp()
        return h.mean()

    t.train([w], forward, steps=24)


def numbers_that_change(t: Trial) -> None:
    """Every step has the ops of the one before, and other numbers in them."""
    w = leaf(WIDTH, WIDTH)
    x = data(2 * ROWS, WIDTH)

    def forward(step: int) -> Tensor:
        h = x @ w
        for k in range(1, 5):
            h = torch.add(h * (1 + step / 7 + k), h.tanh(), alpha=1 / (k + step))
            h = nnf.leaky_relu(h.clamp(-step - k, max=step + 2), 0.01 * step)
            h = nnf.dropout(h, step / 20) - step
        return h.mean()

    t.train([w], forward, steps=14)


def control(t: Trial) -> None:
    """Two unmanaged runs are equal, at one thread and at two."""
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 30 * 30, 64),
        nn.Dropout(0.1),
    )
    x = data(8, 3, 32, 32)
    t.train(
        model.parameters(),
        lambda step: nnf.cross_entropy(model(x + step), torch.arange(8)),
    )


def shapes_that_depend_on_data(t: Trial) -> None:
    w = leaf(ROWS, WIDTH)
    for step in range(3):
        a = (w * (step + 1)).tanh()
        mask = a.detach() > 0.1 * step
        kept = a[mask].exp()
        picked = torch.masked_select(a, mask).sin()
        rows = a[mask.any(1).nonzero()[:, 0]].cos()
        loss = (kept * kept.exp()).sum() + (picked * kept).sum() + rows.square().sum()
        del a, kept, picked, rows
        torch.empty(1 << 20)
        t.gradients(f"step {step}", loss, [w])


def conjugated_arguments(t: Trial) -> None:
    real, imaginary = leaf(ROWS, ROWS, seed=1), leaf(ROWS, ROWS, seed=2)
    for step in range(2):
        a = torch.complex(real, imaginary).sin()
        b = (a.mH @ a.conj() * a.conj().imag).exp()
        loss = torch.view_as_real(b * b.mH).sum()
        del a, b
        torch.empty(1 << 20)
        t.gradients(f"step {step}", loss, [real, imaginary])


class Named(torch.autograd.Function):
    """A node of Python's, whose name and end need the interpreter."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = x.exp()
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        x, y = ctx.saved_tensors
        return gradients[0] * y + x.tanh()


def two_threads_and_one_interpreter(t: Trial) -> None:
    """Each takes the interpreter and our lock in its own order, and often."""
    sys.setswitchinterval(1e-5)
    results: list[list[Tensor]] = [[], []]

    def train(number: int) -> None:
        w = leaf(ROWS, WIDTH, seed=number)
        for _ in range(60):
            h = Named.apply(Named.apply(w.tanh()).sin())
            (gradient,) = torch.autograd.grad((h * h.sigmoid()).sum(), [w])
            unused = Named.apply(w.cos()).exp()  # Python lets its graph go
            del h, unused
            results[number].append(gradient)

    threads = [threading.Thread(target=train, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, gradients in enumerate(results):
        t.note(f"thread {number}", *gradients)


def threads_and_one_generator(t: Trial) -> None:
    """One draws again what it drew; others read the generator and ask for memory.

    They do so with the interpreter held, and wait for the generator with it.
    """
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            torch.get_rng_state()

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    w = leaf(ROWS, WIDTH)
    for step in range(20):
        h = nnf.dropout((w + step).tanh(), 0.2).exp()
        h = nnf.dropout(h.sin(), 0.3).exp()
        t.gradients(f"step {step}", (h * h.sigmoid()).sum(), [w])
    stop.set()
    for thread in threads:
        thread.join()
