"""Programs that use CUDA in their own ways keep their bits on the simulated device."""

import re
from collections.abc import Iterator

import pytest

import simulator
from cuda_seeds import HOST_BUDGET, check_left
from same import Outcome, Zygote

SCHEDULES = ("ontime", "late", "race")
# Each with how much less it gets than is alive in it at most, in MiB.
CASES = {
    "plain": 24,
    "retained_graph": 24,
    "checkpointed": 12,
    "second_derivative": 24,
    "two_devices": 12,
    "captured_graph": 8,
    "out_of_memory": 24,
    "side_stream": 12,
}


@pytest.fixture(scope="module")
def process() -> Iterator[Zygote]:
    environment = simulator.ENVIRONMENT | {"CUDASIM_DEVICES": "2"}
    with Zygote("programs.cuda_cases", environment=environment) as zygote:
        yield zygote


def within(budget: int, host_budget: int) -> dict[str, str]:
    return {
        "EBBTIDE_BUDGET": f"{budget}B",
        "EBBTIDE_HOST_BUDGET": f"{host_budget}B",
        "EBBTIDE_MIN_BYTES": "16KiB",
    }


def run(
    process: Zygote,
    name: str,
    schedule: str,
    budget: int | None = None,
    host_budget: int = HOST_BUDGET,
) -> Outcome:
    environment = {"RANDOM_SCHEDULE": schedule}
    if budget:
        environment |= within(budget, host_budget)
    done = process.run(f"cuda_cases.{name}", environment, seconds=60)
    assert done.exit == 0, done.errors
    check_left(done, f"{name}, {schedule}", host_budget)
    return done


def unmanaged(process: Zygote, name: str) -> Outcome:
    """The control, two unmanaged runs being equal, is checked."""
    first, second = (run(process, name, schedule) for schedule in ("eager", "late"))
    assert dict(first.notes)["device"] == ["None"]
    assert first.notes == second.notes
    assert first.lines == []
    return first


@pytest.mark.parametrize("name", CASES)
def test_its_bits_are_those_of_the_unmanaged_run(process: Zygote, name: str) -> None:
    plain = unmanaged(process, name)
    budget = plain.work["memory"]["allocated"] - (CASES[name] << 20)
    for schedule in SCHEDULES:
        managed = run(process, name, schedule, budget)
        assert managed.notes == plain.notes, (schedule, managed.lines)
        assert not any("off:" in line for line in managed.lines), managed.lines
        assert managed.replayed + managed.spilled > 0, (schedule, managed.lines)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_what_is_written_past_pytorch_is_an_error(
    process: Zygote, schedule: str
) -> None:
    plain = dict(unmanaged(process, "written_past_pytorch").notes)
    environment = {"RANDOM_SCHEDULE": schedule, "EBBTIDE_OFFLOAD_DIR": "none"}
    environment |= within(18 << 20, HOST_BUDGET)
    done = process.run("cuda_cases.written_past_pytorch", environment, seconds=60)
    notes = dict(done.notes)
    assert notes["kept"] == plain["kept"], done.lines
    assert notes["same"] == plain["same"], done.lines
    assert notes["written"] == ["True"], (done.lines, done.replayed)
    assert done.replayed > 0
    check_left(done, "written_past_pytorch", HOST_BUDGET)


def test_a_job_rests_only_where_a_part_of_its_budget_stays_free(
    process: Zygote,
) -> None:
    """Nothing that a job saves at rest can be recomputed for a step that grows.

    A job with segments of 36 MiB died in its third step of one more.
    """
    plain = unmanaged(process, "wide")
    allocated = plain.work["memory"]["allocated"]
    for budget, rests in ((allocated + (2 << 20), False), (2 * allocated, True)):
        managed = run(process, "wide", "late", budget)
        assert managed.notes == plain.notes, managed.lines
        assert (managed.steps("idle") > 0) == rests, (budget, managed.lines)


