"""Instructions per request of an arena stay what they are: bench/arena_bench.py."""

import subprocess

import pytest

import harness


@pytest.mark.long
def test_the_cost_of_a_request_holds() -> None:
    done = subprocess.run(
        [
            harness.PYTHON,
            harness.ROOT / "bench" / "arena_bench.py",
            "--check",
            "--json",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
