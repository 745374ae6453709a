"""Programs for the rules R10 to R12 (docs/internals/recording.md) and for bad input:
processes and how they end, and a job that prints its result."""

import functools
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as nnf
from torch.utils.data import DataLoader, TensorDataset

import ebbtide
from programs.pairs import network
from programs.trial import ROWS, WIDTH, Trial, data, digest, leaf

# mypy: disallow-untyped-calls=False, warn-return-any=False


def steps(count: int = 3) -> Tensor:
    """Trains; the result depends on every step."""
    w = leaf(ROWS, WIDTH)
    for step in range(count):
        h = nnf.dropout((w + step).tanh(), 0.2).exp()
        loss = (h * h.sin() + h.sigmoid().bernoulli()).sum()
        loss.backward()
        with torch.no_grad():
            assert w.grad is not None
            w -= 0.01 * w.grad
        w.grad = None
    return w.detach()


def job(t: Trial) -> None:
    print("result", digest(steps()))
    t.note("result", steps())


def job_exits_1(t: Trial) -> None:
    job(t)
    sys.exit(1)


def job_raises(t: Trial) -> None:
    job(t)
    w = leaf(ROWS, WIDTH)
    held = w.tanh().exp()
    raise ValueError(f"the job's own, {held.shape}")


def job_is_killed(t: Trial) -> None:
    job(t)
    os.kill(os.getpid(), signal.SIGKILL)


def job_is_terminated(t: Trial) -> None:
    job(t)
    os.kill(os.getpid(), signal.SIGTERM)


def job_leaves_at_once(t: Trial) -> None:
    job(t)
    sys.stdout.flush()
    os._exit(3)


def only_spillable(w: Tensor) -> Tensor:
    """A loss whose saved tensors cannot be recomputed, whatever copies cost."""
    everything = torch.ones(w.shape, dtype=torch.bool)
    return functools.reduce(torch.mul, ((w + i)[everything] for i in range(4))).sum()


def job_that_must_spill(t: Trial) -> None:
    w = leaf(ROWS, WIDTH)
    for step in range(3):
        t.gradients(f"step {step}", only_spillable(w + step), [w])


def job_on_a_full_disk(t: Trial) -> None:
    """No file grows past a limit, as on a disk that is full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100 << 10, resource.RLIM_INFINITY))
    job_that_must_spill(t)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    )


def job_looks_at_its_files(t: Trial) -> None:
    """The offload file is private and has no name."""
    w = leaf(1 << 20)
    loss = (w.tanh().exp() * w.sin()).sum()
    torch.empty(1 << 20)
    found = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            target = str(link.readlink())
            status = link.stat()
        except OSError:  # the folder's own descriptor is closed again
            continue
        if target.endswith("(deleted)") or "ebbtide" in target:
            found.append([target, oct(status.st_mode & 0o777), status.st_nlink])
    print("files", found)
    t.gradients("gradient", loss, [w])


def beyond_the_budget(t: Trial) -> None:
    """More than a budget of 8 MiB holds, where nothing can be evicted."""
    w = leaf(1 << 18)
    for step in range(2):
        held = [w]
        said = "nothing"
        try:
            for _ in range(16):
                held.append(held[-1].tanh())
        except RuntimeError as error:
            said = " | ".join([type(error).__name__, *str(error).splitlines()])
        print(said, len(held))
        del held
        t.gradients(f"step {step}", (w.tanh().exp() * w).sum(), [w])


def r10_data_loader_workers(t: Trial) -> None:
    w = leaf(WIDTH, WIDTH)
    rows = TensorDataset(data(512, WIDTH))
    generator = torch.Generator().manual_seed(1)
    loader = DataLoader(
        rows, batch_size=ROWS, shuffle=True, num_workers=2, generator=generator
    )
    for epoch in range(2):
        for number, (x,) in enumerate(loader):
            h = (x @ w).tanh()
            loss = (h.exp() * h).sum()
            t.gradients(f"batch {epoch}.{number}", loss, [w])


def child_trains(queue: "SimpleQueue[Any]") -> None:
    queue.put(digest(steps()))
    print(ebbtide.report().get("state", "not managed"))


def r10_fork(t: Trial) -> None:
    """Children that train, forked with a graph alive and copies under way."""
    w = leaf(1 << 18)
    context = multiprocessing.get_context("fork")
    for step in range(3):
        loss = ((w + step).tanh().exp() * w.sin().exp()).sum()
        queue: SimpleQueue[Any] = context.SimpleQueue()
        torch.manual_seed(step)
        child = context.Process(target=child_trains, args=(queue,))
        child.start()
        child.join()
        t.note(f"child {step}", child.exitcode, queue.get())
        t.gradients(f"parent {step}", loss, [w])


def r10_fork_goes_on_with_the_graph(t: Trial) -> None:
    """The child runs backward through what the parent has saved."""
    w = leaf(1 << 18)
    loss = (w.tanh().exp() * w.sin().exp()).sum()
    torch.empty(1 << 18)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        loss.backward()
        os.write(writer, digest(w.grad).encode())
        os._exit(7)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(writer)
    with os.fdopen(reader) as pipe:
        t.note("child", status, pipe.read())
    t.gradients("parent", loss, [w])


def r10_fork_reads_what_was_spilled(t: Trial) -> None:
    """The parent goes on first, and offloads other bytes than the child's."""
    w = leaf(1 << 18)
    loss = only_spillable(w)
    torch.empty(1 << 18)
    (parent_reads, child_writes), (child_reads, parent_writes) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.read(child_reads, 1)
        loss.backward()
        os.write(child_writes, digest(w.grad).encode())
        os._exit(7)
    t.gradients("parent", loss, [w])
    del loss
    for step in range(3):
        t.gradients(f"parent {step}", only_spillable(w * step), [w])
    os.write(parent_writes, b"!")
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(child_writes)
    with os.fdopen(parent_reads) as pipe:
        t.note("child", status, pipe.read())


