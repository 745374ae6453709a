"""Instructions on the training thread stay what they are: bench/cost_bench.py."""

import subprocess

import pytest

import harness


@pytest.mark.long
def test_the_cost_in_instructions_holds() -> None:
    done = subprocess.run(
        [harness.PYTHON, harness.ROOT / "bench" / "cost_bench.py", "--check", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
