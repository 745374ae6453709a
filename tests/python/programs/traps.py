"""Programs for the traps: what scripts do that a memory manager can trip over."""

import ctypes
import gc
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
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
    """Storages with a Python object, let go while they are being copied."""
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

    for make in (
        dead,
        dead_through_a_view,
        dead_view,
        view_itself,
        own_result,
        dead_of_several,
        made_without_grad,
        complex_view,
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


mkldnn: Any = torch.backends.mkldnn


def global_settings(t: Trial) -> None:
    """Settings that kernels read, other ones in backward than in forward."""
    torch.manual_seed(1)
    conv = nn.Conv2d(16, 16, 3, padding=1)
    x = data(4, 16, 32, 32)

    def finish(label: str, h: Tensor) -> None:
        t.gradients(label, (h.exp() * h.sin()).mean(), conv.parameters())

    with torch.backends.mkldnn.flags(enabled=False):
        h = conv(conv(x).tanh()).tanh()
    finish("mkldnn", h)
    torch.set_flush_denormal(True)
    h = conv(x * 1e-38).mul(1e-2).tanh().mul(1e20)
    torch.set_flush_denormal(False)
    finish("denormals", h)
    torch.set_default_dtype(torch.float64)
    h = conv(x).double() * torch.ones(4, 16, 32, 32).exp()
    torch.set_default_dtype(torch.float32)
    finish("default dtype", h.tanh())
    torch.set_float32_matmul_precision("medium")
    h = torch.mm(conv(x).view(256, 256).tanh(), conv(x).view(256, 256)).tanh()
    torch.set_float32_matmul_precision("highest")
    finish("precision", h)
    mkldnn.fp32_precision = "bf16"
    h = torch.mm(conv(x).view(256, 256).tanh(), conv(x).view(256, 256)).tanh()
    mkldnn.fp32_precision = "none"
    finish("inherited precision", h)
    torch.use_deterministic_algorithms(True, warn_only=True)
    with torch.backends.mkldnn.flags(enabled=True, deterministic=True):
        h = conv(x).index_add(0, torch.tensor([0, 0]), x[:2]).tanh()
    torch.use_deterministic_algorithms(False)
    finish("deterministic", h)
    t.note("as before", *settings())


def settings() -> list[object]:
    """What the script sees, and that an inherited precision still follows."""
    seen: list[object] = [
        torch.backends.mkldnn.enabled,
        torch.backends.mkldnn.deterministic,
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.get_default_dtype(),
        torch.get_float32_matmul_precision(),
        (torch.tensor(1e-38) * 1e-2).item(),
    ]
    for precision in ("tf32", "none"):
        mkldnn.fp32_precision = precision
        seen += [mkldnn.matmul.fp32_precision, mkldnn.conv.fp32_precision]
    return seen


def thread_count_changes(t: Trial) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(512, 512), nn.Tanh(), nn.LayerNorm(512))
    x = data(512, 512)
    for forward, backward in ((1, 2), (2, 1), (2, 2)):
        torch.set_num_threads(forward)
        h = model(x)
        loss = (h.exp() * h.softmax(0)).sum() + h.var(0).sum()
        torch.set_num_threads(backward)
        t.gradients(f"{forward} {backward}", loss, model.parameters())
        t.note("threads", torch.get_num_threads())


CALLS: list[float] = []


@torch.library.custom_op("ebbtide_test::scaled", mutates_args=())
def scaled(x: Tensor) -> Tensor:
    """Depends on what a schema does not show."""
    CALLS.append(1.0)
    return x * float(len(CALLS))


scaled.register_autograd(lambda _, gradient: gradient)


def ops_of_the_script_run_once(t: Trial) -> None:
    """An op registered from Python may do anything: it is not run again."""
    w = leaf(ROWS, WIDTH)
    for step in range(3):
        h = scaled(w.tanh()).exp()
        CALLS.append(1.0)
        t.gradients(f"step {step}", (h * h.sin()).sum(), [w])
    t.note("calls", len(CALLS))