def r11_exit_with_a_graph_alive(t: Trial) -> None:
    w = leaf(1 << 20)
    t.gradients("gradient", (w.tanh().exp() * w.sin()).sum(), [w])
    graph = (w.tanh().exp() * w.sin().exp()).sum()
    globals()["kept"] = [w, graph]


def r11_exit_while_a_thread_trains(t: Trial) -> None:
    def train() -> None:
        w = leaf(1 << 18)
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            (w.tanh().exp() * w.sin()).sum().backward()

    t.note("result", steps())
    threading.Thread(target=train).start()
    time.sleep(0.1)


def fast_forward_slow_backward(h: Tensor, everything: Tensor) -> Tensor:
    for _ in range(150):
        # A view forward, two million additions backward.
        slow = h.expand([64, 128, 256]).unfold(2, 256, 1)
        h = h.sin() + slow.mean()
        h = h.sin()[everything].view(128, 256)  # this cannot be recomputed
    return h


def r11_exit_inside_a_backward(t: Trial) -> None:
    """A thread is far from the end of its backward when the process ends."""
    # Saved tensors of Python's would need the interpreter, which is gone by then.
    compiled = torch.jit.script(fast_forward_slow_backward)
    began = threading.Event()

    def train() -> None:
        w = leaf(ROWS, WIDTH)
        h = compiled(w * 1, torch.ones(ROWS, WIDTH, dtype=torch.bool))
        h.register_hook(lambda _: began.set())
        h.sum().backward()

    t.note("result", steps())
    threading.Thread(target=train, daemon=True).start()
    began.wait()
    time.sleep(0.05)


def sinc_by_the_state_of_the_thread(x: Tensor) -> Tensor:
    excluded = torch._C._dispatch_tls_is_dispatch_key_excluded("Functionalize")
    return x.sin() if excluded else x.cos()


def r12_opaque_ops(t: Trial) -> None:
    """A value that cannot be recomputed is kept or copied, whatever depends on it
    too."""
    w = leaf(ROWS, WIDTH)

    def boolean_index(h: Tensor) -> Tensor:
        return h[h > -2].view(ROWS, WIDTH)

    def noise(h: Tensor) -> Tensor:
        return nnf.rrelu(h, training=True)

    def uninitialized(h: Tensor) -> Tensor:
        made = torch.empty_like(h)
        made[: ROWS // 2] = h[: ROWS // 2]
        made[ROWS // 2 :] = h[ROWS // 2 :]
        return made

    def unique(h: Tensor) -> Tensor:
        values, where = torch.unique(h.detach(), return_inverse=True)
        return h * values[where]

    def several_written(h: Tensor) -> Tensor:
        parts = [h * 1, h * 2]
        torch._foreach_mul_(parts, 2.0)
        return parts[0] + parts[1].sin()

    def numbers_from_python(h: Tensor) -> Tensor:
        return h * torch.tensor([[float(i)] for i in range(ROWS)])

    def empty_concatenated(h: Tensor) -> Tensor:
        return torch.cat([torch.tensor([]), h])

    def read_by_the_script(h: Tensor) -> Tensor:
        return h * h.sum().item() if h.min().item() < 0 else h

    def not_the_same_again(h: Tensor) -> Tensor:
        """Behaves as an op of PyTorch whose bytes depend on unknown state."""
        return torch.sinc(h).exp().sin()

    library = torch.library.Library("aten", "IMPL")
    library.impl("sinc", sinc_by_the_state_of_the_thread, "CPU")
    for op in (
        not_the_same_again,
        boolean_index,
        noise,
        uninitialized,
        unique,
        several_written,
        numbers_from_python,
        empty_concatenated,
        read_by_the_script,
    ):
        for step in range(2):
            label = f"{op.__name__} {step}"
            with t.work(label):
                h = op((w + step).tanh()).exp()
                t.gradients(label, (h * h.sin()).sum(), [w])
                del h


def sized_by_data(op: Callable[[Tensor, float], Tensor]) -> Callable[[Trial], None]:
    """A case of an op whose outputs are as large as bytes say.

    Shapes of its inputs repeat while those of the outputs change.
    """

    def case(t: Trial) -> None:
        w = leaf(ROWS, WIDTH)

        def forward(step: int) -> Tensor:
            h = op((w + step).tanh(), 0.2 * step).exp()
            return (h * h.sin()).sum()

        t.train([w], forward)

    return case


r12_boolean_index = sized_by_data(lambda h, limit: h[h > limit])
r12_masked_select = sized_by_data(lambda h, limit: h.masked_select(h > limit))
r12_index = sized_by_data(lambda h, limit: h[torch.arange(ROWS).flip(0)] * limit)
r12_nonzero = sized_by_data(lambda h, limit: h[torch.where(h > limit)])


def fits(t: Trial) -> None:
    """A second program in a process: what is left of the first is no burden."""
    model = network()
    x = data(ROWS, WIDTH)
    t.train(model.parameters(), lambda step: model(x + step).mean(), steps=8)
