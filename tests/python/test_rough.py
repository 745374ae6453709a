"""Bad input of the rougher sort (programs/rough.py)."""

import re
import threading
from collections.abc import Mapping

import pytest

import harness
from run import PYTHON, run
from same import RECOMPUTE, SPILL, SPILLING, Outcome, Zygote


@pytest.mark.parametrize("env", [RECOMPUTE, SPILLING])
@pytest.mark.parametrize(
    "case",
    [
        "saved_storages_freed_and_filled_again",
        "read_storages_freed_and_filled_again",
        "storages_that_shrink",
    ],
)
def test_storages_freed_behind_autograd(
    zygote: Zygote, case: str, env: Mapping[str, str]
) -> None:
    zygote.same(f"rough.{case}", env)


@pytest.mark.parametrize("env", [RECOMPUTE, SPILLING])
def test_signal_handlers_train_and_report(
    zygote: Zygote, env: Mapping[str, str]
) -> None:
    done = zygote.same("rough.signals_that_train", env)
    assert done.replayed + done.spilled > 0


def test_exit_handlers_train_and_report(zygote: Zygote) -> None:
    case = "rough.exit_that_trains"
    plain = zygote.run(case, finish=True)
    assert "at exit" in plain.output
    done = zygote.run(case, SPILLING, finish=True)
    assert (done.exit, done.output, done.notes) == (0, plain.output, plain.notes)
    closing = [line for line in done.lines if " steps" in line]
    assert len(closing) == 1, done.errors


def test_killed_in_the_middle_of_a_spill(zygote: Zygote) -> None:
    before = set(SPILL.iterdir())
    done = zygote.run("rough.killed_while_spilling", SPILLING)
    assert done.exit == -9, done.errors
    assert done.output == "spilling\n"
    assert set(SPILL.iterdir()) == before


def test_a_disk_gets_full_in_backward(zygote: Zygote) -> None:
    case = "rough.disk_full_in_backward"
    counted = zygote.same(case, {"EBBTIDE_RECORD": "/dev/null"})
    # The needs of the forward passes fit; a request in backward does not.
    budget = int(counted.report["peak"]) - (4 << 20)
    env = {"EBBTIDE_BUDGET": f"{budget}B", "EBBTIDE_OFFLOAD_DIR": str(SPILL)}
    done = zygote.same(case, env)
    said = [line for line in done.lines if "no more offloading" in line]
    assert len(said) == 1, done.errors


def test_threads_are_refused(zygote: Zygote) -> None:
    """Nothing is copied, and the job goes on."""
    done = zygote.same("rough.threads_are_refused", SPILLING)
    assert done.spilled == 0
    assert any("the system refused a thread" in line for line in done.lines)
    alone = zygote.same("rough.threads_are_refused", RECOMPUTE)
    assert alone.replayed > 0


def test_two_jobs_share_a_spill_directory(zygote: Zygote) -> None:
    case = "rough.spills_beside_others"
    zygote.plain(case)
    before = set(SPILL.iterdir())
    outcomes: list[Outcome] = []
    with Zygote() as other:
        other.plain(case)
        threads = [
            threading.Thread(target=lambda z=z: outcomes.append(z.same(case, SPILLING)))
            for z in (zygote, other)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(outcomes) == 2
    assert all(done.spilled > 0 for done in outcomes)
    assert set(SPILL.iterdir()) == before


def test_two_ranks_share_a_spill_directory() -> None:
    program = [PYTHON, "-m", "programs.ranks"]
    folder = str(harness.ROOT / "tests" / "python")
    plain = run(program, PYTHONPATH=folder)
    assert plain.returncode == 0, plain.stderr
    assert len(plain.stdout.splitlines()) == 2
    done = run(program, PYTHONPATH=folder, **SPILLING)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(plain.stdout.splitlines())
    evicted = re.findall(r"^\d evicted (\d+)$", done.stderr, re.MULTILINE)
    assert len(evicted) == 2
    assert min(map(int, evicted)) > 0, done.stderr
