"""Random programs on the simulated device, with and without ebbtide.

    python tests/python/cuda_seeds.py PROGRAM SEED...

A seed decides on a program (of programs/PROGRAM.py), how it is managed, within
which budget, and in what order the device runs what is queued. Prints what was
done; fails where a run differs from the same program unmanaged, hangs, or leaves
anything behind.
"""

import collections
import dataclasses
import random
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(Path(__file__).parent)]

import simulator  # noqa: E402
from same import Outcome, Zygote  # noqa: E402

SCHEDULES = ("eager", "ontime", "late", "race", "random")
HOST_BUDGET = 8 << 20
SEGMENT = 2 << 20  # segment size of PyTorch's allocator for such sizes
# Blocks come in another order than unmanaged, and leave other gaps.
FRAGMENTS = 2 * SEGMENT
# A weight, a bias and an input: the last graph of the process.
TINY = 3 * 512
SECONDS = 60.0

# How the program is managed, and how much of what it reserves at most, beyond
# what it has between its steps, it may have.
KINDS: dict[str, tuple[dict[str, str], tuple[float, float]]] = {
    "forced": ({}, (0.0, 0.2)),
    "demand": ({}, (0.2, 0.9)),
    "plans": ({"EBBTIDE_TEST_PLANS": ""}, (0.2, 0.9)),
    "copies": ({"EBBTIDE_RECOMPUTE": "0"}, (0.2, 0.9)),
    "planned copies": (
        {"EBBTIDE_RECOMPUTE": "0", "EBBTIDE_TEST_PLANS": ""},
        (0.2, 0.9),
    ),
    "recomputes": ({"EBBTIDE_OFFLOAD_DIR": "none"}, (0.2, 0.9)),
    "planned recomputes": (
        {"EBBTIDE_OFFLOAD_DIR": "none", "EBBTIDE_TEST_PLANS": ""},
        (0.2, 0.9),
    ),
}

# The kinds that each program is managed as, and the share where it is the program's.
PROGRAMS: dict[str, tuple[list[str], tuple[float, float] | None]] = {
    "cuda_random": ([*KINDS], None),
    # Nearly all that can be recomputed is, so that what has changed is among it.
    "cuda_alike": (
        [*["recomputes", "planned recomputes", "plans"] * 3, "copies"],
        (0.0, 0.3),
    ),
}

Totals = collections.Counter[str]


def zygote(program: str = "cuda_random") -> Zygote:
    return Zygote(f"programs.{program}", environment=simulator.ENVIRONMENT)


@dataclasses.dataclass
class Setting:
    """The draws of a seed."""

    kind: str
    share: float
    environment: dict[str, str]

    @classmethod
    def of(cls, seed: int, program: str = "cuda_random") -> "Setting":
        draw = random.Random(f"setting {seed}")
        kinds, share = PROGRAMS[program]
        kind = draw.choice(kinds)
        variables, (least, most) = KINDS[kind]
        least, most = share or (least, most)
        environment = {
            **variables,
            "EBBTIDE_MIN_BYTES": draw.choice(("4KiB", "64KiB")),
            "EBBTIDE_HOST_BUDGET": f"{HOST_BUDGET}B",
            "RANDOM_SCHEDULE": draw.choice(SCHEDULES),
            "RANDOM_ORDER": str(draw.randrange(1, 1 << 30)),
            "RANDOM_GBPS": draw.choice(("25", "2", "0.1")),
            "RANDOM_POISON": draw.choice(("", "0", "165", "255")),
        }
        if "EBBTIDE_TEST_PLANS" in environment:
            environment["EBBTIDE_TEST_PLANS"] = str(draw.randrange(1 << 30))
        return cls(kind, draw.uniform(least, most), environment)


def round_up(size: float) -> int:
    return -(-int(size) // SEGMENT) * SEGMENT


def is_out_of_memory(done: Outcome) -> bool:
    return any("out of memory" in label for label, _ in done.notes)


def check_left(done: Outcome, where: str, host_budget: int = HOST_BUDGET) -> None:
    """Neither device nor host hold anything any more."""
    left = done.work["left"]
    assert left["live"] <= TINY, (where, left)
    assert left["device"] == left["reserved"] <= 3 * SEGMENT, (where, left)
    assert left["out_of_bounds"] == left["hazards"] == 0, (where, left)
    if not done.report:
        assert left["live"] == left["device"] == left["pinned"] == 0, (where, left)
        return
    # Memory that was pinned stays so, for the next step; nothing lies there.
    assert left["pinned"] in (0, host_budget), (where, left)
    assert done.report["held"]["disk"] == 0, (where, done.report)
    assert done.report["held"]["saved_tensors"] == 0, (where, done.report)


def check_ended(done: Outcome, where: str) -> None:
    check_left(done, where)
    assert not any(done.work["grown"].values()), (where, done.work)


def run(
    process: Zygote, seed: int, totals: Totals, program: str = "cuda_random"
) -> Outcome:
    """The program of the seed, unmanaged and as the seed manages it."""
    case = f"{program}.seed_{seed}"
    setting = Setting.of(seed, program)
    where = f"python tests/python/cuda_seeds.py {program} {seed}  # {setting}"
    plain = process.run(case, seconds=SECONDS)
    assert plain.exit == 0, (where, plain.exit, plain.errors)
    assert plain.notes, where
    assert plain.lines == [], where
    check_ended(plain, where)
    memory = plain.work["memory"]
    least, most = round_up(memory["before"]), memory["reserved"]
    budget = round_up(least + setting.share * (most - least))
    while True:
        within = setting.environment | {"EBBTIDE_BUDGET": f"{budget}B"}
        done = process.run(case, within, seconds=SECONDS)
        where = f"{where}, {budget} bytes"
        assert done.exit == 0, (where, done.exit, done.errors)
        check_ended(done, where)
        assert not any("off:" in line for line in done.lines), (where, done.lines)
        if not is_out_of_memory(done):
            break
        # Below the floor of what the kind can do.
        assert budget < most + FRAGMENTS, (where, done.notes)
        budget += SEGMENT
        totals["too little"] += 1
    differ = [
        (expected[0], got[0])
        for expected, got in zip(plain.notes, done.notes, strict=False)
        if expected != got
    ]
    assert differ == [], (where, differ, done.lines)
    assert len(done.notes) == len(plain.notes), where
    assert done.work["memory"]["reserved"] <= budget, (where, done.work)
    assert done.report["mismatches"] == 0, (where, done.lines)
    count(totals, setting, done)
    return done


def count(totals: Totals, setting: Setting, done: Outcome) -> None:
    totals["runs"] += 1
    totals[setting.environment["RANDOM_SCHEDULE"]] += 1
    totals[f"{setting.kind} runs"] += 1
    for state in ("active", "steady"):
        totals[state] += done.steps(state)
    totals["replayed"] += done.replayed
    totals["spilled"] += done.spilled
    totals["restored"] += int(done.report["bytes_restored"])
    totals[f"{setting.kind} evicted"] += done.replayed + done.spilled


def main() -> int:
    totals: Totals = collections.Counter()
    program = sys.argv[1]
    with zygote(program) as process:
        for seed in map(int, sys.argv[2:]):
            print(seed, Setting.of(seed, program), flush=True)
            run(process, seed, totals, program)
    print(dict(totals))
    return 0


if __name__ == "__main__":
    sys.exit(main())
