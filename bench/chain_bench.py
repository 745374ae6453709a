"""Speed of the chain solvers: `./dev bench chain`.

A random chain with a budget of 35 % of its saved sets in 500 slots, one thread but
where it says two, the least of five runs, of chains up to 200 stages of five times
five. Times are real (rows of doubles) or whole
multiples of 1/1024 (rows of 32-bit integers). With `--baseline DIR`, the rival
`rotor_dp_proto.cpp` of that folder (the persistent program alone, in doubles) is
compiled with the flags of our release build and solves the same chains in the same
run; both must find the same optimum.
"""

import argparse
import dataclasses
import json
import operator
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness

PROGRAM = harness.ROOT / "build" / "release" / "bench" / "chain_speed"
CACHE = harness.ROOT / "build" / "release" / "CMakeCache.txt"
SEED = 1
SLOTS = 500
REPEATS = 5
# Other work on a machine lasts longer than five runs for a short chain do, and would
# meet one solver alone: these take turns so many times.
SHORT = 200
TURNS = 5
STAGES = [50, 100, 200, 340]
LAYERS = [10**3, 10**4, 10**5, 10**6]
# Limits: times the rival, unpinned over rotor, two threads over two copies, seconds for
# a million layers, and growth of the time beyond the layers.
RIVAL = 2.0
UNPINNED = 4.5
THREADS = 0.85
MILLION = 0.5
GROWTH = 2.0
SAME = 1e-6  # share of an optimum: the rival prints six digits


class BenchError(Exception):
    """A program that ended badly."""


@dataclasses.dataclass
class Row:
    """Least seconds of a solver for a chain, and what was asked of it."""

    solver: str
    stages: int
    times: str
    seconds: float
    memory: int
    optimum: float
    rival: float | None = None  # seconds


def call(*words: str | Path) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shown = " ".join(str(word) for word in words)
        raise BenchError(f"{shown}: exit {done.returncode}\n{done.stderr.strip()}")
    return done.stdout


def table_words(
    solver: str, stages: int, times: str, threads: int, repeats: int
) -> list[str]:
    words = [str(PROGRAM), "table", solver, str(stages), times]
    return [*words, str(threads), str(repeats)]


def solve(solver: str, stages: int, times: str, repeats: int) -> Row:
    found = json.loads(call(*table_words(solver, stages, times, 1, repeats)))
    row = Row(solver, stages, times, found["seconds"], found["memory"], found["time"])
    harness.progress(f"{solver} {stages} {times}: {row.seconds:.3f} s")
    return row


def pair(count: int, times: str, repeats: int) -> tuple[Row, Row]:
    """Times of rotor and of unpinned, by turns."""
    rows = [
        (
            solve("rotor", count, times, repeats),
            solve("unpinned", count, times, repeats),
        )
        for _ in range(TURNS if count <= SHORT else 1)
    ]
    rotor, unpinned = zip(*rows, strict=True)
    least = operator.attrgetter("seconds")
    return min(rotor, key=least), min(unpinned, key=least)


def release_flags() -> list[str]:
    """The flags with which CMake compiles our release build."""
    cached = CACHE.read_text()
    flags = [
        re.search(rf"^{name}:\w+=(.*)$", cached, re.M)
        for name in ("CMAKE_CXX_FLAGS", "CMAKE_CXX_FLAGS_RELEASE")
    ]
    return " ".join(found[1] for found in flags if found).split()


def compiler() -> str:
    found = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", CACHE.read_text(), re.M)
    return found[1] if found else str(shutil.which("c++"))


def compile_rival(baseline: Path, folder: Path) -> Path:
    program = folder / "rival"
    source = baseline / "rotor_dp_proto.cpp"
    call(compiler(), *release_flags(), "-w", source, "-o", program)
    return program


def race(rival: Path, row: Row, folder: Path, repeats: int) -> None:
    chain = folder / "chain.txt"
    chain.write_text(call(PROGRAM, "chain", str(row.stages), row.times))
    seconds = []
    for _ in range(repeats):
        output = call(rival, str(row.stages), str(SLOTS), chain)
        found = re.search(r"opt (\S+) time (\S+)s", output)
        if found is None:
            raise BenchError(f"the rival printed {output!r}")
        seconds.append(float(found[2]))
        if abs(float(found[1]) - row.optimum) > SAME * row.optimum:
            raise BenchError(f"optima differ: {row.optimum} and {found[1]}")
    row.rival = min(seconds)


def solved(quick: bool, baseline: Path | None, repeats: int) -> Iterator[Row]:
    stages = STAGES[:2] if quick else STAGES
    with tempfile.TemporaryDirectory() as folder:
        rival = compile_rival(baseline, Path(folder)) if baseline else None
        for count in stages:
            for times in ("real", "whole"):
                rotor, unpinned = pair(count, times, repeats)
                if rival is not None:
                    race(rival, rotor, Path(folder), repeats)
                yield from (rotor, unpinned)
        for solver in ("floating", "unpinned-floating"):
            yield solve(solver, STAGES[0], "whole", repeats)


