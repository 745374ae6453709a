"""One CUDA call of a training step fails, with and without ebbtide.

    python tests/python/cuda_faults.py STEP CALL ERROR

prints what came of it in both, for one call counted from the begin of the step.
"""

import dataclasses
import functools
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(Path(__file__).parent)]

import simulator  # noqa: E402
from same import Outcome, Zygote  # noqa: E402

CASE = "cuda_faults.step"
MANAGED = {
    # Four pages; within three a fault may leave free bytes in pieces that no request
    # fits, by how long copies take.
    "EBBTIDE_BUDGET": "8MiB",
    "EBBTIDE_MIN_BYTES": "16KiB",
    "EBBTIDE_HOST_BUDGET": "8MiB",
}
SAME = ("completes",)
# Size of the last graph of the process, as in cuda_seeds.py.
TINY = 3 * 512


def zygote() -> Zygote:
    return Zygote(
        "programs.cuda_faults",
        environment=simulator.ENVIRONMENT,
    )


@dataclasses.dataclass(frozen=True)
class Fault:
    step: int
    call: int
    error: int
    breaks: bool = False

    def environment(self) -> dict[str, str]:
        variables = {
            "FAULT_STEP": str(self.step),
            "FAULT_CALL": str(self.call),
            "FAULT_ERROR": str(self.error),
        }
        return variables | ({"FAULT_BREAKS": "1"} if self.breaks else {})


@dataclasses.dataclass(frozen=True)
class Result:
    """The outcome of a fault."""

    site: str  # FUNCTION LIBRARY+OFFSET; "": that call was never made
    ours: bool  # ebbtide made it
    for_us: bool  # or called who made it
    outcome: tuple[str, ...]  # SAME, or the type and words of the error
    done: Outcome = dataclasses.field(compare=False)


def site_of(done: Outcome) -> tuple[str, list[bool]]:
    """Where the call came from, and which of its callers are ours."""
    for line in done.errors.splitlines():
        head, _, call = line.partition("cudasim: failed: ")
        if head == "" and call:
            function, *places = call.split(" ")
            return f"{function} {places[0]}", ["libebbtide" in p for p in places]
    return "", [False]


class Faults:
    """Faults of one training, and what it does without one."""

    def __init__(self, process: Zygote, environment: dict[str, str]) -> None:
        self._process = process
        self.environment = environment
        self.plain = process.run(CASE, environment, seconds=60)
        assert self.plain.exit == 0, self.plain.errors
        self.check(self.plain, SAME, 0)

    @functools.cache  # noqa: B019
    def calls(self, step: int) -> list[str]:
        """The sites of all calls of a step."""
        variables = self.environment | {"FAULT_STEP": str(step)}
        done = self._process.run(CASE, variables, seconds=60)
        assert done.exit == 0, done.errors
        return dict(done.notes)["calls"]

    @functools.cache  # noqa: B019
    def result(self, fault: Fault) -> Result:
        variables = self.environment | fault.environment()
        done = self._process.run(CASE, variables, seconds=60)
        site, ours = site_of(done)
        if done.exit != 0:
            return Result(site, ours[0], any(ours), ("exit", str(done.exit)), done)
        notes = dict(done.notes)
        step = f"step {fault.step}"
        same = notes[step] == dict(self.plain.notes)[step]
        outcome = SAME if same else tuple(notes[step])
        return Result(site, ours[0], any(ours), outcome, done)

    def check(self, done: Outcome, outcome: tuple[str, ...], step: int) -> None:
        """Every other step is as ever, and nothing is left."""
        where = (outcome, done.notes, done.lines, done.errors)
        for label, digests in self.plain.notes:
            if label.startswith("step") and label != f"step {step}":
                assert dict(done.notes)[label] == digests, (label, where)
        assert dict(done.notes)["device"] == ["None"], where
        left = done.work["left"]
        assert left["live"] <= TINY, (left, where)
        assert left["device"] == left["reserved"], (left, where)
        assert left["hazards"] == left["out_of_bounds"] == 0, (left, where)
        if done.report:
            assert done.report["held"]["disk"] == 0, (done.report, where)
            assert done.report["held"]["saved_tensors"] == 0, (done.report, where)


def main() -> int:
    step, call, error = map(int, sys.argv[1:4])
    fault = Fault(step, call, error)
    with zygote() as process:
        for environment in ({}, MANAGED):
            result = Faults(process, environment).result(fault)
            print(result.site, result.outcome, *result.done.lines, sep="\n  ")
            print(result.done.errors[-3000:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
