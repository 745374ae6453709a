"""Counts the instructions of parts of a Python program by valgrind's callgrind.

The program calls bench/callgrind_marks.c around what is to be counted. Counts do
not depend on what else the machine does. CPython looks attributes up in a cache
by the addresses of their names, which differ from process to process and move
its own count by some 0.5 %; nothing of ebbtide runs in the interpreter, so
figures that are judged leave the interpreter's instructions out.
"""

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import harness

MARKS = harness.ROOT / "build" / "release" / "bench" / "libcallgrind_marks.so"
COMMAND = ["valgrind", "--tool=callgrind", "--instr-atstart=no"]
# The order of sets and dictionaries must not differ between two processes.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}

Counts = dict[str, int]  # instructions by object file


def run(
    child: Path,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    output: Path,
    *,
    threads_apart: bool = True,
) -> Any:
    """Counts a program that takes MARKS among its arguments; returns what it printed.

    Files are named after `output`. Where threads are counted apart each has its own,
    and a dump holds those of the thread that asked for it alone.
    """
    apart = "yes" if threads_apart else "no"
    done = subprocess.run(
        [
            *COMMAND,
            *(f"--separate-threads={apart}", f"--callgrind-out-file={output}"),
            *(str(harness.PYTHON), str(child), *arguments),
        ],
        env={
            **harness.clean_environment(),
            **ENVIRONMENT,
            "EBBTIDE_LOG": "off",
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        named = " ".join([child.name, *(a for a in arguments if "/" not in a)])
        raise harness.JobError(f"{named}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def outside(counts: Counts) -> int:
    """Instructions in all objects but the Python interpreter."""
    return sum(n for name, n in counts.items() if not name.startswith("python3"))


def counted(file: Path) -> Counts:
    """Instructions per object file, from callgrind's output."""
    counts: Counts = {}
    names: dict[str, str] = {}
    current = "?"
    called = False
    text = file.read_text(errors="replace")
    for line in text.splitlines():
        if line.startswith("ob="):
            number, _, name = line[3:].partition(" ")
            if name:
                names[number] = Path(name).name
            current = names[number]
        elif line.startswith("cob="):
            number, _, name = line[4:].partition(" ")
            if name:
                names[number] = Path(name).name
        elif line.startswith("calls="):
            called = True  # the next line is the callee's cost
        elif re.match(r"[+\-*\d]", line):
            if not called:
                counts[current] = counts.get(current, 0) + int(line.split()[1])
            called = False
    found = re.search(r"^totals: (\d+)$", text, re.M)
    if found is None or not 0 < int(found[1]) == sum(counts.values()):
        raise harness.JobError(f"callgrind's totals are not {sum(counts.values())}")
    return counts


def beneath(file: Path, prefix: str) -> int:
    """Instructions of objects with that prefix and of all that they call.

    Those of calls into them from other objects: what they call may not come back to
    them. From callgrind's output.
    """
    names: dict[str, str] = {}
    total = 0
    current = callee = "?"
    called = False
    for line in file.read_text(errors="replace").splitlines():
        key, _, value = line.partition("=")
        if key in ("ob", "cob"):
            number, _, name = value.partition(" ")
            if name:
                names[number] = Path(name).name
            callee = names[number]
            if key == "ob":
                current = callee
        elif key == "fn":
            callee = current
        elif key == "calls":
            called = True  # the next line is the callee's cost
        elif called and re.match(r"[+\-*\d]", line):
            if callee.startswith(prefix) and not current.startswith(prefix):
                total += int(line.split()[1])
            called = False
            callee = current
    return total


def dumps(output: Path, ending: str) -> dict[str, Path]:
    """The files of a run's dumps by their names; `output` as in run().

    `ending`: of the first thread, "-01", or of all of them together, "".
    """
    named: dict[str, Path] = {}
    for file in sorted(output.parent.glob(f"{output.name}.*[0-9]{ending}")):
        text = file.read_text(errors="replace")
        name = re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.M)
        if name is not None:
            named[name[1]] = file
    return named


def dumped(output: Path) -> dict[str, Counts]:
    """The first thread's counts of every dump of a run, by the dump's name."""
    return {name: counted(file) for name, file in dumps(output, "-01").items()}