@pytest.mark.parametrize("more", [{}, within(36 << 20, HOST_BUDGET)])
def test_an_error_of_the_script_ends_it_as_ever(
    process: Zygote, more: dict[str, str]
) -> None:
    """Crashed where our end waited for work whose oneDNN was gone."""
    environment = {"RANDOM_SCHEDULE": "late"} | more
    done = process.run("cuda_cases.ends_in_an_error", environment, seconds=60)
    assert done.exit == 70, (done.exit, done.errors)
    assert "RuntimeError: of the script" in done.errors
    assert any(", 12 steps; recomputed " in line for line in done.lines) == bool(more)


def test_a_full_slab_has_room_again_in_the_next_step(process: Zygote) -> None:
    plain = unmanaged(process, "plain")
    managed = run(process, "plain", "late", 20 << 20, host_budget=4 << 20)
    assert managed.notes == plain.notes, managed.lines
    said = [line for line in managed.lines if "no room to offload" in line]
    assert len(said) == 1, managed.lines
    assert "of at most 4.00 MiB" in said[0]
    assert not any("no more" in line for line in managed.lines)
    assert managed.spilled > 4 << 20


def test_a_tensor_of_no_bytes_is_not_offloaded(process: Zygote) -> None:
    """The copy was refused, and all offloading given up for it."""
    plain = unmanaged(process, "saves_nothing")
    budget = plain.work["memory"]["allocated"] - (24 << 20)
    managed = run(process, "saves_nothing", "late", budget)
    assert managed.notes == plain.notes, managed.lines
    assert managed.spilled > 0
    assert not any("no more" in line for line in managed.lines), managed.lines


def test_lines_speak_of_host_memory_where_bytes_are_offloaded_to_it(
    process: Zygote,
) -> None:
    environment = {"RANDOM_SCHEDULE": "late"} | within(20 << 20, 4 << 20)
    done = process.run("cuda_cases.plain", environment, seconds=60, finish=True)
    said = "\n".join(done.lines)
    assert not re.search("(?i)spill|disk", said), said
    assert "ebbtide: no room to offload to host memory " in said
    assert re.search(r"recomputed .* by \d+ ops, offloaded to host memory \d", said)


def test_without_offloading_reasons_speak_of_it(process: Zygote) -> None:
    environment = {"RANDOM_SCHEDULE": "late", "EBBTIDE_RECOMPUTE": "0"}
    environment |= within(60 << 20, HOST_BUDGET) | {"EBBTIDE_OFFLOAD_DIR": "none"}
    done = process.run("cuda_cases.plain", environment, seconds=60)
    reasons = {group["reason"] for group in done.report["saved"]["groups"]}
    ends = {reason for reason in reasons if "RECOMPUTE=0" in reason}
    assert ends
    assert all(end.endswith(", and no offloading to host memory") for end in ends)


def reserved_by_phase(process: Zygote, schedule: str) -> dict[str, int]:
    """MiB at most in each phase of a program that changes its budget."""
    plain = unmanaged(process, "changes_its_budget")
    most = plain.work["memory"]["allocated"]
    managed = run(process, "changes_its_budget", schedule, most + (20 << 20))
    assert managed.notes == plain.notes, (schedule, managed.lines)
    assert managed.lines == []
    rows = [line.rpartition(" ") for line in managed.output.splitlines()]
    return {name: int(most) >> 20 for name, _, most in rows}


def test_a_budget_for_a_block_of_the_script_is_kept_in_it(process: Zygote) -> None:
    """A smaller one, too, than what PyTorch had reserved and cached before it."""
    for schedule in SCHEDULES:
        reserved = reserved_by_phase(process, schedule)
        del reserved["fits again None"]
        assert reserved == {
            "fits None": 8,
            "smaller cuda:0=6MiB": 6,
            "of all devices 8MiB": 8,
        }


def test_a_step_behind_a_smaller_budget_reserves_what_one_before_it_did(
    process: Zygote,
) -> None:
    for schedule in SCHEDULES:
        again = reserved_by_phase(process, schedule)["fits again None"]
        # A layout for the smaller budgets may have left parts of pages.
        assert 8 <= again <= 10
