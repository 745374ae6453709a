"""Calls between functions and their costs, from callgrind's output
(bench/callgrind.py).

The simulated device's share in the callees of a function is left out: it stands for the
driver. Callgrind has one cost for each pair of functions, whoever called the first, so
that share is the function's mean one.
"""

import bisect
import collections
import re
import subprocess
from collections.abc import Collection
from pathlib import Path

SIMULATOR = "cudasim_"
ROUNDS = 60  # rounds of passing shares on, more than calls nest
# A boxed call of an op's CUDA kernel, as recomputation makes it.
BOXED = re.compile(r"make_boxed_from_unboxed_functor.*?wrapper_CUDA_(\w+)")


class Names:
    """Callgrind names what is new to it and numbers what it has named."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, text: str) -> str:
        number, _, name = text.partition(" ")
        if name:
            self._known[number] = name
        return self._known[number]


class Symbols:
    """Functions of a library by address, for callgrind saw it without its symbols."""

    def __init__(self, library: Path) -> None:
        command = ["nm", "--demangle", "--defined-only", str(library)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        parts = (line.split(" ", 2) for line in done.stdout.splitlines())
        known = sorted((int(at, 16), name) for at, kind, name in parts if kind in "tT")
        self._at = [at for at, _ in known]
        self._names = [name for _, name in known]

    def name(self, function: str) -> str:
        found = re.match(r"0x([0-9a-f]+)", function)
        if found is None:
            return function
        index = bisect.bisect_right(self._at, int(found[1], 16)) - 1
        return self._names[index] if index >= 0 else function


class Graph:
    def __init__(self, file: Path, library: Path) -> None:
        self.alone: collections.Counter[str] = collections.Counter()
        self.cost: collections.Counter[tuple[str, str]] = collections.Counter()
        self.calls: collections.Counter[tuple[str, str]] = collections.Counter()
        self._simulated: set[str] = set()
        self._read(file, Symbols(library), library.name)
        self.share = self._shares()

    def _read(self, file: Path, symbols: Symbols, library: str) -> None:
        objects, functions = Names(), Names()
        ours = current = callee = place = ""
        called = 0

        def function(text: str, where: str) -> str:
            name = functions.of(text)
            if where.endswith(library):
                name = symbols.name(name)
            if Path(where).name.startswith(SIMULATOR):
                self._simulated.add(name)
            return name

        for line in file.read_text(errors="replace").splitlines():
            key, _, value = line.partition("=")
            if key == "ob":
                ours = place = objects.of(value)
            elif key == "cob":
                place = objects.of(value)
            elif key == "fn":
                current, place = function(value, ours), ours
            elif key == "cfn":
                callee = function(value, place)
            elif key == "calls":
                called = int(value.split()[0])
            elif re.match(r"[+\-*\d]", line):
                spent = int(line.split()[1])
                if called:
                    self.cost[current, callee] += spent
                    self.calls[current, callee] += called
                    called, place = 0, ours
                else:
                    self.alone[current] += spent

    def _shares(self) -> dict[str, float]:
        """The host's share in each function's instructions, callees included."""
        total = collections.Counter(self.alone)
        for (caller, _), spent in self.cost.items():
            total[caller] += spent
        share = {name: float(name not in self._simulated) for name in total}
        for _ in range(ROUNDS):
            left: collections.Counter[str] = collections.Counter(self.alone)
            passed: dict[str, float] = dict(left)
            for (caller, callee), spent in self.cost.items():
                passed[caller] = passed.get(caller, 0) + spent * share.get(callee, 1)
            for name, spent in total.items():
                if name not in self._simulated and spent:
                    share[name] = passed.get(name, 0) / spent
        return share

    def beneath(self, *prefixes: str) -> tuple[float, int]:
        """Host instructions of functions named so with all that they call, and calls.

        Calls between them do not count.
        """
        inside = self._named(prefixes)
        edges = [e for e in self.cost if e[1] in inside and e[0] not in inside]
        spent = sum(self.cost[edge] * self.share.get(edge[1], 1) for edge in edges)
        return spent, sum(self.calls[edge] for edge in edges)

    def _named(self, prefixes: Collection[str]) -> set[str]:
        everyone = {name for edge in self.cost for name in edge}
        return {name for name in everyone if name.startswith(tuple(prefixes))}

    def boxed(self) -> collections.Counter[str]:
        """Calls of kernels as recomputation makes them, by the wrapper's name."""
        made: collections.Counter[str] = collections.Counter()
        for (_, callee), count in self.calls.items():
            if (found := BOXED.search(callee)) is not None:
                made[found[1]] += count
        return made

    def dearest(self, prefix: str, count: int) -> list[tuple[str, int, int]]:
        """Functions named so that cost most with all that they call, and calls."""
        spent: collections.Counter[str] = collections.Counter()
        calls: collections.Counter[str] = collections.Counter()
        for (caller, callee), cost in self.cost.items():
            if callee.startswith(prefix) and caller != callee:
                spent[callee] += round(cost * self.share.get(callee, 1))
                calls[callee] += self.calls[caller, callee]
        return [(name, cost, calls[name]) for name, cost in spent.most_common(count)]
