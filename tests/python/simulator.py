"""Paths of the simulated CUDA device (tests/cudasim), and its use by programs."""

import json
import re
from collections.abc import Iterable
from typing import Any

import harness

# For PYTHONPATH: its Python face, which loads it before torch.
FACE = harness.ROOT / "tests" / "cudasim"
LIBRARIES = harness.ROOT / "build" / "release" / "tests" / "cudasim" / "lib"
SONAMES = (
    *("libcudart.so.13", "libcublasLt.so.13", "libcublas.so.13", "libcuda.so.1"),
    *("libnvidia-ml.so.1", "libcupti.so.13"),
)
PRELOAD = ":".join(str(LIBRARIES / name) for name in SONAMES)
# cuBLAS and cuBLASLt keep as little for themselves as they can.
SMALL_WORKSPACES = {
    "CUBLAS_WORKSPACE_CONFIG": ":16:8",
    "CUBLASLT_WORKSPACE_SIZE": "64",
}
# Environment of a process that uses it in small programs.
ENVIRONMENT = {"LD_PRELOAD": PRELOAD, "PYTHONPATH": str(FACE), **SMALL_WORKSPACES}


def check_built(names: Iterable[str] = SONAMES) -> None:
    missing = [name for name in names if not (LIBRARIES / name).exists()]
    assert missing == [], f"{LIBRARIES} lacks them; ./dev build makes it"


def trained(output: str) -> tuple[list[str], Any]:
    """A job's output but for times, and the JSON that its program added."""
    *printed, added = output.splitlines()
    result = [re.sub(" seconds .*", "", line) for line in printed]
    kept = [line for line in result if not line.startswith("median")]
    return kept, json.loads(added)
