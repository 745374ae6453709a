"""Weights, gradients and optimizer state leave the device and are back in time."""

import pytest

from programs.weights import ON_CPU
from same import SPILL, Outcome, Zygote

STATE_BYTES = ON_CPU.state_bytes
THIRD = {
    "EBBTIDE_BUDGET": f"{STATE_BYTES // 3}B",
    "EBBTIDE_OFFLOAD_DIR": str(SPILL),
    "EBBTIDE_WEIGHTS": "1",
}


def moved(zygote: Zygote, case: str) -> Outcome:
    done = zygote.same(f"weights.{case}", THIRD)
    weights = done.report["weights"]
    assert weights["is_on"], done.lines
    assert weights["bytes_out"] > STATE_BYTES, weights
    assert weights["bytes_back"] > STATE_BYTES, weights
    assert done.report["mismatches"] == 0
    return done


@pytest.mark.parametrize("case", ["loops", "lists", "accumulated", "momentum", "tied"])
def test_three_times_the_budget_trains(zygote: Zygote, case: str) -> None:
    done = moved(zygote, case)
    assert done.report["peak"] <= done.report["budget"], done.lines
    assert done.report["over_budget_steps"] == 0


@pytest.mark.parametrize(
    "case",
    [
        "fused",
        "averaged",
        "copied",
        "saved",
        "tensors_asked_for_numbers",
        "read_in_a_child",
    ],
)
def test_what_reads_all_weights_reads_the_right_bytes(
    zygote: Zygote, case: str
) -> None:
    moved(zygote, case)


def test_what_is_exported_is_left_alone(zygote: Zygote) -> None:
    moved(zygote, "through_arrays")


def test_a_checkpoint_does_not_keep_weights_here(zygote: Zygote) -> None:
    once = moved(zygote, "loops").report["weights"]["bytes_out"]
    assert moved(zygote, "saved").report["weights"]["bytes_out"] > once


def test_without_the_variable_no_weight_moves(zygote: Zygote) -> None:
    without = {name: THIRD[name] for name in ("EBBTIDE_BUDGET", "EBBTIDE_OFFLOAD_DIR")}
    done = zygote.same("weights.loops", without)
    assert done.report["weights"] == {
        "is_on": False,
        "bytes_out": 0,
        "bytes_back": 0,
        "stopped": "",
    }
    assert done.report["peak"] > done.report["budget"]


def test_a_full_disk_ends_it_and_not_the_training(zygote: Zygote) -> None:
    done = zygote.same("weights.loops", THIRD | {"EBBTIDE_OFFLOAD_LIMIT": "1MiB"})
    (line,) = [line for line in done.lines if "weights stay" in line]
    assert done.report["weights"]["stopped"] in line
    assert not done.report["weights"]["is_on"]
    assert 0 < done.report["weights"]["bytes_out"] <= STATE_BYTES


def test_weights_need_somewhere_to_go(zygote: Zygote) -> None:
    done = zygote.run("weights.loops", THIRD | {"EBBTIDE_OFFLOAD_DIR": "none"})
    assert done.exit == 0
    assert any("EBBTIDE_WEIGHTS=1: expected a folder" in line for line in done.lines), (
        done.lines
    )


@pytest.mark.parametrize("budget", ["64KiB", "1500KiB"])
@pytest.mark.parametrize(
    "case",
    [
        "pairs.r09_accumulation",
        "pairs.r09_two_forwards",
        "pairs.r08_between_pairs",
        "in_place.activations_in_place",
        "versions.version_check",
    ],
)
def test_weights_and_saved_tensors_leave_at_once(
    zygote: Zygote, case: str, budget: str
) -> None:
    done = zygote.same(case, THIRD | {"EBBTIDE_BUDGET": budget})
    assert done.report["weights"]["is_on"], done.lines
    assert done.report["weights"]["bytes_out"] > 0
