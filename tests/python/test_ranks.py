"""Several ranks train one model (programs/ranked.py) over gloo, each in its budget."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from ranks import Ranks, half, launch
from run import our_lines

SMALL = ("--batch", "16", "--steps", "8")

SHORT = {
    "DDP": ("--way", "ddp", "--accumulate", "2"),
    "FSDP2 with everything": (
        *("--way", "fsdp", "--reshard", "--mixed", "--checkpoint"),
        *("--accumulate", "2"),
    ),
}
WAYS = {
    "DDP": ("--way", "ddp"),
    "DDP with checkpoints": ("--way", "ddp", "--checkpoint"),
    "FSDP2": ("--way", "fsdp"),
    "FSDP2 resharded": ("--way", "fsdp", "--reshard"),
    "FSDP2 mixed": ("--way", "fsdp", "--reshard", "--mixed"),
    "FSDP2 accumulating": ("--way", "fsdp", "--accumulate", "2"),
    "FSDP2 with checkpoints": ("--way", "fsdp", "--reshard", "--checkpoint"),
    "ZeRO-1": ("--way", "zero"),
    "tensor parallel": ("--way", "tp"),
}


def compare(
    folder: Path, way: Sequence[str], count: int, *, torchrun: bool = False
) -> tuple[Ranks, Ranks]:
    """The way unmanaged, and at half of its activation bytes: the same bits."""
    plain = launch(folder, way, count, torchrun=torchrun)
    assert plain.exit == 0, plain.errors
    assert len(plain.results) == count
    again = launch(folder, way, count, torchrun=torchrun)
    print("control: two unmanaged runs are equal:", plain.equals(again))
    assert plain.equals(again)
    recorded = launch(folder, way, count, EBBTIDE_RECORD="/dev/null")
    assert recorded.equals(plain)
    budget = f"{half(recorded)}B"
    done = launch(folder, way, count, torchrun=torchrun, EBBTIDE_BUDGET=budget)
    assert done.exit == 0, done.errors
    assert done.equals(plain), done.errors
    check_each(done, count)
    return plain, done


def check_each(done: Ranks, count: int) -> None:
    """Every rank kept to its budget, which bound it, and said so."""
    assert len(done.reports) == count
    for report in done.reports:
        assert report["over_budget_steps"] == 0, done.errors
        assert report["peak"] <= report["budget"]
        assert report["ops_replayed"] + report["bytes_spilled"] > 0
    lines = our_lines(done.errors)
    assert len(lines) == count, done.errors
    named = sorted(int(found) for found in re.findall(r"rank (\d+): peak", done.errors))
    assert named == list(range(count))


@pytest.mark.parametrize("way", SHORT)
def test_ranks_train_within_their_budgets(way: str, tmp_path: Path) -> None:
    compare(tmp_path, (*SHORT[way], *SMALL), 2)


@pytest.mark.long
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_training_together(way: str, count: int, tmp_path: Path) -> None:
    size = ("--size", "full", "--steps", "6")
    compare(tmp_path, (*WAYS[way], *size), count, torchrun=True)


def test_a_rank_with_less_memory(tmp_path: Path) -> None:
    """The ranks need not do the same: each keeps to what it has."""
    way = ("--way", "ddp", *SMALL)
    plain = launch(tmp_path, way)
    recorded = launch(tmp_path, way, EBBTIDE_RECORD="/dev/null")
    wrapper = tmp_path / "wrapper.sh"
    wrapper.write_text(
        f'[ "$RANK" = 1 ] && export EBBTIDE_BUDGET={half(recorded)}B\nexec "$@"\n'
    )
    done = launch(
        tmp_path, way, wrapper=("/bin/sh", str(wrapper)), EBBTIDE_BUDGET="1GiB"
    )
    assert done.equals(plain), done.errors
    roomy, short = done.reports
    assert roomy["ops_replayed"] + roomy["bytes_spilled"] == 0
    assert short["ops_replayed"] + short["bytes_spilled"] > 0
    assert short["over_budget_steps"] == 0


def test_plans_of_sharded_ranks_stay(tmp_path: Path) -> None:
    way = ("--way", "fsdp", "--batch", "16", "--steps", "24")
    recorded = launch(tmp_path, way, EBBTIDE_RECORD="/dev/null")
    done = launch(tmp_path, way, EBBTIDE_BUDGET=f"{half(recorded)}B")
    assert done.equals(launch(tmp_path, way)), done.errors
    for report in done.reports:
        # The first plan is made in little time, and refined once: by one plan
        # that offloads and one that does not.
        refined = [plan["offloads"] for plan in report["plans"]][1:]
        assert report["plans"]
        assert len(refined) == len(set(refined)), report["plans"]
        assert report["over_budget_steps"] == 0, done.errors


@pytest.mark.long
def test_a_slow_rank(tmp_path: Path) -> None:
    compare(tmp_path, ("--way", "ddp", "--slow", *SMALL), 2)


def test_a_rank_that_dies_takes_nothing_with_it(tmp_path: Path) -> None:
    """The others end as they do without us, and leave nothing behind."""
    way = ("--way", "ddp", "--dies-at", "4", *SMALL)
    spilled = tmp_path / "spilled"
    spilled.mkdir()
    plain = launch(tmp_path, way)
    done = launch(
        tmp_path, way, EBBTIDE_BUDGET="8MiB", EBBTIDE_OFFLOAD_DIR=str(spilled)
    )
    assert done.exit == plain.exit
    assert done.results == plain.results == []
    assert list(spilled.iterdir()) == []
    last = [line for line in our_lines(done.errors) if " steps" in line]
    assert len(last) == 1, done.errors
    assert last[0].startswith("ebbtide: rank 0: peak")


def test_each_rank_has_a_trace_of_its_own(tmp_path: Path) -> None:
    trace = tmp_path / "run.ebbtide"
    launch(tmp_path, ("--way", "ddp", "--steps", "2"), EBBTIDE_RECORD=str(trace))
    written = sorted(file.name for file in tmp_path.glob("*.ebbtide"))
    assert written == ["run.rank0.ebbtide", "run.rank1.ebbtide"]


def test_ranks_on_one_machine_share_its_memory(tmp_path: Path) -> None:
    way = ("--way", "ddp", "--steps", "1")
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    done = launch(tmp_path, way, EBBTIDE_BUDGET="50%")
    for report in done.reports:
        assert report["budget"] <= whole // 4
