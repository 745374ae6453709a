"""The budget holds wherever it can, and where it cannot that is said."""

import json
import re
from pathlib import Path

import harness
from run import run
from same import RECOMPUTE, SPILL, SPILLING, Outcome, Zygote

MIB = 1 << 20


def told(outcome: Outcome, what: str) -> list[str]:
    return [line for line in outcome.lines if what in line]


def test_what_a_kernel_leaves_unwritten_need_not_be_repeated(zygote: Zygote) -> None:
    done = zygote.planned("budgets.recurrent", "none", 0.75)
    assert done.report["over_budget_steps"] == 0
    assert done.report["peak"] <= done.report["budget"]


def test_what_a_kernel_writes_is_compared_all_the_same(zygote: Zygote) -> None:
    done = zygote.same("budgets.recurrent", RECOMPUTE | {"EBBTIDE_VERIFY": "all"})
    assert done.report["verified"] > 0
    assert done.report["mismatches"] == 0


def test_a_budget_below_the_floor_is_told_once(zygote: Zygote) -> None:
    budget = {"EBBTIDE_BUDGET": "2MiB", "EBBTIDE_OFFLOAD_DIR": "none"}
    done = zygote.same("budgets.chain", budget)
    (line,) = told(done, "below the floor")
    assert "MiB without offloading" in line
    assert "Backward0 needs it" in line
    assert "a smaller batch lowers it" in line
    assert "EBBTIDE_OFFLOAD_DIR" not in line  # it would not help
    assert "below the floor" in done.report["reason"]
    assert done.report["over_budget_steps"] == done.report["steps"]


def test_a_budget_less_than_the_margin_of_plans_is_planned_for(zygote: Zygote) -> None:
    done = zygote.same("budgets.chain", RECOMPUTE)
    (line,) = told(done, "no plan is known")
    assert "no plan is known for 64.00 KiB; " in line


def test_the_margin_of_plans_is_given_up_for_a_plan(zygote: Zygote) -> None:
    budget = {"EBBTIDE_BUDGET": "2MiB", "EBBTIDE_OFFLOAD_DIR": "none"}
    (line,) = told(zygote.same("budgets.chain", budget), "no plan is known")
    (least,) = re.findall(r"; (\S+) MiB would do", line)
    just_enough = {**budget, "EBBTIDE_BUDGET": f"{float(least) + 0.01:.2f}MiB"}
    done = zygote.same("budgets.chain", just_enough)
    assert done.report["signatures"]["plans_made"] > 0
    assert done.report["predicted_peak"] > done.report["budget"] - MIB


def test_a_proof_takes_no_memory_that_the_step_does_not_have(zygote: Zygote) -> None:
    # Running `repeat` once more beside what it made would take 4 MiB more.
    budget = {"EBBTIDE_BUDGET": "8.5MiB", "EBBTIDE_OFFLOAD_DIR": "none"}
    done = zygote.same("budgets.wide", budget)
    assert done.report["over_budget_steps"] == 0
    assert done.report["peak"] > 7 * MIB


def test_an_op_whose_outputs_have_no_room_twice_is_tried_beforehand(
    zygote: Zygote,
) -> None:
    # Where dropouts are kept, 28 MiB are alive.
    budget = {"EBBTIDE_BUDGET": "16MiB", "EBBTIDE_OFFLOAD_DIR": "none"}
    done = zygote.same("budgets.wide_dropouts", budget)
    assert done.report["not_replayable"] == {}
    assert done.report["peak"] < 20 * MIB


def test_what_a_rebuild_has_made_and_still_needs_can_be_spilled(
    zygote: Zygote,
) -> None:
    done = zygote.spilled("budgets.ladder")
    # Values made beside the waiting ones in each of four steps, 1 MiB each; it is not
    # worth offloading itself.
    assert done.replayed > 0
    assert done.spilled >= 16 * MIB


def test_plans_are_made_from_the_longest_backward(zygote: Zygote) -> None:
    # One that is cut short has the same ops in forward.
    done = zygote.planned("budgets.last_layer_first", "none")
    assert done.steps("active") >= 4
    assert done.report["over_budget_steps"] <= 1  # the second step needs more


def test_what_spilling_would_lower_the_floor_to_is_told(zygote: Zygote) -> None:
    budget = {"EBBTIDE_BUDGET": "2MiB", "EBBTIDE_OFFLOAD_DIR": "none"}
    kept = zygote.same("budgets.chain_of_noise", budget)
    (line,) = told(kept, "below the floor")
    assert "offloading (EBBTIDE_OFFLOAD_DIR) lowers it to" in line
    spilled = zygote.same(
        "budgets.chain_of_noise", budget | {"EBBTIDE_OFFLOAD_DIR": str(SPILL)}
    )
    (line,) = told(spilled, "below the floor")
    assert "without offloading" not in line
    assert spilled.report["peak"] < kept.report["peak"]


def test_a_plan_that_could_not_be_made_is_the_reason(zygote: Zygote) -> None:
    budget = {"EBBTIDE_BUDGET": "2MiB", "EBBTIDE_OFFLOAD_DIR": "none"}
    done = zygote.same("budgets.chain", budget)
    assert "no plan is known for 2.00 MiB" in done.report["reason"]
    assert "would do, for " in done.report["reason"]


def test_strict_budgets_raise_at_the_allocation(zygote: Zygote) -> None:
    budget = {"EBBTIDE_BUDGET": "4MiB", "EBBTIDE_OFFLOAD_DIR": "none"}
    done = zygote.run("budgets.fits_at_second_try", budget | {"EBBTIDE_STRICT": "1"})
    assert done.exit == 0, done.errors
    assert "4.00 MiB and nothing is left to evict (EBBTIDE_STRICT)" in done.output
    assert [label for label, _ in done.notes] == ["128 rows"]
    assert done.report["peak"] <= 4 * MIB
    loud = zygote.same("budgets.fits_at_second_try", budget)
    assert loud.report["peak"] > 4 * MIB


def test_the_trace_shows_copies_and_waits_apart(zygote: Zygote, tmp_path: Path) -> None:
    trace, out = tmp_path / "run.ebbtide", tmp_path / "out.json"
    env = {
        "EBBTIDE_BUDGET": "6MiB",
        "EBBTIDE_OFFLOAD_DIR": str(SPILL),
        "EBBTIDE_RECORD": str(trace),
    }
    done = zygote.run("budgets.chain_of_noise", env, finish=True)
    assert done.exit == 0, done.errors
    timeline = run([harness.EBBTIDE, "timeline", trace, "-o", out])
    assert timeline.returncode == 0, timeline.stderr
    spans = [e for e in json.loads(out.read_text())["traceEvents"] if e["ph"] == "X"]
    kinds = [span.get("cat") for span in spans]
    assert kinds.count("offload") > 0
    # Restores were waited for, at least in the first stage.
    assert kinds.count("restore") >= kinds.count("stall") > 0


def test_without_recomputing_bytes_are_only_moved(zygote: Zygote) -> None:
    moving = SPILLING | {"EBBTIDE_RECOMPUTE": "0"}
    done = zygote.same("budgets.chain", moving)
    assert done.replayed == 0
    assert done.spilled > 0
    assert not any("off:" in line for line in done.lines), done.lines
