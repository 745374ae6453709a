"""Programs that use the Python package."""

import contextlib
import threading

import ebbtide
from programs.trial import ROWS, WIDTH, Trial, leaf

# mypy: disallow-untyped-calls=False


def within(amount: str | int) -> contextlib.AbstractContextManager[None]:
    """The budget, or nothing where the program is not managed."""
    return ebbtide.budget(amount) if ebbtide.report() else contextlib.nullcontext()


def held() -> int:
    return int(ebbtide.report().get("budget", 0))


def changes_its_budget(t: Trial) -> None:
    """Nine values of 1 MiB a step, under budgets that nest."""
    w = leaf(8 * ROWS, WIDTH)

    def train(name: str, steps: int) -> None:
        for step in range(steps):
            h = w
            for _ in range(4):
                h = h.tanh().exp()
            t.gradients(f"{name} {step}", h.mean(), [w])
        peaks = ebbtide.report().get("step_peaks", [0])
        print(name, held(), max(peaks[-2:]), flush=True)

    train("fits", 4)
    with within("7MiB"):
        train("outer", 4)
        with within(6 << 20):
            train("inner", 4)
        train("outer again", 4)
        with contextlib.suppress(ZeroDivisionError), within("6MiB"):
            raise ZeroDivisionError
        print("after an error", held())
    train("fits again", 4)


def overlaps_in_threads(t: Trial) -> None:
    """Blocks of two threads that do not nest: the one entered last holds."""
    w = leaf(ROWS, WIDTH)
    t.gradients("one", (w.tanh() * w).sum(), [w])
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with within("20MiB"):
            entered.set()
            leave.wait()

    thread = threading.Thread(target=other)
    first = within("10MiB")
    first.__enter__()
    thread.start()
    entered.wait()
    print(held() >> 20)
    first.__exit__(None, None, None)
    print(held() >> 20)
    leave.set()
    thread.join()
    print(held() >> 20)


def asks_for_nonsense(t: Trial) -> None:
    w = leaf(ROWS, WIDTH)
    t.gradients("one", (w.tanh() * w).sum(), [w])
    for amount in ("much", "0B", -1, "cuda:0=1GiB", 1.5):
        try:
            with ebbtide.budget(amount):  # type: ignore[arg-type]
                print("taken")
        except (TypeError, ValueError, RuntimeError) as error:
            print(f"{type(error).__name__}: {error}", flush=True)


def asks_for_its_curve(t: Trial) -> None:
    try:
        ebbtide.curve()
    except RuntimeError as error:
        print(error, flush=True)
    w = leaf(8 * ROWS, WIDTH)
    for step in range(3):
        h = w
        for _ in range(4):
            h = h.tanh().exp()
        t.gradients(f"{step}", h.mean(), [w])
    curve = ebbtide.curve(0.2)
    print([point.budget for point in curve])
    print([point.seconds for point in curve])
    print(curve.offloading is None, len(curve._repr_html_()))
