"""Starts several ranks of one job (tests/python/programs/ranked.py) on this machine."""

import dataclasses
import json
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import harness

PROGRAM = str(harness.ROOT / "tests" / "python" / "programs" / "ranked.py")
TORCHRUN = str(harness.PYTHON.parent / "torchrun")


@dataclasses.dataclass
class Ranks:
    """Results of each rank, and the reports of ebbtide."""

    results: list[dict[str, Any]]
    reports: list[dict[str, Any]]
    errors: str
    exit: int

    def equals(self, other: "Ranks") -> bool:
        kinds = ("losses", "parameters", "optimizer")
        return [[r[kind] for kind in kinds] for r in self.results] == [
            [r[kind] for kind in kinds] for r in other.results
        ]


def launch(
    folder: Path,
    arguments: Sequence[str],
    count: int = 2,
    wrapper: Sequence[str] = (),
    torchrun: bool = False,
    **variables: str,
) -> Ranks:
    """`torchrun`: by it; else by hand, with what it would set."""
    for old in folder.glob("*.json"):
        old.unlink()
    environment = {
        **harness.clean_environment(),
        "PYTHONPATH": str(harness.JOBS),
        "OMP_NUM_THREADS": "1",
        **variables,
    }
    if variables:
        environment["EBBTIDE_REPORT"] = str(folder / "report.json")
    command = [*wrapper, str(harness.PYTHON), PROGRAM, str(folder), *arguments]
    if torchrun:
        words = ["--standalone", "--nproc-per-node", str(count), "--no-python"]
        done = [start([TORCHRUN, *words, *command], environment)]
    else:
        done = [start(command, environment | of(rank, count)) for rank in range(count)]
    texts = [process.communicate(timeout=300)[1] for process in done]
    return Ranks(
        results=[json.loads(f.read_text()) for f in sorted(folder.glob("rank*"))],
        reports=[json.loads(f.read_text()) for f in sorted(folder.glob("report*"))],
        errors="".join(texts),
        exit=max(abs(process.returncode) for process in done),
    )


def start(
    command: Sequence[str], environment: Mapping[str, str]
) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def of(rank: int, count: int) -> dict[str, str]:
    if rank == 0:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            of.__dict__["port"] = str(probe.getsockname()[1])
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(count),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": of.__dict__["port"],
    }


def half(recorded: Ranks) -> int:
    """Half of what is saved has to go; parameters are gathered beside the rest."""
    left = [r["peak"] - r["peak_activations"] // 2 for r in recorded.reports]
    return int(max(left))
