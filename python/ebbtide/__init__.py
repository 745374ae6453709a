"""ebbtide: a memory budget for PyTorch training.

A job is managed from its environment (EBBTIDE_BUDGET) or by `ebbtide run`;
nothing here has to be imported for that.
"""

import contextlib
import ctypes
import json
import threading
from collections.abc import Iterator
from typing import Any

from ebbtide import _entry
from ebbtide._views import Curve, Point, Report

__all__ = ["__version__", "budget", "curve", "report"]

__version__ = "0.1.0"

_NOT_RUNNING = (
    "ebbtide is not running in this process: set EBBTIDE_BUDGET before "
    "`import torch`, or start the program by `ebbtide run`"
)

# Budgets of the blocks that are open, in the order they were entered, and what
# held before the first of them.
_lock = threading.Lock()
_open: list[tuple[object, str]] = []
_outside = ""


def report() -> Report:
    """The report of this process so far; empty when ebbtide is not running."""
    core = _entry.running_core()
    text = None if core is None else _text(core, "ebbtide_report")
    return Report({} if text is None else json.loads(text))


def curve(seconds: float = 2.0) -> Curve:
    """Step time against budget for the job so far, from the step recorded last.

    Plans take up to `seconds` without offloading, and as much with it. They are made
    on this thread; training on others goes on. Raises RuntimeError where ebbtide is
    not running or no step has been recorded to its end.
    """
    text = _text(_core(), "ebbtide_curve", ctypes.c_double(seconds))
    answer = json.loads(text or '{"why": "it could not be made"}')
    if "why" in answer:
        raise RuntimeError(f"ebbtide: no curve: {answer['why']}")
    return Curve(_points(answer["points"]) or [], _points(answer["spilling"]))


@contextlib.contextmanager
def budget(amount: str | int) -> Iterator[None]:
    """Holds this process to another budget inside the block.

    `amount` is what EBBTIDE_BUDGET takes ("8GiB", "80%", "auto", "cuda:0=8GiB"), or a
    number of bytes. A budget is the process's, not the thread's: blocks nest, and of
    several that threads have open, in whatever order they end, the one entered last
    holds. The next allocations evict what exceeds a smaller budget; plans are made
    anew, so this is for phases of a job, not for steps. Raises ValueError where
    `amount` is not such a text, RuntimeError where ebbtide is not running or the
    process was started without a budget.
    """
    global _outside
    if isinstance(amount, bool) or not isinstance(amount, str | int):
        raise TypeError(f"budget: expected a text or bytes, got {amount!r}")
    core = _core()
    block = object()
    with _lock:
        before = _text(core, "ebbtide_budgets") or ""
        _change(core, f"{amount}B" if isinstance(amount, int) else amount)
        if not _open:
            _outside = before
        _open.append((block, _text(core, "ebbtide_budgets") or ""))
    try:
        yield
    finally:
        with _lock:
            _open[:] = [entry for entry in _open if entry[0] is not block]
            # Where ebbtide has stepped aside since, nothing is held any more.
            with contextlib.suppress(RuntimeError):
                _change(core, _open[-1][1] if _open else _outside)


def _core() -> ctypes.CDLL:
    core = _entry.running_core()
    if core is None:
        raise RuntimeError(_NOT_RUNNING)
    return core


def _text(core: ctypes.CDLL, function: str, *arguments: Any) -> str | None:
    """The text that a function of the core returns, which is freed; None for a null."""
    call = getattr(core, function)
    call.restype = ctypes.c_void_p
    pointer = call(*arguments)
    if pointer is None:
        return None
    try:
        return ctypes.string_at(pointer).decode(errors="replace")
    finally:
        core.ebbtide_free_report(ctypes.c_void_p(pointer))


def _change(core: ctypes.CDLL, amount: str) -> None:
    why = _text(core, "ebbtide_change_budgets", amount.encode())
    if why is not None:
        error = ValueError if why.startswith("V") else RuntimeError
        raise error(f"ebbtide.budget: {why[1:]}")


def _points(points: list[dict[str, Any]] | None) -> list[Point] | None:
    if points is None:
        return None
    return [Point(point["budget"], point["seconds"]) for point in points]
