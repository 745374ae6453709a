"""Facts about the machine, without torch, which takes seconds to import."""

import ctypes
import datetime
import os
import shutil
import subprocess
from pathlib import Path

MARGIN = 3.0  # GiB of the device that are not planned with


def answer(command: list[str]) -> str:
    """The output of a program, or nothing if there is none."""
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def asked(what: str) -> str:
    query = ["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader,nounits"]
    return next(iter(answer(query).splitlines()), "")


def gib() -> float:
    """Device memory that processes may be planned to take."""
    total = asked("memory.total")
    return (float(total) / 1024 if total else 79.0) - MARGIN


def missing() -> str:
    """Why nothing can run here; nothing where something can."""
    if os.environ.get("EBBTIDE_GPU_TESTS_LAUNCHER"):
        return ""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "there is no CUDA driver here"
    count = ctypes.c_int()
    found = driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
    return "" if found and count.value else "there is no CUDA device here"


def description(root: Path) -> dict[str, str]:
    commit = answer(["git", "-C", str(root), "rev-parse", "--short", "HEAD"])
    return {
        "date": str(datetime.datetime.now(datetime.timezone.utc).date()),
        "driver": asked("driver_version"),
        "commit": commit,
    }
