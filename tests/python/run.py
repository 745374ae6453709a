"""Starts programs for the tests, in an environment without ours."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import harness

PYTHON = str(harness.PYTHON)


def run(
    command: Sequence[str | Path], **variables: str
) -> "subprocess.CompletedProcess[str]":
    """Runs to the end; variables are added to a clean environment."""
    return subprocess.run(
        [str(part) for part in command],
        env={**clean_environment(), **variables},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
        check=False,
    )


def clean_environment() -> Mapping[str, str]:
    ours = ("EBBTIDE_", "TORCH_DEVICE_", "PYTHONPATH", "LD_PRELOAD")
    return {k: v for k, v in os.environ.items() if not k.startswith(ours)}


def job(name: str, *arguments: str) -> list[str]:
    """The command line of a job at its small size."""
    return harness.job_command(name, ["--size", "small", *arguments])


# A busy machine may measure a plan as slower than no plan, in any managed job.
DROPPED = "the plan was slower than evicting on demand, and is dropped"


def our_lines(standard_error: str) -> list[str]:
    """Ebbtide's lines, without the one that depends on how busy the machine is."""
    lines = standard_error.splitlines()
    return [line for line in lines if "ebbtide" in line and DROPPED not in line]
