"""Bad input and bad ends: one clear line, and the job's own status and result."""

import re
from pathlib import Path

import pytest

import harness
from run import PYTHON, our_lines, run
from same import FORCED, SPILL, SPILLING, Outcome, Zygote


def unchanged(zygote: Zygote, env: dict[str, str], finish: bool = False) -> Outcome:
    """The job to its end; status and output are the unmanaged run's."""
    plain = zygote.plain("ends.job")
    done = zygote.run("ends.job", env, finish=finish)
    assert done.exit == 0, done.errors
    assert done.output == plain.output
    assert done.notes == plain.notes
    return done


@pytest.mark.parametrize(
    ("budget", "names"),
    [
        ("5XB", "unit"),
        ("12 parsecs", "unit"),
        ("0", "zero|0"),
        ("0GiB", "zero|0"),
        ("-1GiB", "negative|-1"),
        ("1e30GiB", "expected"),
        ("99999999999GiB", "2\\^60|large"),
        ("900%", "100|percent|%"),
        ("cpu=1GiB,cpu=2GiB", "cpu"),
        ("GiB", "expected a size such as"),
    ],
)
def test_a_bad_budget_is_one_line(zygote: Zygote, budget: str, names: str) -> None:
    done = unchanged(zygote, {"EBBTIDE_BUDGET": budget})
    assert len(done.errors.splitlines()) == 1, done.errors
    assert done.errors.startswith(f"ebbtide: off: EBBTIDE_BUDGET={budget}: ")
    assert re.search(names, done.errors.removeprefix("ebbtide: off: EBBTIDE_BUDGET="))
    assert done.report == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("EBBTIDE_OFFLOAD_LIMIT", "much"),
        ("EBBTIDE_VERIFY", "never"),
        ("EBBTIDE_MIN_BYTES", "few"),
        ("EBBTIDE_SIGNATURES", "0"),
        ("EBBTIDE_RECOMPUTE", "no"),
        ("EBBTIDE_CUPTI", "yes"),
        ("EBBTIDE_WEIGHTS", "on"),
        ("EBBTIDE_COMPILE", "0.5"),
        ("EBBTIDE_TEST_PLANS", "any"),
        ("EBBTIDE_LOG", "loud"),
        ("EBBTIDE_TEST_PLANS", "many"),
        ("EBBTIDE_RECORD", "run.ebbtide,max=big"),
    ],
)
def test_a_bad_setting_is_one_line(zygote: Zygote, name: str, value: str) -> None:
    done = unchanged(zygote, {"EBBTIDE_BUDGET": "1GiB", name: value})
    assert len(done.errors.splitlines()) == 1, done.errors
    assert done.errors.startswith(f"ebbtide: off: {name}={value}: ")


def test_a_spill_directory_in_memory_is_refused(zygote: Zygote) -> None:
    done = unchanged(zygote, FORCED | {"EBBTIDE_OFFLOAD_DIR": "/dev/shm"}, True)
    assert len(done.errors.splitlines()) == 1, done.errors
    assert re.match(r"ebbtide: off: .*/dev/shm.*tmpfs", done.errors)


def test_a_default_spill_directory_in_memory_is_said(zygote: Zygote) -> None:
    done = unchanged(zygote, FORCED | {"TMPDIR": "/dev/shm"}, True)
    said = [line for line in done.lines if "/dev/shm" in line]
    assert len(said) == 1, done.errors
    assert "tmpfs" in said[0]
    assert done.replayed > 0
    assert done.spilled == 0


def test_an_unwritable_spill_directory_is_refused(
    zygote: Zygote, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.touch()
    link = tmp_path / "dangling"
    link.symlink_to(tmp_path / "nowhere")
    for folder in (tmp_path / "missing", file, link, Path("/proc")):
        done = unchanged(zygote, FORCED | {"EBBTIDE_OFFLOAD_DIR": str(folder)})
        assert len(done.errors.splitlines()) == 1, done.errors
        assert done.errors.startswith("ebbtide: off: ")
        assert str(folder) in done.errors


def test_a_full_spill_file_has_room_again_in_the_next_step(zygote: Zygote) -> None:
    case = "ends.job_that_must_spill"
    done = zygote.same(case, SPILLING | {"EBBTIDE_OFFLOAD_LIMIT": "130KiB"})
    said = [line for line in done.lines if "no room to offload" in line]
    assert len(said) == 1, done.errors
    assert "of at most 130.00 KiB" in said[0]
    assert not any("no more offloading" in line for line in done.lines)
    assert done.spilled > 130 << 10
    quiet = SPILLING | {"EBBTIDE_OFFLOAD_LIMIT": "130KiB", "EBBTIDE_LOG": "off"}
    assert zygote.same(case, quiet).lines == []


def test_a_disk_gets_full_during_the_run(zygote: Zygote) -> None:
    case = "ends.job_on_a_full_disk"
    done = zygote.same(case, SPILLING)
    said = [line for line in done.lines if "no more offloading" in line]
    assert len(said) == 1, done.errors


def test_spill_files_are_private_and_nameless(zygote: Zygote) -> None:
    before = set(SPILL.iterdir())
    case = "ends.job_looks_at_its_files"
    done = zygote.run(case, SPILLING)
    assert done.exit == 0, done.errors
    files = [line for line in done.output.splitlines() if line.startswith("files")]
    assert "'0o600', 0]" in files[0], files
    assert set(SPILL.iterdir()) == before


@pytest.mark.parametrize(
    ("case", "status"),
    [
        ("job_exits_1", 1),
        ("job_raises", 70),
        ("job_is_killed", -9),
        ("job_is_terminated", -15),
        ("job_leaves_at_once", 3),
    ],
)
def test_a_job_ends_as_it_would(zygote: Zygote, case: str, status: int) -> None:
    plain = zygote.run(f"ends.{case}", finish=True)
    before = set(SPILL.iterdir())
    done = zygote.run(f"ends.{case}", SPILLING, finish=True)
    assert (plain.exit, done.exit) == (status, status), done.errors
    assert done.output == plain.output
    closing = [line for line in done.lines if " steps" in line]
    assert len(closing) == (1 if status in (1, 70, -15) else 0), done.errors
    assert set(SPILL.iterdir()) == before


def test_spawned_children_are_managed_too() -> None:
    program = [PYTHON, "-m", "programs.spawning"]
    folder = str(harness.ROOT / "tests" / "python")
    done = run(program, **FORCED, PYTHONPATH=folder)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.split()
    assert first == second
    closing = [line for line in our_lines(done.stderr) if " steps" in line]
    assert len(closing) == 2, done.stderr
