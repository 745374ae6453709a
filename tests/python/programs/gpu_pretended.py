"""Says what a program of tests/gpu or bench/gpu would say, and trains nothing.

    gpu_pretended.py PROGRAM ARGUMENTS...

EBBTIDE_GPU_TESTS_PRETENDED is a JSON object: `seconds` that a process takes, `dies`,
a variable that those have that die, `silent` where none prints figures, and `differs`,
a part of the command line of those whose bits never repeat. With
EBBTIDE_GPU_TESTS_UNMANAGED ebbtide is missing. Processes note when they
had the device in EBBTIDE_GPU_TESTS_LOG.
"""

import json
import os
import sys
import time
from pathlib import Path

GIB = 1 << 30


def report(steps: int, reserved: int) -> dict[str, object]:
    if os.environ.get("EBBTIDE_GPU_TESTS_UNMANAGED"):
        return {}
    if "EBBTIDE_RECORD" in os.environ:
        return {"peak_activations": GIB, "plans": []}
    if "EBBTIDE_BUDGET" not in os.environ:
        return {}
    plan = {"predicted_time": 0.1, "predicted_peak": reserved, "steps": [steps - 1]}
    return {
        "budget": int(os.environ["EBBTIDE_BUDGET"].strip("cuda=B")),
        "ops_replayed": 0 if os.environ.get("EBBTIDE_RECOMPUTE") == "0" else 7,
        "bytes_spilled": 0 if os.environ.get("EBBTIDE_OFFLOAD_DIR") == "none" else 9,
        "plans": [plan],
    }


def main() -> None:
    wanted = json.loads(os.environ["EBBTIDE_GPU_TESTS_PRETENDED"])
    if "EBBTIDE_GPU_TESTS_GATE" in os.environ:
        print("loaded", flush=True)
        sys.stdin.readline()
    begin = time.time()
    time.sleep(wanted["seconds"])
    if wanted.get("dies", "") in os.environ:
        raise SystemExit("SystemExit: it was told to")
    if wanted.get("silent"):
        return
    is_managed = "EBBTIDE_BUDGET" in os.environ
    steps, reserved = int(sys.argv[-1]), (2 if is_managed else 3) * GIB
    differs = wanted.get("differs", " ") in " ".join(sys.argv)
    bits = os.urandom(8).hex() if differs else "same"
    told = {
        "bits": [bits] * (steps + 1),
        "seconds": [0.5, *[0.1] * (steps - 1)],
        "host": [0.05] * steps,
        "peaks": [{"allocated": reserved, "reserved": reserved}] * steps,
        "losses": [],
        "device": 4 * GIB,
        "report": report(steps, reserved),
        "name": "a pretended device",
        "torch": "2.11.0",
    }
    with Path(os.environ["EBBTIDE_GPU_TESTS_LOG"]).open("a") as log:
        row = [begin, time.time(), "EBBTIDE_GPU_TESTS_GATE" in os.environ]
        log.write(json.dumps(row) + "\n")
    print(json.dumps(told))


if __name__ == "__main__":
    main()
