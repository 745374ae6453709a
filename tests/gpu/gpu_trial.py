"""Runs gpu_program.py: unmanaged, and managed in each way.

On its own with torch: neither the build tree nor another folder of tests is needed.
EBBTIDE_GPU_TESTS_LAUNCHER names a program that stands before it, for a device that
has to be set up first.
"""

import dataclasses
import functools
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("gpu_program.py")
LAUNCHER = os.environ.get("EBBTIDE_GPU_TESTS_LAUNCHER")
# Evicted on demand, planned, tried and followed.
STEPS = 12 if os.environ.get("EBBTIDE_GPU_TESTS_SIZE") == "tiny" else 60

# With half of what autograd holds: what may be done with the other half.
WAYS: dict[str, dict[str, str]] = {
    "planned": {},
    "recomputed": {"EBBTIDE_SPILL_DIR": "none"},
    "offloaded": {"EBBTIDE_RECOMPUTE": "0"},
}


@dataclasses.dataclass(frozen=True)
class Trained:
    """What one run printed; peaks by step, in bytes."""

    bits: tuple[str, ...]
    peaks: tuple[dict[str, int], ...]
    report: dict[str, Any]
    lines: tuple[str, ...]  # that ebbtide said

    def peak(self, kind: str) -> int:
        return max(step[kind] for step in self.peaks)


def clean_environment() -> dict[str, str]:
    kept = {
        k: v
        for k, v in os.environ.items()
        if k.startswith("EBBTIDE_GPU_TESTS_") or not k.startswith("EBBTIDE_")
    }
    # What products of cuBLAS need to repeat their bits.
    kept.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    return kept


def train(
    case: str, environment: Mapping[str, str], tool: Sequence[str] = ()
) -> Trained:
    """`tool`: a command line that the program's is put behind."""
    before = [LAUNCHER] if LAUNCHER else []
    done = subprocess.run(
        [*tool, sys.executable, *before, str(PROGRAM), case, str(STEPS)],
        env={**clean_environment(), **environment},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=3600 if tool else 600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    lines = [line for line in done.stderr.splitlines() if "ebbtide" in line]
    return Trained(
        tuple(told["bits"]), tuple(told["peaks"]), told["report"], tuple(lines)
    )


@functools.cache
def unmanaged(case: str) -> Trained:
    """The control, two unmanaged runs being equal, is checked."""
    first, second = train(case, {}), train(case, {})
    assert first.bits == second.bits, "two unmanaged runs differ"
    assert first.report == {}
    return first


@functools.cache
def activations(case: str) -> int:
    """Bytes that autograd holds at most."""
    recorded = train(case, {"EBBTIDE_RECORD": "/dev/null"})
    return int(recorded.report["peak_activations"])


def half(case: str) -> int:
    """A budget: what is reserved at most less half of what autograd holds."""
    return unmanaged(case).peak("reserved") - activations(case) // 2


@functools.cache
def managed(case: str, way: str) -> Trained:
    return train(case, {"EBBTIDE_BUDGET": f"cuda={half(case)}B", **WAYS[way]})
