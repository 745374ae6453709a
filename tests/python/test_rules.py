"""The rules R1 to R15 (docs/internals/recording.md): each was paid for with a wrong
gradient or a hang."""

import pytest

from same import FORCED, RECOMPUTE, SPILL, Outcome, Zygote


def idle(outcome: Outcome) -> set[str]:
    """Parts of a case in which nothing was recomputed or offloaded."""
    return {
        label
        for label, work in outcome.work.items()
        if work["replayed"] + work["spilled"] == 0
    }


def test_r01_dirtiness_is_by_storage(zygote: Zygote) -> None:
    for case in (
        "rules.r01_unsafe_view",
        "rules.r01_alias_without_version",
        "rules.r01_written_by_an_alias_while_dropped",
    ):
        zygote.forced(case)


def test_r02_replay_has_the_recorded_grad_mode(zygote: Zygote) -> None:
    recomputed, _ = zygote.forced("rules.r02_lstm")
    # 32 x 64 x 64 floats leave the LSTM in each of 3 steps. In another grad mode its
    # recomputation differs, and its output could not be dropped.
    assert recomputed.dropped >= 3 * 32 * 64 * 64 * 4 * 2
    zygote.forced("rules.r02_lstm_under_no_grad_between")


def test_r03_inputs_of_the_step_are_used(zygote: Zygote) -> None:
    zygote.forced("rules.r03_inputs_change_every_step")
    zygote.forced("rules.r03_one_input_buffer_refilled")


def test_r04_batch_norm_updates_its_buffers_once(zygote: Zygote) -> None:
    zygote.forced("rules.r04_batch_norm")
    zygote.forced("rules.r04_batch_norm_of_every_kind")


def test_r05_copies_of_what_is_overwritten_are_rebuilt(zygote: Zygote) -> None:
    case = "in_place.saved_before_the_write"
    recomputed, _ = zygote.forced(case)
    kept = recomputed.report["not_replayable"]
    assert kept.keys() == {"sin_ has saved it but does not return it"}
    zygote.same(case, RECOMPUTE | {"EBBTIDE_VERIFY": "all"})
    for folder in ("none", str(SPILL)):
        zygote.planned("in_place.activations_in_place", folder)
    recomputed, _ = zygote.forced("in_place.inputs_of_copies_written")
    kept = recomputed.report["not_replayable"]
    assert kept.keys() == {"add.Tensor read what was overwritten since"}


def test_r05_in_place_ops_are_replayed_on_copies(zygote: Zygote) -> None:
    recomputed, _ = zygote.forced("in_place.r05_in_place")
    # Written by ops that nothing repeats: `masked*` and lists of tensors.
    assert idle(recomputed) <= {"masked", "masked_by_itself", "through_foreach"}
    zygote.forced("in_place.r05_into_something_new")


def test_r05_a_pre_image_is_no_source(zygote: Zygote) -> None:
    zygote.forced("in_place.r05_pre_image")
    zygote.forced("in_place.r05_parameters_written_before_backward")


def test_r06_random_ops_draw_the_same_again(zygote: Zygote) -> None:
    zygote.forced("rules.r06_random")
    zygote.forced("rules.r06_generator_moved_by_the_script")
    zygote.forced("rules.r06_random_bytes_are_not_saved_twice")


def test_r07_own_ops_are_not_recorded(zygote: Zygote) -> None:
    zygote.forced("rules.r07_own_ops_are_not_recorded")


def test_r07_replays_inside_forward_leave_the_tape_alone(zygote: Zygote) -> None:
    done = zygote.recomputed("rules.r06_generator_moved_by_the_script")
    assert done.report["steps"] == 3


def test_r08_only_forward_begins_a_pair(zygote: Zygote) -> None:
    plain, _ = zygote.forced("pairs.r08_plain")
    busy, _ = zygote.forced("pairs.r08_between_pairs")
    assert busy.report["steps"] == plain.report["steps"] == 4


def test_r08_optimizers_and_unused_graphs(zygote: Zygote) -> None:
    zygote.forced("pairs.r08_optimizers")
    zygote.forced("pairs.r08_graphs_that_never_run_backward")


@pytest.mark.parametrize(
    "case",
    [
        "accumulation",
        "two_forwards",
        "double_use",
        "alternating_networks",
        "backward_in_another_order",
    ],
)
def test_r09_several_graphs_are_normal_life(zygote: Zygote, case: str) -> None:
    zygote.forced(f"pairs.r09_{case}")


