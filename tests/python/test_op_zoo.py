"""Gradients through many ops are the same, bit for bit, under eviction."""

import pytest

from same import Outcome, Zygote

WAYS = ["plain", "autocast", "twice", "double"]


def failed(outcome: Outcome) -> set[str]:
    """Ops that PyTorch itself refuses; their error messages are the same."""
    return {label for label, values in outcome.notes if values[0].startswith("'")}


@pytest.mark.parametrize("way", WAYS)
def test_zoo(zygote: Zygote, way: str) -> None:
    recomputed, spilled = zygote.forced(f"zoo.{way}")
    refused = failed(recomputed)
    assert len(recomputed.notes) - len(refused) >= 60, refused
    idle = {
        name
        for name, work in recomputed.work.items()
        if name not in refused and work["replayed"] == 0
    }
    assert idle == set()
    untouched = {
        name
        for name, work in spilled.work.items()
        if name not in refused and work["replayed"] + work["spilled"] == 0
    }
    assert untouched == set()


def test_zoo_of_modules(zygote: Zygote) -> None:
    zygote.forced("zoo.modules")
