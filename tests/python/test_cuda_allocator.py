"""ebbtide before PyTorch's CUDA allocator, on the simulated device."""

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import simulator
from run import PYTHON, run
from same import Outcome, Zygote

GIB = 1 << 30
MIB = 1 << 20

# Each module of checks under a budget that it does not meet: for the CPU's size
# that moves to the devices, for one device, and for all. Where the native error
# names what is allowed, the budget is the whole device.
BUDGETS = {
    "cuda_statistics": "cuda=3GiB",
    "cuda_places": "3GiB",
    "cuda_settings": "cuda:0=100%,cuda:1=100%",
}
NATIVE = "CUDA out of memory. Tried to allocate "


def simulated() -> dict[str, str]:
    simulator.check_built()
    return {
        "LD_PRELOAD": simulator.PRELOAD,
        "PYTHONPATH": str(simulator.FACE),
        "CUDASIM_DEVICES": "2",
    }


@pytest.fixture(scope="module")
def device() -> Iterator[Zygote]:
    with Zygote(environment=simulated()) as process:
        yield process


@pytest.fixture(scope="module")
def expandable() -> Iterator[Zygote]:
    settings = (
        "expandable_segments:True,garbage_collection_threshold:0.8,"
        "roundup_power2_divisions:4"
    )
    environment = simulated() | {"PYTORCH_ALLOC_CONF": settings}
    with Zygote(environment=environment) as process:
        yield process


def noted(done: Outcome, label: str) -> list[str]:
    return dict(done.notes)[label]


def budgeted(zygote: Zygote, case: str, budget: str, **more: str) -> Outcome:
    done = zygote.run(f"cuda_budget.{case}", {"EBBTIDE_BUDGET": budget, **more})
    assert done.exit == 0, done.errors
    return done


# Answers with segments, addresses or settings of them: below a budget tensors lie in
# the arena's pages. Allocated, active and requested bytes stay the same.
PLACES = {
    *("values_of_the_statistics", "nested_statistics", "allocated_and_reserved"),
    *("peaks_begin_anew", "accumulated_counts_begin_anew", "old_names", "summary"),
    *("accelerator_names", "snapshot", "full_snapshot", "history_of_everything"),
    *("history_of_the_state", "history_without_frames", "history_is_bounded"),
    *("history_that_skips_actions", "a_dumped_snapshot", "raw_blocks", "pools"),
    *("a_pool_that_does_not_split", "a_pool_that_ends", "graphs", "devices"),
    *("graphs_that_share_a_pool", "a_capture_that_fails", "storages_are_resized"),
    *("the_state_of_a_pool_is_restored", "each_stream_has_its_own_blocks"),
    *("blocks_of_other_streams_come_back_late", "addresses_are_used_again"),
    *("sharing_with_other_processes_is_refused", "a_model_answers"),
    *("a_loader_pins_its_batches", "out_of_memory_text", "large_blocks_are_not_split"),
    *("out_of_memory_text_with_fragments", "work_goes_on_after_out_of_memory"),
    *("a_request_is_tried_again_without_the_cache", "a_pool_that_helps_out_of_memory"),
    *("a_request_is_rounded_up_to_parts_of_a_power_of_two", "garbage_is_collected"),
    *("segments_expand", "without_the_cache", "the_cache_is_emptied"),
}


def same_answers(zygote: Zygote, module: str) -> list[str]:
    """The names of the checks, whose answers are the same with ebbtide."""
    case = f"{module}.case"
    with tempfile.TemporaryDirectory() as folder:
        watched = {"EBBTIDE_RECORD": f"{folder}/run.ebbtide"}
        assert zygote.same(case, watched, seconds=60).lines == []
    done = zygote.same(
        case, {"EBBTIDE_BUDGET": BUDGETS[module]}, seconds=60, but=PLACES
    )
    assert done.lines == []
    cuda = done.report["cuda"]
    assert (cuda["allocator"], cuda["is_ours"]) == ("native", True)
    assert cuda["devices"]["cuda:0"]["reserved_peak"] >= 40 * MIB
    return [label for label, _ in done.notes]


