"""Random training loops with a core that is built under a sanitizer.

    python tests/python/sanitized.py asan|tsan --seconds 60 [--first SEED]

PyTorch and Python are what they are: the sanitizer's runtime is preloaded, and checks
our code, and all uses of malloc's memory and of locks. Ends with 1 at the first report,
or where a result differs.
"""

import argparse
import itertools
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(Path(__file__).parent)]

from same import RECOMPUTE, SPILL, SPILLING, Zygote  # noqa: E402

OPTIONS = {
    # Leaks: what is never freed by intent is most of a Python process.
    "asan": ("ASAN_OPTIONS", "detect_leaks=0:detect_odr_violation=0"),
    "tsan": (
        "TSAN_OPTIONS",
        "ignore_noninstrumented_modules=1:die_after_fork=0:"
        f"suppressions={Path(__file__).parent / 'tsan.supp'}",
    ),
}


def runtime(sanitizer: str) -> str:
    """The library that the compiler links for this sanitizer.

    With libstdc++, which Python does not have: the sanitizer looks for what it
    intercepts at its own start.
    """
    found = []
    for library in (f"lib{sanitizer}.so", "libstdc++.so.6"):
        command = ["g++", f"-print-file-name={library}"]
        path = subprocess.run(command, capture_output=True, text=True, check=True)
        found.append(path.stdout.strip())
    return " ".join(found)


def package(sanitizer: str) -> Path:
    """A folder with the installed package around the sanitized libraries."""
    (installed,) = ROOT.glob(".venv/lib/python3*/site-packages/ebbtide")
    build = ROOT / "build" / f"{sanitizer}-core"
    folder = build / "python"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(installed, folder / "ebbtide")
    for core in (folder / "ebbtide" / "lib").glob("libebbtide*.so"):
        (built,) = build.glob(f"*/{core.name}")
        core.unlink()
        shutil.copy(built, core)
    return folder


def modes(number: int) -> dict[str, dict[str, str]]:
    plans = {"EBBTIDE_TEST_PLANS": str(number), "EBBTIDE_BUDGET": "3MiB"}
    return {
        "evicting": RECOMPUTE,
        "spilling": SPILLING,
        "plans": plans | {"EBBTIDE_OFFLOAD_DIR": "none"},
        "moving plans": plans | {"EBBTIDE_OFFLOAD_DIR": str(SPILL)},
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("sanitizer", choices=sorted(OPTIONS))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--first", type=int, default=1000)
    arguments = parser.parse_args()
    variable, options = OPTIONS[arguments.sanitizer]
    environment = {
        "LD_PRELOAD": runtime(arguments.sanitizer),
        variable: os.environ.get(variable, options),
        "PYTHONPATH": str(package(arguments.sanitizer)),
    }
    end = time.monotonic() + arguments.seconds
    runs = replayed = spilled = 0
    with Zygote(environment=environment, fill=0) as zygote:
        for number in itertools.count(arguments.first):
            kind = "both" if number % 2 else "seed"
            case = f"training.{kind}_{number}"
            for mode, settings in modes(number).items():
                if time.monotonic() > end:
                    print(f"{runs} runs, {replayed} ops run again, {spilled} B spilled")
                    return 0 if replayed and spilled else 1
                plain = zygote.plain(case, seconds=300)
                done = zygote.run(case, settings, seconds=300)
                if done.exit != 0 or "Sanitizer" in done.errors:
                    print(f"{case}, {mode}: exit {done.exit}\n{done.errors}")
                    return 1
                if done.notes != plain.notes:
                    print(f"{case}, {mode}: differs from the unmanaged run")
                    return 1
                runs += 1
                replayed += done.replayed
                spilled += done.spilled
    return 1


if __name__ == "__main__":
    sys.exit(main())