def written_behind_the_dispatcher(t: Trial) -> None:
    """Bytes changed through NumPy: no op runs and no version is counted."""
    w = leaf(ROWS, WIDTH)
    row = leaf(WIDTH)
    wide, small = torch.zeros(ROWS, WIDTH), torch.zeros(WIDTH)
    mapped = torch.zeros(ROWS, WIDTH).share_memory_()
    read = torch.zeros(ROWS, WIDTH)
    sources = {
        "ours": (wide, wide.numpy()),
        "foreign": (foreign := torch.from_numpy(wide.numpy().copy()), foreign.numpy()),
        "small": (small, small.numpy()),
        "mapped": (mapped, None),
        "only read": (read, read.numpy()),
    }
    for step in range(3):
        for name, (source, array) in sources.items():
            if array is not None and name != "only read":
                array[:] = step + 1
            with t.work(f"{name} {step}"):
                g = w.tanh() * row.sin()
                h = (source * 0.5 + g).exp()  # saves nothing of the source
                loss = ((h * g).tanh() * h).sum() + (small * row).sum()
                del g, h
                torch.empty(1 << 20)
                if array is not None and name != "only read":
                    array[:] = 7  # the next batch is read already
                t.gradients(f"{name} {step}", loss, [w, row])


def inference_mode_writes(t: Trial) -> None:
    """Writes under inference mode look as if they came from below autograd."""
    w = leaf(ROWS, WIDTH)
    buffer = torch.ones(ROWS, WIDTH)
    for step in range(3):
        h = w * 1.5  # saves nothing
        loss = ((h + buffer).tanh().exp() * h.detach()[:1]).sum()
        torch.empty(1 << 20)
        with torch.inference_mode():
            buffer.add_(1)
            h.detach().mul_(2)
            h.data[1:].add_(1)
        try:
            t.gradients(f"step {step}", loss, [w])
        except RuntimeError as error:
            t.note(f"step {step}", str(error))
        h = w * 1.5
        loss = (h + buffer).tanh().exp().sum()
        torch.empty(1 << 20)
        with torch.inference_mode():
            buffer.add_(1)
            h.data.mul_(2)
        t.gradients(f"unsaved {step}", loss, [w])


def written_by_the_next_pair(t: Trial) -> None:
    """An op of one pair writes what a recipe of another reads."""
    w = leaf(ROWS, WIDTH)
    buffer = torch.ones(ROWS, WIDTH)
    for step in range(3):
        h = w * 1.5
        first = (h + buffer).tanh().exp().sum()
        t.gradients(f"between {step}", (w.sin() * w).sum(), [w])
        second = w.sigmoid()
        torch.empty(1 << 20)
        buffer.mul_(3)
        h.data.add_(1)
        loss = (second + buffer).exp().sum()
        torch.empty(1 << 20)
        t.gradients(f"first {step}", first, [w])
        t.gradients(f"second {step}", loss, [w])


def too_late(t: Trial) -> None:
    """What was relied upon is written through a pointer: an error, no number."""
    w = leaf(ROWS, WIDTH)
    source = data(ROWS, WIDTH)
    exporters: dict[str, Callable[[], Any]] = {
        "numpy": lambda: source.numpy(),
        "dlpack": lambda: np.from_dlpack(source),
        "pointer": lambda: np.ctypeslib.as_array(
            (ctypes.c_float * source.numel()).from_address(source.data_ptr())
        ),
    }
    for name, export in exporters.items():
        source = source.clone()
        for written in (False, True):
            loss = (source + w).tanh().exp().sum()
            torch.empty(1 << 20)
            array = export()
            if written:
                array += 3
            try:
                t.gradients(f"{name} {written}", loss, [w])
            except RuntimeError as error:
                t.note(f"{name} {written}", "behind PyTorch's back" in str(error))
            source = source.clone()


def storages_that_change_size(t: Trial) -> None:
    w = leaf(ROWS, WIDTH)
    for step in range(2):
        x = data(ROWS, WIDTH, seed=step)
        h = (x + 1).tanh()
        loss = ((h * w).exp() * h).sum()
        x.resize_(4)
        x = x.new_empty(0)
        t.gradients(f"input {step}", loss, [w])
        held = torch.zeros(ROWS, WIDTH)
        loss = ((held + w).tanh().exp()).sum()
        held.set_(torch.ones(3))  # type: ignore[call-overload]
        t.gradients(f"set {step}", loss, [w])
        shared = leaf(ROWS, WIDTH, seed=4)
        loss = (shared.tanh().exp() * w).sum()
        shared.share_memory_()
        t.gradients(f"shared {step}", loss, [shared, w])


def leaf_given_other_data(t: Trial) -> None:
    """PyTorch saves a leaf as the variable that it is, not as its bytes."""
    w = leaf(ROWS, WIDTH)
    for step in range(2):
        other = nn.Parameter(w.detach().clone())
        loss = (other.tanh().exp() * other.sin()).sum()
        other.data = torch.zeros(ROWS, WIDTH)
        t.gradients(f"leaf {step}", loss, [other])


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

    t.train([w], forward, steps=15)


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