@dataclasses.dataclass
class Shared:
    """Two threads on one table, and two copies of the program with one each."""

    stages: int
    threads: float  # seconds of one table
    copies: float  # seconds of two tables, one in each copy

    @property
    def ratio(self) -> float:
        return self.copies / (2 * self.threads)


def together(command: list[str], copies: int) -> float:
    """The seconds that the slowest of some copies says it took."""
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for _ in range(copies)
    ]
    return max(float(json.loads(p.communicate()[0])["seconds"]) for p in running)


def share(stages: int, repeats: int) -> Shared:
    """In turns, so that what else the machine does falls on both."""
    two, one = (table_words("rotor", stages, "whole", n, 1) for n in (2, 1))
    rounds = [(together(two, 1), together(one, 2)) for _ in range(repeats)]
    threads, copies = (min(times) for times in zip(*rounds, strict=True))
    return Shared(stages, threads, copies)


def peaks(quick: bool, repeats: int) -> list[tuple[int, float]]:
    found = []
    for layers in LAYERS[:3] if quick else LAYERS:
        output = call(PROGRAM, "minpeak", str(layers), str(repeats))
        found.append((layers, float(json.loads(output)["seconds"])))
    return found


def complaints(
    rows: list[Row], shared: Shared, linear: list[tuple[int, float]]
) -> Iterator[str]:
    longest = max(row.stages for row in rows)
    rotor = {(r.stages, r.times): r for r in rows if r.solver == "rotor"}
    for row in rows:
        base = rotor.get((row.stages, row.times))
        if row.solver == "unpinned" and base is not None:
            ratio = row.seconds / base.seconds
            if ratio > UNPINNED:
                chain = f"{row.stages} stages, {row.times} times"
                yield f"unpinned takes {ratio:.2f} x rotor ({chain})"
        if row.rival is None or row.stages != longest:
            continue
        if row.rival / row.seconds < RIVAL:
            faster = row.rival / row.seconds
            yield f"rotor is {faster:.2f} x as fast as the rival ({row.times})"
    if shared.ratio < THREADS:
        yield f"two threads reach {shared.ratio:.2f} of two copies"
    first, last = linear[0], linear[-1]
    if last[0] == LAYERS[-1] and last[1] > MILLION:
        yield f"minpeak takes {last[1]:.3f} s for a million layers"
    growth = (last[1] / last[0]) / (first[1] / first[0])
    if growth > GROWTH:
        yield f"minpeak takes {growth:.2f} x as long a layer for {last[0]} of them"


def show(rows: list[Row], shared: Shared, linear: list[tuple[int, float]]) -> str:
    header = ["solver", "stages", "times", "s", "MB", "rival s", "x", "x rotor"]
    rotor = {(r.stages, r.times): r.seconds for r in rows if r.solver == "rotor"}
    body = []
    for row in rows:
        base = rotor.get((row.stages, row.times))
        rival = "-" if row.solver != "rotor" else "not run"
        faster = "-"
        if row.rival is not None:
            rival, faster = f"{row.rival:.3f}", f"{row.rival / row.seconds:.1f}"
        more = f"{row.seconds / base:.2f}" if base else "-"
        cells = [row.solver, str(row.stages), row.times, f"{row.seconds:.4f}"]
        body.append([*cells, f"{row.memory / 1e6:.0f}", rival, faster, more])
    threads = (
        f"With rotor and {shared.stages} stages, two threads take "
        f"{shared.threads:.3f} s for one table, and two copies of the program "
        f"{shared.copies:.3f} s for two: two threads reach {shared.ratio:.2f} of two "
        f"copies."
    )
    layers = [["minpeak, layers", "s", "ns a layer"]]
    for count, seconds in linear:
        layers.append([str(count), f"{seconds:.6f}", f"{1e9 * seconds / count:.1f}"])
    tables = [harness.table([header, *body]), threads, harness.table(layers)]
    return "\n\n".join(tables)


def parse_arguments() -> argparse.Namespace:
    p = harness.bench_parser(__doc__, "chains of 50 and 100 stages, two runs of each")
    p.add_argument("--baseline", type=Path, metavar="DIR", help="where rivals lie")
    return p.parse_args()


def main() -> int:
    args = parse_arguments()
    repeats = 2 if args.quick else REPEATS
    try:
        rows = list(solved(args.quick, args.baseline, repeats))
        shared = share(rows[-3].stages, repeats)
        linear = peaks(args.quick, repeats)
    except BenchError as error:
        print(f"bench chain: {error}", file=sys.stderr)
        return 1
    values: list[dict[str, Any]] = [dataclasses.asdict(row) for row in rows]
    values.append(dataclasses.asdict(shared) | {"ratio": shared.ratio})
    values += [{"solver": "minpeak", "layers": n, "seconds": s} for n, s in linear]
    body = show(rows, shared, linear)
    harness.report(args, "chain", SEED, values, body)
    found = list(complaints(rows, shared, linear))
    return harness.verdict("chain", found, args.check)


if __name__ == "__main__":
    sys.exit(main())
