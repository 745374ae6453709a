"""Tools of a case: notes of every result, and training steps."""

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import ebbtide

# As in the jobs (bench/jobs/common.py): one thread makes the first call of MKL's
# vector functions, or two that make it together can differ.
torch.zeros(1).sin_()

# A storage below 64 KiB is never managed; this one has twice that.
ROWS, WIDTH = 128, 256

# Threads that last as long as the process, at most one of each: ours of the copies, and
# PyTorch's of a device, which begin with its first backward that has memory.
LASTING = {"ebbtide-out", "ebbtide-back", "ebbtide-pin"}
LASTING |= {f"pt_autograd_{device}" for device in range(8)}


def digest(value: object) -> str:
    """SHA-256 over type, shape and bytes."""
    if isinstance(value, Tensor):
        dense = value.detach().contiguous()
        data = dense.reshape(-1).view(torch.uint8).numpy().tobytes()
        text = f"{value.dtype} {tuple(value.shape)}".encode()
        return hashlib.sha256(text + data).hexdigest()[:16]
    return repr(value)


def leaf(*shape: int, seed: int = 0, low: float = -1, high: float = 1) -> Tensor:
    """A parameter whose values do not depend on the default generator."""
    drawn = torch.rand(*shape, generator=torch.Generator().manual_seed(seed))
    return (drawn * (high - low) + low).requires_grad_()


def data(*shape: int, seed: int = 0, low: float = -1, high: float = 1) -> Tensor:
    return leaf(*shape, seed=seed, low=low, high=high).detach()


class Trial:
    """Results of one case in one process."""

    def __init__(self, result: Path) -> None:
        self._result = result
        self._notes: list[tuple[str, list[str]]] = []
        self._work: dict[str, dict[str, int]] = {}

    def note(self, label: str, *values: object) -> None:
        """Values that have to be equal, bit for bit, in every mode."""
        self.add(label, [digest(value) for value in values])

    def add(self, label: str, digests: list[str]) -> None:
        self._notes.append((label, digests))

    def write(self) -> None:
        result = {
            "notes": self._notes,
            "work": self._work,
            "report": ebbtide.report(),
        }
        self._result.write_text(json.dumps(result))

    @contextmanager
    def work(self, label: str) -> Iterator[None]:
        """Says apart from the rest what ebbtide does in this block."""
        before = counts()
        yield
        after = counts()
        self._work[label] = {name: after[name] - before[name] for name in after}

    def count(self, label: str, **numbers: int) -> None:
        """Numbers that need not be equal, for the test to look at."""
        self._work[label] = numbers

    def gradients(
        self, label: str, loss: Tensor, leaves: Iterable[Tensor], **options: Any
    ) -> None:
        """Runs backward and notes what it gives."""
        leaves = list(leaves)
        loss.backward(**options)  # type: ignore[no-untyped-call]
        self.note(label, loss, *(tensor.grad for tensor in leaves))
        for tensor in leaves:
            tensor.grad = None

    def train(
        self,
        parameters: Iterable[Tensor],
        forward: Callable[[int], Tensor],
        *,
        steps: int = 3,
        between: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Steps of gradient descent; notes loss and gradients of each."""
        held: Sequence[Tensor] = list(parameters)
        for step in range(steps):
            loss = forward(step)
            loss.backward()  # type: ignore[no-untyped-call]
            self.note(f"step {step}", loss, *(p.grad for p in held))
            del loss
            with torch.no_grad():
                for p in held:
                    if p.grad is not None:
                        p -= 0.05 * p.grad
                        p.grad = None
            between(step)
            await_planner()
        self.note("generator", torch.rand(3))


def counts() -> dict[str, int]:
    report = ebbtide.report()
    tiers = report.get("bytes_by_tier", {})
    return {
        "replayed": report.get("ops_replayed", 0),
        "dropped": tiers.get("dropped", 0),
        "spilled": report.get("bytes_spilled", 0),
        "pairs": report.get("steps", 0),
    }


def threads() -> list[str]:
    """Names of the threads of this process."""
    names = []
    for name in Path("/proc/self/task").glob("*/comm"):
        try:
            names.append(name.read_text().strip())
        except OSError:  # that thread has just ended
            continue
    return names


def resources(most: int | None = None) -> tuple[int, int]:
    """Open files of this process, and threads but for one of each of LASTING.

    A thread has its name a moment after it began, until then that of who began it, and
    one that makes plans ends by itself: with more than `most` threads it looks again
    for a while.
    """
    end = time.monotonic() + 5
    while True:
        names = threads()
        others = len(names) - len(LASTING & set(names))
        if most is None or others <= most or time.monotonic() > end:
            return len(list(Path("/proc/self/fd").iterdir())), others
        time.sleep(0.01)


def await_planner() -> None:
    """Lets the planning thread end, so that the next step can use its plan."""
    end = time.monotonic() + 30
    while planner_runs() and time.monotonic() < end:
        time.sleep(0.01)


def planner_runs() -> bool:
    return "ebbtide-plan" in threads()


def in_thread(function: Callable[[], None]) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()