@pytest.mark.parametrize(
    "case", ["data_loader_workers", "fork", "fork_goes_on_with_the_graph"]
)
def test_r10_forked_children_go_on_without_us(zygote: Zygote, case: str) -> None:
    for done in zygote.forced(f"ends.r10_{case}"):
        assert set(done.output.split()) <= {"off"}
        assert ("off" in done.output) == (case == "fork")


def test_r10_a_forked_child_reads_what_was_spilled(zygote: Zygote) -> None:
    assert zygote.spilled("ends.r10_fork_reads_what_was_spilled").spilled > 0


@pytest.mark.parametrize("folder", ["none", str(SPILL)])
@pytest.mark.parametrize(
    "case", ["with_a_graph_alive", "while_a_thread_trains", "inside_a_backward"]
)
def test_r11_the_process_ends(zygote: Zygote, case: str, folder: str) -> None:
    # Threads go on when main has returned: what they use is never destroyed.
    linger = case == "inside_a_backward"
    control = zygote.run(f"ends.r11_exit_{case}", finish=True, linger=linger)
    assert control.exit == 0, control.errors
    env = FORCED | {"EBBTIDE_OFFLOAD_DIR": folder}
    done = zygote.run(f"ends.r11_exit_{case}", env, finish=True, linger=linger)
    assert done.exit == 0, done.errors
    assert done.notes == control.notes
    assert done.replayed + done.spilled > 0


def test_r11_a_storage_saved_often_is_written_once(zygote: Zygote) -> None:
    done = zygote.spilled("pairs.r14_one_storage_saved_many_times")
    assert done.spilled <= 2 << 18  # the storage itself and one more value
    assert done.report["peak"] > 0


def test_r12_what_cannot_be_repeated_is_kept(zygote: Zygote) -> None:
    recomputed, spilled = zygote.forced("ends.r12_opaque_ops")
    assert spilled.spilled > 0
    assert recomputed.replayed > 0


@pytest.mark.parametrize("op", ["boolean_index", "masked_select", "index", "nonzero"])
def test_r12_sizes_that_depend_on_bytes_are_replayed(zygote: Zygote, op: str) -> None:
    recomputed, _ = zygote.forced(f"ends.r12_{op}")
    kept = [group["reason"] for group in recomputed.report["saved"]["groups"]]
    assert set(kept) <= {"too small to be managed"}


def test_r13_autocast(zygote: Zygote) -> None:
    zygote.forced("pairs.r13_autocast")


def test_r13_ops_that_autocast_wraps_are_recomputed(zygote: Zygote) -> None:
    name = "pairs.r13_autocast_of_ops_that_are_no_composites"
    recomputed, _ = zygote.forced(name)
    kept = [group["reason"] for group in recomputed.report["saved"]["groups"]]
    assert set(kept) <= {"too small to be managed"}, kept


def test_r14_storages_count_and_not_views(zygote: Zygote) -> None:
    recomputed, spilled = zygote.forced("pairs.r14_expanded_views")
    # Three steps; one storage of 256 KiB that is seen as 16 MiB, one product.
    assert recomputed.dropped <= 3 * (4 << 20)
    assert spilled.spilled <= 3 * (4 << 20)
    zygote.forced("pairs.r14_expanded_mask_and_indices")


def test_r15_exceptions_end_a_pass_and_nothing_else(zygote: Zygote) -> None:
    recomputed, spilled = zygote.forced("pairs.r15_exceptions")
    assert idle(recomputed) == set()
    assert idle(spilled) == set()
    zygote.forced("pairs.r15_out_of_memory_is_survived")


@pytest.mark.parametrize("folder", ["none", str(SPILL)])
def test_all_rules_hold_when_a_plan_is_followed(zygote: Zygote, folder: str) -> None:
    case = "pairs.planned_everything"
    assert zygote.planned(case, folder).report["over_budget_steps"] == 0


def test_r03_batches_of_one_tensor_are_the_same_step(zygote: Zygote) -> None:
    case = "pairs.planned_batches_of_one_tensor"
    zygote.planned(case, "none")


def test_all_rules_hold_between_steps_that_are_not_planned(zygote: Zygote) -> None:
    case = "pairs.planned_other_programs_between"
    assert zygote.planned(case, "none").replayed > 0
