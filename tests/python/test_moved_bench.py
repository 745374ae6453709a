"""The complaints of the bench of moved weights."""

import dataclasses

import moved_bench

ROW = moved_bench.Row(
    device="simulated CUDA",
    optimizer="lists",
    state=300,
    budget=100,
    peak=100,
    same=True,
    out=10.0,
    back=10.0,
    unmanaged=1.0,
    step=2.0,
    at_once=1.0,
    in_turn=2.0,
)


def complaints(**other: object) -> list[str]:
    return list(dataclasses.replace(ROW, **other).complaints())  # type: ignore[arg-type]


def test_a_row_that_holds_is_shown() -> None:
    assert complaints() == []
    assert "| simulated CUDA |     lists |" in moved_bench.show([ROW])


def test_each_figure_that_does_not_hold_is_named() -> None:
    name = "simulated CUDA, lists"
    assert complaints(same=False) == [f"{name}: the result is another one"]
    assert complaints(peak=101) == [f"{name}: a step took 101 of 100 B"]
    assert complaints(state=299) == [f"{name}: the state has 299 B, the budget 100"]
    assert complaints(step=2.5) == [f"{name}: 2.500 s, predicted 2.000"]
    assert complaints(step=2.5, device="CPU") == []
