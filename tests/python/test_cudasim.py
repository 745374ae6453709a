"""PyTorch's own CUDA code on the simulated device (tests/cudasim)."""

import json
from importlib.metadata import version
from typing import Any

import pytest

import harness
import simulator
from run import PYTHON, run

PROGRAMS = harness.ROOT / "tests" / "python" / "programs"
SCHEDULES = ("eager", "ontime", "late", "race", "random")


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    simulator.check_built((*simulator.SONAMES, "libcudasim_exact.so"))


def simulated(program: str, *arguments: str, allocator: str = "") -> Any:
    """Output of programs/cudasim_{program}.py, with two devices."""
    done = run(
        [PYTHON, PROGRAMS / f"cudasim_{program}.py", *arguments],
        PYTHONPATH=f"{simulator.FACE}:{harness.JOBS}:{PROGRAMS.parent}",
        PYTORCH_ALLOC_CONF=allocator,
        CUDASIM_DEVICES="2",
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


FEATURES: dict[str, Any] = {
    "device": [True, 2, "cudasim (no device)", [8, 0, 108], 4 << 30],
    "allocation_is_counted_by_the_real_allocator": [4096, 2 << 20, 0],
    "pageable_round_trip": True,
    "pinned_round_trip_needs_its_wait": [True, False, True],
    "events_measure_a_copy": [False, True, 1.0],
    "linear_backward": [[32, 128], [256, 128]],
    "products": ["torch.bfloat16", [1, 64, 64], [64, 32]],
    "dropout_moves_the_philox_offset": [4, 7],
    "embedding_and_cross_entropy": [1000, 64],
    "math_attention": [2, 4, 128, 64],
    "flash_attention": [2, 4, 128, 64],
    "efficient_attention": [2, 4, 128, 64],
    "optimizers": {"AdamW": True, "SGD": True},
    "autocast_and_scaler": "torch.float16",
    "checkpointing_and_offload": True,
    "convolution_without_cudnn": [2, 8, 6, 6],
    "indexing": [[5, 10], [200, 10], [100, 3], [100, 10], [10, 10]],
    "snapshot_and_history": ["alloc", "free_completed", "free_requested"],
    "out_of_memory": [["CUDA out of memory", "Tried to allocate 64.00 GiB"], [1, 1]],
    "record_stream_defers_reuse": [False, True],
    "graphs_replay": [3, 8],
    "pools": [1, 1 << 20],
    "loader_that_pins": sum(range(64)),
    "two_devices": [True, 512],
    "eight_threads": [400, True],
    "a_host_that_dereferences_dies": True,
    "profiler": True,
    "long_queue": [True, 0],
    "what_is_not_simulated_says_so": "RuntimeError",
}


@pytest.mark.parametrize("allocator", ["", "expandable_segments:True"])
def test_torch_runs_on_the_device(allocator: str) -> None:
    assert simulated("features", allocator=allocator) == FEATURES


def test_preloaded_libraries_stand_in_too() -> None:
    program = "import torch; print(torch.ones(3).to('cuda').cpu().tolist())"
    done = run([PYTHON, "-c", program], LD_PRELOAD=simulator.PRELOAD)
    assert (done.returncode, done.stdout) == (0, "[1.0, 1.0, 1.0]\n"), done.stderr


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("CUDASIM_SCHEDULE", "sometimes"),
        ("CUDASIM_MEM", "4Q"),
        ("CUDASIM_DEVICES", "99"),
        ("CUDASIM_FAIL", "cudaMalloc"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(variable: str, value: str) -> None:
    runtime = simulator.LIBRARIES / "libcudart.so.13"
    program = f"import ctypes; ctypes.CDLL('{runtime}').cudasim_mend()"
    done = run([PYTHON, "-c", program], **{variable: value})
    assert done.returncode != 0
    assert f"{variable}={value}" in done.stderr


def test_every_race_shows_and_every_guard_closes_it() -> None:
    assert simulated("order", "order") == {
        "offload none": ["ontime", "late"],
        "offload record_stream": [],
        "offload wait": [],
        "prefetch none": ["ontime", "late"],
        "prefetch wait": [],
        "host_reuse none": ["ontime", "late"],
        "host_reuse wait": [],
    }


def test_a_copy_overlaps_with_kernels_on_the_virtual_clock() -> None:
    overlapped, serial, *again = simulated("order", "overlap")
    # 100 MB at 25 GB/s take 4 ms, and so do 800 kernels of 5 us.
    assert overlapped == pytest.approx(4.02, abs=0.02)
    assert serial == pytest.approx(8.02, abs=0.02)
    assert again == [overlapped, serial]


def test_peaks_are_the_real_allocators_and_repeat() -> None:
    result = simulated("order", "peaks")
    peaks = result["peaks"]
    for first, second in peaks.values():
        assert first == second
    keep, recompute, offload = (
        peaks[mode][0] for mode in ("keep", "recompute", "offload")
    )
    for (allocated, reserved), share in ((recompute, 0.6), (offload, 0.6)):
        assert allocated < share * keep[0]
        assert allocated <= reserved < keep[1]
    assert result["fits"] == {"keep": False, "recompute": True, "offload": True}


def test_faults_surface_as_torchs_own_errors() -> None:
    assert simulated("order", "faults") == {
        "malloc": [1, 0],  # one retry, no out-of-memory error
        "pinning": "AcceleratorError",
        "copying": "AcceleratorError",
        "multiplying": "RuntimeError",
        "after": [1.0, 1.0, 1.0, 1.0],
    }


def test_a_copy_from_a_released_segment_fails() -> None:
    assert simulated("order", "released") == [1, 1]


def test_exact_training_has_the_bits_of_the_cpu() -> None:
    result = simulated("exact", "cpu")
    assert result["same"] == {"loop": True, "foreach": True, "fused": True}
    assert result["broken"] is None
    assert result["ops"] > 1000


def test_without_exact_mode_nothing_is_computed() -> None:
    assert simulated("exact", "off") == [True, [0.0, 2.0, 4.0, 6.0]]


def test_keep_recompute_and_offload_have_the_same_bits_under_all_schedules() -> None:
    result = simulated("exact", "modes")
    finite_recomputed_offloaded = [True, True, True]
    assert result == {
        "same": {
            f"{schedule} {dropout}": finite_recomputed_offloaded
            for schedule in SCHEDULES
            for dropout in ("0.0", "0.2")
        },
        "broken": None,
        "hazards": [],
    }


def test_a_replay_that_no_dispatch_mode_sees_is_computed() -> None:
    result = simulated("exact", "replay")
    assert (result["control"], result["hidden"]) == (1, 0)
    assert result["ops"] == 2
    assert result["value"] == [0.0, 1.0, 4.0, 9.0]


def test_races_between_two_kernels_show_as_wrong_bytes() -> None:
    assert simulated("exact", "streams") == {
        "read_too_early unguarded": ["late", "race"],
        "read_too_early guarded": [],
        "overwritten_too_early unguarded": ["late"],
        "overwritten_too_early guarded": [],
    }


def test_other_threads_streams_and_devices_are_computed() -> None:
    expected = [80, True, [2.0, 4.0, 6.0, 8.0], None]
    assert simulated("exact", "elsewhere") == expected


def test_a_graph_is_computed_at_each_replay() -> None:
    assert simulated("exact", "graph") == [[2.0] * 4, [4.0] * 4, None]


def test_what_cannot_be_computed_is_an_error_that_names_the_op() -> None:
    result = simulated("exact", "refused")
    cannot = "CUDA error: exact mode cannot compute"
    assert result == {
        "nonzero": f"{cannot} aten::nonzero: its shape depends on data",
        "mask": f"{cannot} aten::index.Tensor: its shape depends on a mask",
        "equal": f"{cannot} aten::equal: "
        "it gives the host a value that depends on data",
        "flash": f"{cannot} aten::_scaled_dot_product_flash_attention: "
        "it has no CPU kernel",
        "after": 64.0,
    }


def test_use_of_a_freed_block_is_an_error_that_names_both() -> None:
    said = simulated("exact", "freed")
    assert said.startswith("CUDA error: block ")
    assert "was freed for stream 1" in said
    assert "not ordered behind aten::mul_.Tensor (writes on stream" in said


def test_random_ops_repeat_with_the_generators_state() -> None:
    result = simulated("exact", "random")
    assert len(result["draws"]) == 11
    assert result["draws"] == [[True, False]] * len(result["draws"])
    assert result["share"] == pytest.approx(0.75, abs=0.051)
    assert result["scale"] == pytest.approx(4 / 3)


def test_single_ops_and_their_gradients_have_the_bits_of_the_cpu() -> None:
    result = simulated("numbers", "ops")
    assert result["cases"] == 44
    assert result["differ"] == []


def test_autocast_is_computed_in_the_type_it_chose() -> None:
    expected = ["torch.bfloat16", True, True, 1024.0, None]
    assert simulated("exact", "autocast") == expected


def test_the_jobs_models_train_with_the_bits_of_the_cpu() -> None:
    result = simulated("numbers", "jobs")
    assert result["broken"] is None
    # The device has fused cells, which add the biases last.
    for recurrent in ("lstm", "gru"):
        assert 0 < result["differences"].pop(recurrent) < 1e-5
    assert result["differences"] == dict.fromkeys(
        ("gpt", "encdec", "resnet", "unet", "vit"), 0.0
    )


# For each synchronization left out of an offloader, the schedules (with slow or
# fast copies) whose bytes show it, however large a workspace cuBLAS takes from the
# allocator: where blocks lie decides what is written over. Late finds all four.
CAUGHT: dict[str, set[str]] = {
    "right": set(),
    "no_wait_produce": {"late fast", "random slow"},
    "no_record_stream": {"ontime slow", "late fast", "late slow", "race slow"},
    "no_d2h_wait": {"ontime slow", "late slow", "race slow"},
    "no_wait_h2d": {"ontime slow", "late fast", "late slow", "race slow"},
}


# A break of the promises between allocator and streams is found under every schedule,
# the eager one too, since it is judged by order. no_d2h_wait races for host memory
# only.
NAMED = {
    "no_wait_produce": ("copy to the host (reads", "is not ordered behind", "block"),
    "no_record_stream": ("was freed", "is not ordered behind", "copy to the host"),
    "no_wait_h2d": ("was freed", "is not ordered behind", "copy to the device"),
}


def test_each_missing_synchronization_of_an_offloader_is_caught() -> None:
    table = simulated("offload")
    assert table.keys() == CAUGHT.keys()
    if version("torch").startswith("2.11."):  # with its own size of workspace
        assert "race slow" in table["no_wait_produce"]["wrong"]
    for variant, row in table.items():
        wrong = set(row["wrong"])
        assert wrong >= CAUGHT[variant], variant
        assert "eager fast" not in wrong, variant
        found = {name.split()[0] for name in row["hazards"]}
        assert found == (set(SCHEDULES) if variant in NAMED else set()), variant
        for part in NAMED.get(variant, ()):
            assert part in row["said"], row["said"]
    assert table["right"] == {"wrong": [], "hazards": [], "said": ""}