def test_programs_get_the_same_answers(device: Zygote) -> None:
    names = [name for module in BUDGETS for name in same_answers(device, module)]
    assert len(names) == len(set(names)) >= 70


@pytest.mark.parametrize("module", ["cuda_statistics", "cuda_places"])
def test_programs_get_the_same_answers_with_other_settings(
    expandable: Zygote, module: str
) -> None:
    assert len(same_answers(expandable, module)) >= 20


def test_a_program_may_fork_before_it_uses_the_device(device: Zygote) -> None:
    done = device.same("cuda_places.forks_before_use", {"EBBTIDE_BUDGET": "1GiB"})
    assert noted(done, "initialized") == ["False"]
    assert done.report["cuda"]["is_ours"]


def test_a_program_that_stays_on_the_cpu_has_no_context(device: Zygote) -> None:
    done = device.same("cuda_budget.uses_nothing", {"EBBTIDE_BUDGET": "1GiB"})
    assert noted(done, "calls") == ["0"] * 4
    assert done.report["cuda"] == {
        "allocator": "native",
        "is_ours": True,
        "devices": {},
    }


def test_out_of_memory_has_the_native_text_and_a_report_below(device: Zygote) -> None:
    done = budgeted(device, "runs_out", "cuda=64MiB")
    native, *ours = noted(done, "said")
    assert native.startswith(
        f"{NATIVE}30.00 MiB. GPU 0 has a total capacity of 4.00 GiB"
    )
    assert "64.00 MiB allowed" in native
    assert ours == [
        "ebbtide: 30.00 MiB were asked for on cuda:0, whose budget is 64.00 MiB",
        "ebbtide: alive: 40.00 MiB (other 40.00 MiB); "
        "0 B more are reserved, 0 B of it in pages that are free",
        "ebbtide: the largest alive: "
        "20.00 MiB of no op of this step, 20.00 MiB of no op of this step",
        "ebbtide: with 6.00 MiB more of budget it would have been served",
        "ebbtide: the floor is not known yet; a smaller batch lowers what is needed",
        f"ebbtide: what was alive is in {done.report['out_of_memory']['file']}",
    ]
    assert done.report["out_of_memory"]["request"] == 30 * MIB
    assert done.report["out_of_memory"]["device"] == "cuda:0"
    assert noted(done, "smaller batch") == [str(30 * MIB)]
    assert noted(done, "reserved") == [str(30 * MIB)]
    device_report = done.report["cuda"]["devices"]["cuda:0"]
    assert device_report.pop("arena")["state"] == "recording"
    assert device_report == {
        "budget": 64 * MIB,
        "reserved_peak": 40 * MIB,
        "peak": 40 * MIB,
    }


def test_training_goes_on_with_a_smaller_batch(device: Zygote) -> None:
    done = budgeted(device, "trains_too_large", "cuda=96MiB")
    assert noted(done, "said")[0].startswith(NATIVE)
    assert noted(done, "fits") == ["512"]
    assert done.report["cuda"]["devices"]["cuda:0"]["reserved_peak"] <= 96 * MIB


