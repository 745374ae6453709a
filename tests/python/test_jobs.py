"""The jobs the benches and tests train are themselves reproducible."""

import pytest

import harness
from run import job

JOBS = ["gpt", "resnet", "unet", "encdec", "lstm"]


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("threads", ["1", "2"])
def test_two_unmanaged_runs_print_the_same_result(name: str, threads: str) -> None:
    command = job(name, "--threads", threads)
    assert harness.run(command).same_result(harness.run(command))


@pytest.mark.parametrize("name", ["gpt", "encdec", "lstm"])
def test_checkpoint_changes_no_bit_without_batch_norm(name: str) -> None:
    assert harness.run(job(name)).same_result(harness.run(job(name, "--checkpoint")))


@pytest.mark.parametrize("name", ["resnet", "unet"])
def test_checkpoint_updates_batch_norm_buffers_twice(name: str) -> None:
    plain = harness.run(job(name))
    checkpointed = harness.run(job(name, "--checkpoint"))
    assert plain.losses == checkpointed.losses
    assert plain.hash != checkpointed.hash


def test_another_seed_gives_another_result() -> None:
    first = harness.run(job("gpt", "--seed", "1"))
    second = harness.run(job("gpt", "--seed", "2"))
    assert not first.same_result(second)


def test_gpt_accumulates_gradients_and_evaluates() -> None:
    run = harness.run(job("gpt", "--steps", "5", "--accumulate", "2"))
    assert len(run.seconds) == 5
    assert len(run.losses) == 6


def test_copying_every_saved_tensor_away_changes_no_bit() -> None:
    pyoff = [str(harness.PYTHON), str(harness.ROOT / "bench" / "pyoff.py")]
    for name in JOBS:
        plain = harness.run(job(name))
        for how in ([], ["--cached"]):
            away = harness.run([*pyoff, *how, *job(name)[1:]])
            assert away.same_result(plain), (name, how)


def test_no_job_knows_ebbtide() -> None:
    for source in harness.JOBS.iterdir():
        if source.is_file():
            assert "ebbtide" not in source.read_text(), source
