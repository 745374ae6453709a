"""Traps: what scripts do that a memory manager can trip over."""

import pytest

from programs.trial import ROWS, WIDTH
from same import FORCED, RECOMPUTE, SPILL, SPILLING, Zygote

# Plans that recompute are followed from the third step or so.
PLANNED = {
    "EBBTIDE_BUDGET": "17MiB",
    "EBBTIDE_OFFLOAD_DIR": "none",
    "EBBTIDE_TEST_PLANS": "2",
}


def test_trap_control_two_unmanaged_runs_are_equal(zygote: Zygote) -> None:
    for threads in (1, 2):
        zygote.plain("traps.control", threads=threads)
        zygote.recomputed("traps.control", threads=threads)
        zygote.spilled("traps.control", threads=threads)


def test_trap_swapped_tensors_have_no_weak_references(zygote: Zygote) -> None:
    zygote.forced("traps.swap_tensors")


def test_trap_observers_stay_while_threads_run(zygote: Zygote) -> None:
    zygote.forced("traps.threads_of_the_script")


def test_trap_passes_begin_and_end_on_other_threads(zygote: Zygote) -> None:
    zygote.same("traps.backward_on_another_thread", FORCED)


def test_trap_the_profiler_still_sees_allocations(zygote: Zygote) -> None:
    zygote.same("traps.profiler_sees_memory", {"EBBTIDE_BUDGET": "8GiB"})
    zygote.forced("traps.profiler_sees_memory")


def test_trap_side_threads_leave_wrapped_storages_alone(zygote: Zygote) -> None:
    zygote.forced("traps.wrappers_of_storages")


def test_trap_saved_tensors_are_there_for_the_script(zygote: Zygote) -> None:
    zygote.forced("traps.saved_tensors_read_by_the_script")


def test_trap_the_version_check_keeps_its_words(zygote: Zygote) -> None:
    expected = zygote.plain("versions.version_check")
    errors = [v for _, values in expected.notes for v in values if "modified" in v]
    assert len(errors) >= 20
    zygote.forced("versions.version_check")
    zygote.same("versions.version_check", {"EBBTIDE_BUDGET": "8GiB"})


def test_trap_tensors_that_are_not_plain_are_kept(zygote: Zygote) -> None:
    zygote.forced("traps.tensors_that_are_not_plain")


@pytest.mark.parametrize("case", ["global_settings", "thread_count_changes"])
def test_trap_settings_differ_between_the_passes(zygote: Zygote, case: str) -> None:
    zygote.forced(f"settings.{case}")


def test_trap_ops_of_the_script_run_once(zygote: Zygote) -> None:
    zygote.forced("traps.ops_of_the_script_run_once")


def test_trap_bytes_written_behind_the_dispatcher(zygote: Zygote) -> None:
    recomputed, spilled = zygote.forced("writes.written_behind_the_dispatcher")
    for outcome in (recomputed, spilled):
        assert all(work["replayed"] > 0 for work in outcome.work.values())
    # A storage that is exported and never changes is relied upon from the second time
    # on.
    drops = {name: work["dropped"] for name, work in recomputed.work.items()}
    assert drops["only read 2"] > drops["foreign 2"]
    assert drops["mapped 2"] == drops["only read 2"]


def test_trap_one_array_for_all_observations(zygote: Zygote) -> None:
    # The first op's input was taken for that of every later one.
    for outcome in zygote.forced("writes.one_array_for_all_observations"):
        assert all(work["replayed"] > 0 for work in outcome.work.values())


def test_trap_one_frame_for_all_observations(zygote: Zygote) -> None:
    # It was trusted from the second rollout on, and backward raised an error.
    zygote.forced("writes.one_frame_for_all_observations")


def test_trap_relied_upon_bytes_are_compared(zygote: Zygote) -> None:
    plain = dict(zygote.plain("writes.too_late").notes)
    done = dict(zygote.run("writes.too_late", RECOMPUTE).notes)
    for way in ("numpy", "dlpack", "pointer"):
        assert done[f"{way} False"] == plain[f"{way} False"]
        assert done[f"{way} True"] == ["True"], "a number instead of an error"


@pytest.mark.parametrize(
    "case", ["written_within", "input_overwritten", "written_without_gradients"]
)
def test_trap_kernels_that_nobody_sees(zygote: Zygote, case: str) -> None:
    """Under inductor convolutions were recomputed without the ReLU in their result."""
    zygote.forced(f"unseen.{case}")


def test_trap_what_no_op_has_made_counts_and_leaves(zygote: Zygote) -> None:
    """Bytes saved by compiled graphs were reported as impossible to give back."""
    each = ROWS * WIDTH * 4
    counted = zygote.same("unseen.made_by_no_op", {"EBBTIDE_RECORD": "/dev/null"})
    assert counted.report["peak_activations"] == 4 * each
    assert zygote.spilled("unseen.made_by_no_op").spilled >= 3 * each


@pytest.mark.parametrize("case", ["inference_mode_writes", "written_by_the_next_pair"])
def test_trap_writes_are_seen_wherever_they_happen(zygote: Zygote, case: str) -> None:
    zygote.forced(f"writes.{case}")


def test_trap_writes_through_conjugates_are_seen(zygote: Zygote) -> None:
    zygote.forced("writes.written_through_lazy_views")


