"""`./dev figures`: the pictures of the documents come from the data beside them."""

import json
from pathlib import Path

import pytest

import figures


@pytest.mark.parametrize("source", sorted(figures.FOLDER.glob("*.json")))
def test_equal_data_give_the_bytes_of_the_picture(source: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.svg"
    figures.draw(json.loads(source.read_text()), again)
    committed = source.with_suffix(".svg").read_bytes()
    assert again.read_bytes() == committed
    assert len(committed) < 100_000


def test_a_curve_is_the_most_in_each_slice_of_the_fastest_warm_step() -> None:
    steps = [
        {"ph": "X", "name": f"step {i}", "ts": 1000.0 * i, "dur": 1000.0 - i}
        for i in range(8)
    ]
    # Steps 4 to 6 are warm and not the last: step 6 takes 994.
    samples = [(5999.0, 7), (6000.0, 5), (6100.0, 90), (6101.0, 20), (6800.0, 3)]
    live = [
        {"ph": "C", "name": "live bytes", "ts": ts, "args": {"other": 1, "saved": n}}
        for ts, n in samples
    ]
    drawn = figures.curve([*steps, *live])
    assert len(drawn) == figures.SLICES
    peak = int(100 / 994 * figures.SLICES)
    fall = int(800 / 994 * figures.SLICES)
    assert drawn[:peak] == [6] * peak
    assert drawn[peak] == 91
    assert drawn[peak + 1 : fall + 1] == [21] * (fall - peak)
    assert drawn[fall + 1 :] == [4] * (figures.SLICES - fall - 1)
