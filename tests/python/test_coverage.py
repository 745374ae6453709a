"""The report on saved bytes, and `./dev bench coverage`."""

import dataclasses
from typing import Any

import pytest

import coverage_bench
from same import RECOMPUTE, SPILLING, Zygote

STORAGE = 128 * 256 * 4  # storage size in the programs
GOOD = coverage_bench.Row(
    "net",
    saved=1000,
    others=300,
    report={
        "bytes": 990,
        "recomputable": 900,
        "offload_only": 60,
        "kept": 30,
        "away": 960,
        "parameters": 200,
        "outside": 110,
        "groups": [
            {
                "tier": "kept",
                "op": "exp",
                "reason": "too small to be managed",
                "bytes": 30,
                "storages": 2,
            },
        ],
    },
    same=True,
    steps=3,
    dropped=900,
    spilled=60,
)


def groups(saved: dict[str, Any]) -> dict[tuple[str, str, str], int]:
    """Bytes by tier, op and reason."""
    return {(g["tier"], g["op"], g["reason"]): g["bytes"] for g in saved["groups"]}


def test_every_saved_byte_has_a_tier_and_a_reason(zygote: Zygote) -> None:
    saved = zygote.same("coverage.of_every_kind", SPILLING).report["saved"]
    again = "rrelu_with_noise writes unseen by its schema"
    uninitialized = "empty_like gives memory without a value"
    assert groups(saved) == {
        ("offload only", "rrelu_with_noise", uninitialized): STORAGE,
        ("offload only", "exp", again): STORAGE,
        ("kept", "sigmoid", "held by the script"): STORAGE,
        ("kept", "exp", "too small to be managed"): 128 * 4,
        ("outside", "no op of the pair", "can be offloaded"): STORAGE,
    }
    assert saved["recomputable"] == 3 * STORAGE  # tanh's, and the complex one
    assert saved["offload_only"] == 2 * STORAGE
    assert saved["kept"] == STORAGE + 128 * 4
    assert saved["bytes"] == 6 * STORAGE + 128 * 4
    assert saved["parameters"] == 2 * STORAGE  # the complex one


def test_without_spilling_what_has_no_recipe_is_kept(zygote: Zygote) -> None:
    saved = zygote.same("coverage.of_every_kind", RECOMPUTE).report["saved"]
    assert saved["offload_only"] == 0
    assert saved["recomputable"] == saved["away"] == 3 * STORAGE
    reason = "rrelu_with_noise writes unseen by its schema, and no offloading"
    assert groups(saved)[("kept", "exp", reason)] == STORAGE


def test_recomputing_that_is_switched_off_is_a_reason_of_its_own(
    zygote: Zygote,
) -> None:
    off = "is not recomputed: EBBTIDE_RECOMPUTE=0 switches that off"
    switch = {"EBBTIDE_RECOMPUTE": "0"}
    kept = zygote.same("coverage.of_every_kind", RECOMPUTE | switch).report
    reasons = {group["reason"] for group in kept["saved"]["groups"]}
    assert f"tanh {off}, and no offloading" in reasons
    assert kept["saved"]["recomputable"] == 0
    assert f"tanh {off}" in kept["not_replayable"]
    copied = zygote.same("coverage.of_every_kind", SPILLING | switch)
    moved = {group["reason"] for group in copied.report["saved"]["groups"]}
    assert f"tanh {off}" in moved
    for why in [*reasons, *moved, *kept["not_replayable"]]:
        assert "repeat" not in why, why


def test_saves_of_other_threads_are_counted(zygote: Zygote) -> None:
    saved = zygote.same("coverage.saved_by_another_thread", SPILLING).report["saved"]
    assert saved["saves_of_other_threads"] == 2  # exp its result, sin its argument
    assert saved["bytes"] == 2 * STORAGE


def test_without_a_budget_nothing_is_claimed(zygote: Zygote) -> None:
    done = zygote.same("coverage.of_every_kind", {"EBBTIDE_RECORD": "/dev/null"})
    assert "saved" not in done.report


def test_a_graph_net_is_managed_and_the_two_counts_agree() -> None:
    row = coverage_bench.measure("graph net")
    assert list(row.complaints()) == []
    assert row.saved > 1 << 20
    text = coverage_bench.show([row])
    assert "| graph net" in text


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({}, None),
        ({"same": False}, "net: losses or gradients differ from the unmanaged run"),
        ({"others": 290}, "net: the counts differ by 10 bytes"),
        ({"saved": 1011, "others": 289}, "net: 94.96 % managed, wanted 95"),
        (
            {"report": GOOD.report | {"away": 480}},
            "net: 50.00 % of the managed bytes had left",
        ),
    ],
)
def test_what_does_not_hold_is_complained_of(
    change: dict[str, Any], complaint: str | None
) -> None:
    row = dataclasses.replace(GOOD, **change)
    assert list(row.complaints()) == ([] if complaint is None else [complaint])


def test_what_is_not_recomputable_is_named_by_op_and_reason() -> None:
    line = "- net: kept, 0.0 MiB in 2, exp: too small to be managed"
    assert GOOD.groups() == [line]
