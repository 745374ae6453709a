"""Programs for bad input: what jobs do, and what happens to them, that no manual
has."""

import atexit
import ctypes
import os
import resource
import signal
import threading
import time
from pathlib import Path

import torch
from torch import Tensor

import ebbtide
from ebbtide import _entry
from programs.ends import only_spillable, steps
from programs.trial import ROWS, WIDTH, Trial, data, digest, leaf

# mypy: disallow-untyped-calls=False, warn-return-any=False


def freed_and_filled_again(tensor: Tensor) -> None:
    """As FSDP does with its parameters between the passes."""
    kept = tensor.detach().clone()
    tensor.untyped_storage().resize_(0)
    others = [torch.full(kept.shape, 7.0) for _ in range(8)]
    tensor.untyped_storage().resize_(kept.nbytes)
    tensor.data.copy_(kept)
    del others


def saved_storages_freed_and_filled_again(t: Trial) -> None:
    w = leaf(WIDTH, WIDTH)
    x = data(ROWS, WIDTH)
    for step in range(3):
        h = x @ (w + step)
        gathered = w.detach().clone().requires_grad_()
        loss = h.sin().sum() + (h @ gathered).sum()
        torch.empty(1 << 20)
        freed_and_filled_again(h)
        freed_and_filled_again(gathered)
        t.gradients(f"step {step}", loss, [w, gathered])


def read_storages_freed_and_filled_again(t: Trial) -> None:
    """Values computed from them have been dropped meanwhile."""
    w = leaf(WIDTH, WIDTH)
    x = data(ROWS, WIDTH)
    for step in range(3):
        h = x @ (w + step)
        gathered = w.detach().clone().requires_grad_()
        sharded = leaf(ROWS, WIDTH, seed=step)
        out = ((h.sin() * sharded).exp() @ gathered).tanh()
        torch.empty(1 << 20)
        for tensor in (h, gathered, sharded):
            freed_and_filled_again(tensor)
        t.gradients(f"step {step}", out.square().sum(), [w, gathered, sharded])


def storages_that_shrink(t: Trial) -> None:
    """A tensor that nothing saved is freed while values computed from it are
    dropped."""
    w = leaf(ROWS, WIDTH)
    for step in range(3):
        h = w * (step + 2)  # saves nothing
        out = (h + 1).tanh().exp()
        torch.empty(1 << 20)
        h.untyped_storage().resize_(0)
        del h
        t.gradients(f"step {step}", out.sum(), [w])


def signals_that_train(t: Trial) -> None:
    """A handler reports and trains, wherever the script is."""
    own = leaf(ROWS, WIDTH, seed=9)
    seen: list[str] = []

    def handle(*_: object) -> None:
        ebbtide.report()
        loss = (own.tanh().exp() * own.sin()).sum()
        (gradient,) = torch.autograd.grad(loss, [own])
        seen.append(digest(gradient))
        signal.setitimer(signal.ITIMER_REAL, 0.003)

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.002)
    w = leaf(ROWS, WIDTH)
    for step in range(20):
        h = only_spillable((w + step).tanh().exp())
        t.gradients(f"step {step}", h, [w])
    end = time.monotonic() + 5
    while not seen and time.monotonic() < end:
        time.sleep(0.001)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    t.note("handled", *sorted(set(seen)))


def exit_that_trains(t: Trial) -> None:
    """Training and reports in exit handlers, of Python and of the libraries."""
    w = leaf(ROWS, WIDTH)
    graph = (w.tanh().exp() * w.sin()).sum()

    def finish() -> None:
        graph.backward()
        print("at exit", digest(w.grad), digest(steps(2)))
        ebbtide.report()

    atexit.register(finish)
    core = _entry.running_core()
    if core is not None:
        # A report more, after the interpreter has gone.
        address = ctypes.cast(core.ebbtide_report, ctypes.c_void_p)
        assert ctypes.CDLL(None).__cxa_atexit(address, None, None) == 0
    t.note("result", steps())


def spill_files() -> list[int]:
    """Descriptors of files without a name."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            if str(link.readlink()).endswith("(deleted)"):
                found.append(int(link.name))
        except OSError:  # the folder's own descriptor is closed again
            continue
    return found


def killed_while_spilling(t: Trial) -> None:
    """SIGKILL comes while bytes are on their way to the file."""
    empty = {number: os.fstat(number).st_blocks for number in spill_files()}

    def kill() -> None:
        while True:
            for number, blocks in empty.items():
                if os.fstat(number).st_blocks > blocks:
                    print("spilling", flush=True)
                    os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()
    w = leaf(1 << 22)
    for _ in range(20):
        only_spillable(w).backward()
    t.note("never killed")


def disk_full_in_backward(t: Trial) -> None:
    """Memory is short, and the disk full, from the first gradient on."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    w = leaf(ROWS, WIDTH)
    for step in range(3):
        loss = only_spillable((w + step).tanh())
        held: list[Tensor] = []

        def press(_: Tensor, held: list[Tensor] = held) -> None:
            resource.setrlimit(
                resource.RLIMIT_FSIZE, (64 << 10, resource.RLIM_INFINITY)
            )
            held.append(torch.empty(1 << 20))

        loss.register_hook(press)
        t.gradients(f"step {step}", loss, [w])
        resource.setrlimit(
            resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        )


def refuse_threads() -> None:
    """From now on no thread can start: stacks are too large for any machine."""
    libc = ctypes.CDLL(None)
    attributes = ctypes.create_string_buffer(64)
    assert libc.pthread_attr_init(attributes) == 0
    size = ctypes.c_size_t(1 << 46)
    assert libc.pthread_attr_setstacksize(attributes, size) == 0
    assert libc.pthread_setattr_default_np(attributes) == 0


def threads_are_refused(t: Trial) -> None:
    """Neither copies nor plans have a thread to run on."""
    refuse_threads()
    try:
        threading.Thread(target=print).start()
    except RuntimeError as error:
        t.note("refused", str(error))
    w = leaf(ROWS, WIDTH)

    def forward(step: int) -> Tensor:
        return only_spillable((w + step).tanh().exp())

    t.train([w], forward, steps=5)


def spills_beside_others(t: Trial) -> None:
    """Long enough for two of them to share a disk."""
    w = leaf(1 << 18)
    for step in range(12):
        t.gradients(f"step {step}", only_spillable(w + step), [w])