@pytest.mark.parametrize(
    ("budget", "first", "second"),
    [
        ("1GiB", GIB, GIB),
        ("cuda=1GiB", GIB, GIB),
        ("cuda:1=1GiB", -1, GIB),
        ("cuda=1GiB,cuda:1=2GiB", GIB, 2 * GIB),
        ("cuda=50%", 2 * GIB, 2 * GIB),
        ("cuda=auto", 4 * GIB * 9 // 10, 4 * GIB * 9 // 10),
        ("cpu=1GiB", -1, -1),
    ],
)
def test_a_budget_is_that_of_the_devices_it_names(
    device: Zygote, budget: str, first: int, second: int
) -> None:
    done = budgeted(device, "uses", budget)
    devices = done.report["cuda"]["devices"]
    assert [devices[name]["budget"] for name in ("cuda:0", "cuda:1")] == [first, second]
    assert done.report["budget"] == (GIB if budget == "cpu=1GiB" else first)
    assert done.lines == []


def test_one_size_is_the_cpus_where_no_device_is_used(device: Zygote) -> None:
    done = device.same("cuda_budget.trains_on_the_cpu", {"EBBTIDE_BUDGET": "1GiB"})
    assert done.report["budget"] == GIB
    assert done.report["steps"] == 2  # and in the third it rests


def test_what_is_loaded_before_the_device_is_used_has_no_budget(
    device: Zygote,
) -> None:
    done = budgeted(device, "loads_and_moves", "64MiB", EBBTIDE_STRICT="1")
    assert done.lines == []
    assert done.report["budget"] == 64 * MIB


def test_a_budget_above_the_card_is_one_line(device: Zygote) -> None:
    done = budgeted(device, "uses", "cuda:0=8GiB")
    assert done.lines == [
        "ebbtide: cuda:0 has 4.00 GiB, not the 8.00 GiB of its budget; "
        "it may use all of it"
    ]
    assert done.report["cuda"]["devices"]["cuda:0"]["budget"] == 4 * GIB
    assert budgeted(device, "uses", "cuda:0=8GiB", EBBTIDE_LOG="off").lines == []


def test_without_a_cache_there_is_no_budget_and_one_line(device: Zygote) -> None:
    settings = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "EBBTIDE_BUDGET": "cuda:0=1MiB"}
    done = device.same("cuda_budget.uses", settings)
    assert done.lines == [
        "ebbtide: cuda:0 has no budget: PYTORCH_NO_CUDA_MEMORY_CACHING hides its memory"
    ]
    assert done.report["cuda"]["devices"]["cuda:0"]["budget"] == -1


def test_others_on_the_card_are_one_line(device: Zygote) -> None:
    done = budgeted(device, "others_are_there", "cuda=2GiB")
    assert done.lines == [
        "ebbtide: cuda:0: only 1.00 GiB of the budget of 2.00 GiB are free; "
        "the rest is used by others"
    ]


def test_a_budget_that_was_exceeded_before_is_one_line(device: Zygote) -> None:
    done = device.run("cuda_budget.starts_late")
    assert done.exit == 0, done.errors
    assert done.lines == [
        "ebbtide: cuda:0: 102.00 MiB were reserved before ebbtide came, "
        "more than the budget of 64.00 MiB"
    ]
    native, *ours = noted(done, "said")
    assert native.startswith(NATIVE)
    assert ours[1].startswith("ebbtide: alive: 100.00 MiB")
    assert noted(done, "later") == [str(30 * MIB)]


def test_a_child_of_fork_has_no_budget(device: Zygote) -> None:
    done = budgeted(device, "forks", "cuda=64MiB")
    assert noted(done, "child") == ["0"]


def test_an_allocator_of_others_is_left_alone(device: Zygote) -> None:
    done = device.run("cuda_budget.is_replaced_before", finish=True)
    assert done.exit == 0, done.errors
    refused, closing = done.lines
    assert refused == (
        "ebbtide: CUDA memory is left alone: "
        'the CUDA allocator is "pluggable", not PyTorch\'s own'
    )
    assert 'CUDA\'s allocator is "pluggable", not ours' in closing


def test_an_allocator_that_others_put_in_its_place_is_told(device: Zygote) -> None:
    environment = {"EBBTIDE_BUDGET": "cuda=64MiB"}
    done = device.run("cuda_budget.is_replaced_afterwards", environment, finish=True)
    assert done.exit == 0, done.errors
    (closing,) = done.lines
    assert 'CUDA\'s allocator is "pluggable", not ours' in closing


def test_a_torch_it_was_not_built_for_has_a_budget_without_statistics(
    device: Zygote,
) -> None:
    done = device.run("cuda_budget.is_for_another_torch", finish=True)
    assert done.exit == 0, done.errors
    said, closing = done.lines
    assert re.fullmatch(
        r"ebbtide: built for torch 2\.99, this is torch 2\.\d+\.\d\S*: CUDA is held "
        r"to its budget by libebbtide_pluggable\.so, "
        r"without eviction, cache and statistics",
        said,
    )
    assert noted(done, "backend") == ["'pluggable'"]
    assert noted(done, "said") == [
        f"{NATIVE}30.00 MiB on cuda:0. "
        "ebbtide: the budget is 64.00 MiB; alive: 40.00 MiB"
    ]
    assert noted(done, "live") == [str(40 * MIB)] * 2
    assert noted(done, "larger") == [str(45 * MIB)]
    assert 45 * MIB <= int(noted(done, "peak")[0]) <= 64 * MIB
    assert noted(done, "no statistics")[0] == "RuntimeError"
    assert re.fullmatch(r"ebbtide: cuda:0: peak \S+ MiB of 64\.00 MiB", closing)