@pytest.mark.parametrize("case", ["shapes_that_depend_on_data", "conjugated_arguments"])
def test_nothing_is_kept_but_for_a_reason(zygote: Zygote, case: str) -> None:
    recomputed, _ = zygote.forced(f"traps.{case}")
    assert recomputed.report["not_replayable"] == {}


def test_what_cannot_be_replayed_is_reported(zygote: Zygote) -> None:
    done = zygote.recomputed("traps.ops_of_the_script_run_once")
    assert any("is not PyTorch's" in why for why in done.report["not_replayable"])


def test_trap_a_kernel_of_the_script_writes_unseen(zygote: Zygote) -> None:
    """On torch 2.15 its op was not seen, and a copy without its writes was made."""
    done = zygote.recomputed("traps.ops_with_kernels_of_their_own")
    assert any("is not PyTorch's" in why for why in done.report["not_replayable"])


def test_trap_storages_change_their_size(zygote: Zygote) -> None:
    zygote.forced("writes.storages_that_change_size")


def test_trap_gathered_parameters_come_and_go(zygote: Zygote) -> None:
    """With FSDP2 training died, or would have read what was not filled yet."""
    case = "writes.parameters_that_come_and_go"
    zygote.forced(case)
    # Nothing has to go before they are gone.
    later = {"EBBTIDE_BUDGET": "17MiB", "EBBTIDE_OFFLOAD_DIR": "none"}
    assert zygote.same(case, later).replayed > 0


def test_trap_gathered_parameters_go_under_a_plan(zygote: Zygote) -> None:
    """With FSDP2 in bfloat16 training died in its 15th or 27th step."""
    done = zygote.same(
        "writes.parameters_that_go_once_plans_are_followed",
        PLANNED,
    )
    assert done.steps("active") > 0


def test_trap_hooks_that_come_later_write_what_recipes_read(zygote: Zygote) -> None:
    done = zygote.same(
        "writes.hooks_added_once_plans_are_followed",
        PLANNED,
    )
    assert done.steps("active") > 12
    assert done.replayed > 0


def test_trap_a_written_input_that_was_spilled_is_relied_upon(zygote: Zygote) -> None:
    """A block that ebbtide freed was taken for one that the program had freed."""
    zygote.forced("writes.written_input_that_leaves")


def test_trap_a_leaf_is_given_other_data(zygote: Zygote) -> None:
    zygote.forced("writes.leaf_given_other_data")


def test_trap_hooks_of_others_come_first(zygote: Zygote) -> None:
    zygote.forced("pairs.checkpointed")


def test_strict_says_what_does_not_fit_and_lets_the_script_go_on(
    zygote: Zygote,
) -> None:
    case = "ends.beyond_the_budget"
    loose = {"EBBTIDE_BUDGET": "8MiB", "EBBTIDE_OFFLOAD_DIR": "none"}
    done = zygote.same(case, loose)
    assert done.output == "nothing 17\nnothing 17\n"
    assert any("over budget: 9.00 MiB needed in tanh" in line for line in done.lines)
    strict = zygote.same(case, loose | {"EBBTIDE_STRICT": "1"})
    # Batch-size finders look for PyTorch's type and text.
    said = (
        "RuntimeError | DefaultCPUAllocator: can't allocate memory: you tried to "
        "allocate 1048576 bytes. Error code 12 (Cannot allocate memory) | "
        "ebbtide: 9.00 MiB needed in tanh, the budget is 8.00 MiB and nothing is "
        "left to evict (EBBTIDE_STRICT)"
    )
    first, second = strict.output.splitlines()
    assert first.startswith(f"{said}; what was alive is in /")
    assert first.endswith("/ebbtide-oom-" + first.rpartition("-")[2])
    assert second == f"{said} 8"
    assert strict.report["over_budget_steps"] == 0
    assert strict.report["peak"] <= 8 << 20


@pytest.mark.parametrize("folder", ["none", str(SPILL)])
def test_trap_numbers_change_and_steps_stay_of_one_kind(
    zygote: Zygote, folder: str
) -> None:
    zygote.forced("traps.numbers_that_change")
    done = zygote.planned("traps.numbers_that_change", folder)
    assert done.replayed > 0
    # Without dropout's probability of 0 the first step has other ops.
    assert done.report["signatures"]["remembered"] <= 2


@pytest.mark.parametrize("folder", ["none", str(SPILL)])
def test_trap_idle_ends_where_steps_grow(zygote: Zygote, folder: str) -> None:
    budget = {"EBBTIDE_BUDGET": "9MiB", "EBBTIDE_OFFLOAD_DIR": folder}
    done = zygote.same("traps.idle_then_awake", budget)
    assert done.replayed > 0
    assert done.state == "idle"
    assert done.report["over_budget_steps"] == 0
    assert done.report["peak"] <= done.report["budget"]


@pytest.mark.parametrize("env", [RECOMPUTE, SPILLING])
def test_trap_the_interpreter_is_let_go_while_we_wait(
    zygote: Zygote, env: dict[str, str]
) -> None:
    zygote.same("traps.two_threads_and_one_interpreter", env)


@pytest.mark.parametrize("env", [RECOMPUTE, SPILLING])
def test_trap_the_generator_is_locked_when_memory_is_asked_for(
    zygote: Zygote, env: dict[str, str]
) -> None:
    zygote.same("traps.threads_and_one_generator", env)
