"""The ways in which the benches run a job, and the budgets between its floors."""

import argparse
import dataclasses
import functools
import json
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import harness
from harness import Run
from interleaved import Launch

PYOFF = [str(harness.PYTHON), str(harness.ROOT / "bench" / "pyoff.py")]
# An unmanaged run is recorded this long: floors need no more.
RECORDED_STEPS = 4


@dataclasses.dataclass
class Job:
    """A job of bench/jobs, with the arguments that all its runs have."""

    name: str
    arguments: Sequence[str]

    def command(self, *more: str) -> list[str]:
        return harness.job_command(self.name, [*self.arguments, *more])

    def short(self, *more: str) -> list[str]:
        return self.command("--steps", str(RECORDED_STEPS), *more)

    @functools.cached_property
    def recorded(self) -> Run:
        """Unmanaged, with live bytes counted."""
        return self._recorded[0]

    @functools.cached_property
    def floor(self) -> tuple[int, str]:
        """The floor without offload: the planner's least budget, and the instant that
        needs it."""
        return self._recorded[1]

    @functools.cached_property
    def floor_with_spill(self) -> int:
        """The floor with all saved tensors offloaded (bench/pyoff.py)."""
        return harness.record(away(self.short())).live

    @functools.cached_property
    def _recorded(self) -> tuple[Run, tuple[int, str]]:
        with tempfile.TemporaryDirectory() as folder:
            profile = Path(folder) / "run.ebbtide"
            run = harness.record(self.short(), to=profile)
            return run, least_budget(profile, run.live)


def arguments(
    doc: str, quick: str, jobs: Iterable[str], threads: int
) -> argparse.Namespace:
    """Arguments of a bench that runs some of `jobs`, each at one number of threads."""
    p = harness.bench_parser(doc, quick)
    p.add_argument("--job", choices=jobs, action="append", help="only these jobs")
    p.add_argument("--threads", type=int, choices=[1, 2], default=threads)
    return p.parse_args()


def shape(args: argparse.Namespace, seed: int) -> list[str]:
    """Arguments of every job of such a bench: small with --quick."""
    size = "small" if args.quick else "full"
    return ["--size", size, "--threads", str(args.threads), "--seed", str(seed)]


def away(command: Sequence[str], *, cached: bool = False) -> list[str]:
    """Returns the command of the job with saved tensors offloaded by Python hooks.

    To the disk, or to a file in the page cache.
    """
    return [*PYOFF, *(["--cached"] if cached else []), *command[1:]]


def managed(
    command: Sequence[str], budget: int, *, spill: bool = True, recompute: bool = True
) -> Launch:
    """Under `ebbtide run`."""
    environment = {} if recompute else {"EBBTIDE_RECOMPUTE": "0"}
    return Launch(harness.managed_command(command, budget, spill=spill), environment)


def between(least: int, most: int, share: int) -> int:
    """`share` per cent of the way from one to the other."""
    return least + (most - least) * share // 100


def reachable(floor: int) -> int:
    """The least budget for which the runtime looks for a plan as low as `floor`.

    It plans for 1 % or 1 MiB less than its budget, whichever is more.
    """
    return max(-(-floor * 100 // 99), floor + harness.MIB)


def least_budget(profile: Path, budget: int) -> tuple[int, str]:
    """The planner's floor of a recorded profile, and the op that makes it."""
    command = [str(harness.EBBTIDE), "plan", str(profile), "--budget", f"{budget}B"]
    done = subprocess.run(
        [*command, "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1) or not done.stdout:
        raise harness.JobError(f"{' '.join(command)}: {done.stderr.strip()}")
    answer = json.loads(done.stdout)
    return int(answer["least_budget"]), answer.get("floor_witness", "no witness named")
