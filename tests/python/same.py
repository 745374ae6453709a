"""Runs cases of tests/python/programs unmanaged and managed, and compares."""

import contextlib
import dataclasses
import itertools
import json
import re
import subprocess
from collections.abc import Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import harness
from run import PYTHON, clean_environment

# A budget that nothing fits: whatever can be evicted is, at every allocation.
FORCED = {"EBBTIDE_BUDGET": "64KiB", "EBBTIDE_LOG": "line"}
RECOMPUTE = FORCED | {"EBBTIDE_OFFLOAD_DIR": "none"}
SPILL = harness.ROOT / "build"  # on disk, where /tmp need not be
SPILLING = FORCED | {"EBBTIDE_OFFLOAD_DIR": str(SPILL)}
# The message of Triton's nanobind at the end of a process; its last line has no end.
LEAKS = re.compile(r"(?s)nanobind: leaked \d.*?See https://nanobind\S+?\.html")


@dataclasses.dataclass
class Outcome:
    """How one case ended in one mode."""

    exit: int | str
    errors: str
    output: str
    notes: list[tuple[str, list[str]]] = dataclasses.field(default_factory=list)
    work: dict[str, dict[str, int]] = dataclasses.field(default_factory=dict)
    report: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def replayed(self) -> int:
        return int(self.report["ops_replayed"])

    @property
    def dropped(self) -> int:
        return int(self.report["bytes_by_tier"]["dropped"])

    @property
    def spilled(self) -> int:
        return int(self.report["bytes_spilled"])

    @property
    def state(self) -> str:
        return str(self.report["state"])

    def steps(self, state: str) -> int:
        """How many steps ended in that state."""
        return int(self.report["steps_by_state"].get(state, 0))

    @property
    def lines(self) -> list[str]:
        """The lines printed by ebbtide, the closing line included."""
        lines = self.errors.splitlines()
        return [line for line in lines if line.startswith("ebbtide:")]


class Zygote:
    """A process that has torch and forks a child per case.

    `imports`: modules that it loads besides, which then cost a child nothing.
    `environment`: variables of its own, for all children. `fill`: what fresh memory
    holds in one of the two runs of a control; 0 where malloc is not the C library's.
    """

    def __init__(
        self,
        *imports: str,
        environment: Mapping[str, str] | None = None,
        fill: int = 0xA5,
    ) -> None:
        self._imports = imports
        self._fill = fill
        self._environment = {**clean_environment(), **(environment or {})}

    def __enter__(self) -> "Zygote":
        self._stack = contextlib.ExitStack()
        self._process = self._stack.enter_context(
            subprocess.Popen(
                [PYTHON, "-m", "programs.zygote", *self._imports],
                cwd=Path(__file__).parent,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=self._environment,
                text=True,
            )
        )
        self._plain: dict[str, Outcome] = {}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._stack.close()

    def run(
        self,
        case: str,
        env: Mapping[str, str] | None = None,
        *,
        threads: int = 1,
        finish: bool = False,
        linger: bool = False,
        fill: int = 0,
        seconds: float = 20,
    ) -> Outcome:
        """Runs `case` ("module.function") with these variables.

        `finish`: to the very end of the process, closing line included; `linger`:
        its threads run on for a while when all statics have been destroyed; `fill`:
        a byte that fresh memory holds.
        """
        job = {
            "case": case,
            "env": dict(env or {}),
            "threads": threads,
            "seconds": seconds,
            "finish": finish or linger,
            "linger": linger,
            "fill": fill,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        answer["errors"] = LEAKS.sub("", answer["errors"])
        answer["notes"] = [(label, v) for label, v in answer.get("notes", [])]
        return Outcome(**answer)

    def plain(self, case: str, *, threads: int = 1, seconds: float = 20) -> Outcome:
        """The case unmanaged; the control, two runs being equal, is checked.

        In one of them fresh memory is filled: a program whose numbers depend on
        what memory held has none that could be kept.
        """
        key = f"{case} {threads}"
        if key not in self._plain:
            first, second = (
                self.run(case, threads=threads, seconds=seconds, fill=fill)
                for fill in (0, self._fill)
            )
            for done in (first, second):
                assert done.exit == 0, done.errors
            assert first.notes, f"{case} notes nothing"
            assert first.notes == second.notes, f"{case} differs without ebbtide"
            assert first.lines == []
            self._plain[key] = first
        return self._plain[key]

    def same(
        self,
        case: str,
        env: Mapping[str, str],
        *,
        threads: int = 1,
        seconds: float = 20,
        but: Collection[str] = (),
    ) -> Outcome:
        """The case with these variables; fails unless all notes are equal.

        Notes with the labels `but` are there in both, and may differ.
        """
        plain = self.plain(case, threads=threads, seconds=seconds)
        managed = self.run(case, env, threads=threads, seconds=seconds)
        assert managed.exit == 0, (managed.exit, managed.errors)
        labels = [label for label, _ in managed.notes]
        others = [
            pair
            for pair in itertools.zip_longest(
                [label for label, _ in plain.notes], labels
            )
            if pair[0] != pair[1]
        ]
        assert others == [], (others[:3], env, managed.errors)
        differ = [
            label
            for (label, expected), (_, got) in zip(
                plain.notes, managed.notes, strict=True
            )
            if expected != got and label not in but
        ]
        assert differ == [], f"{case}: {differ} differ from the unmanaged run"
        assert managed.report, managed.errors
        return managed

    def recomputed(self, case: str, *, threads: int = 1) -> Outcome:
        """The case with everything that can be recomputed dropped."""
        done = self.same(case, RECOMPUTE, threads=threads)
        assert done.replayed > 0, f"{case}: nothing was recomputed"
        return done

    def spilled(self, case: str, *, threads: int = 1) -> Outcome:
        """The case with everything dropped or offloaded, whichever is cheaper."""
        done = self.same(case, SPILLING, threads=threads)
        assert done.replayed + done.spilled > 0, f"{case}: nothing was evicted"
        return done

    def forced(self, case: str) -> tuple[Outcome, Outcome]:
        """Both of the above."""
        return self.recomputed(case), self.spilled(case)

    def planned(self, case: str, folder: str, share: float = 0.6) -> Outcome:
        """The case at a budget that needs a plan: `share` of its activations."""
        counted = self.same(case, {"EBBTIDE_RECORD": "/dev/null"})
        persistent = counted.report["persistent"]
        budget = persistent + int(counted.report["peak_activations"] * share)
        env = {"EBBTIDE_BUDGET": f"{budget}B", "EBBTIDE_OFFLOAD_DIR": folder}
        done = self.same(case, env)
        # On a busy machine the plan may have measured slower than no plan.
        given_up = any("slower than evicting" in line for line in done.lines)
        followed = done.steps("active") + done.steps("steady")
        assert followed > 0 or given_up, (done.report, done.lines)
        assert done.replayed + done.spilled > 0, f"{case}: nothing was evicted"
        return done