# No device, a driver that is too old, one that may not be used, and one that fails.
@pytest.mark.parametrize("error", [100, 35, 3, 999])
def test_without_a_device_the_error_is_pytorchs(device: Zygote, error: int) -> None:
    faults = {"FAULT": str(error)}
    case = "cuda_budget.needs_a_device"
    plain, managed = (
        device.run(case, faults | more)
        for more in ({}, {"EBBTIDE_BUDGET": "cuda=1GiB"})
    )
    assert plain.exit == managed.exit == 0, managed.errors
    assert len(noted(plain, "said")) == 2
    assert managed.notes == plain.notes
    assert managed.lines == []


def test_without_a_driver_it_is_cpu_mode() -> None:
    program = "import torch; print(torch.cuda.is_available()); torch.ones(2).cuda()"
    plain, managed = (
        run([PYTHON, "-c", program], **more)
        for more in ({}, {"EBBTIDE_BUDGET": "cuda=1GiB"})
    )
    assert plain.stdout == managed.stdout == "False\n"
    assert plain.stderr != ""
    *error, closing = managed.stderr.splitlines()
    assert error == plain.stderr.splitlines()
    assert closing.startswith("ebbtide: nothing done")


def test_the_asynchronous_backend_is_seen_by_its_statistics() -> None:
    program = (
        "import torch\n"
        "print(torch.cuda.get_allocator_backend())\n"
        "try: torch.ones(2, device='cuda')\n"
        "except RuntimeError as error: print(str(error).splitlines()[0])\n"
    )
    settings = simulated() | {"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}
    plain, managed = (
        run([PYTHON, "-c", program], **settings, **more)
        for more in ({}, {"EBBTIDE_BUDGET": "cuda=1GiB"})
    )
    assert plain.stdout == managed.stdout
    assert plain.stdout.startswith("cudaMallocAsync\nCUDA error")
    said = [line for line in managed.stderr.splitlines() if "ebbtide" in line]
    assert said[0] == (
        "ebbtide: cuda:0: of the allocator cudaMallocAsync only statistics are "
        "seen; the budget is held by them"
    )
    assert len(said) == 2


def test_the_plain_core_has_no_symbol_of_cuda(package: Path) -> None:
    """And the other one needs no driver, and no library that torch has not."""
    needed = {}
    for name in ("libebbtide.so", "libebbtide_cuda.so"):
        done = run(["readelf", "-d", package / "lib" / name])
        needed[name] = set(
            re.findall(r"NEEDED.*\[(lib(?:c10|torch|cu)\w*)", done.stdout)
        )
    assert needed["libebbtide.so"] == {"libc10", "libtorch_cpu"}
    assert needed["libebbtide_cuda.so"] <= {
        *needed["libebbtide.so"],
        "libc10_cuda",
        "libtorch_cuda",
    }
    done = run(["nm", "-D", "--undefined-only", package / "lib" / "libebbtide.so"])
    assert not [line for line in done.stdout.splitlines() if "cuda" in line.lower()]


def answers(zygote: Zygote, module: str) -> dict[str, Any]:
    done = zygote.plain(f"{module}.case", seconds=60)
    return {label: json.loads(value) for label, (value,) in done.notes}


def test_the_checks_see_what_they_ask_for(device: Zygote) -> None:
    """Answers that are the same in both runs are not merely empty."""
    statistics = answers(device, "cuda_statistics")
    assert len(statistics["keys_of_the_statistics"]) > 60
    assert statistics["backend"] == "native"
    settings = answers(device, "cuda_settings")
    assert settings["out_of_memory_text"][0].startswith(f"{NATIVE}8.00 GiB")
    assert settings["observers_of_out_of_memory"][0][1] == 8 * GIB
    places = answers(device, "cuda_places")
    assert places["graphs"][0] == [3, 8]
