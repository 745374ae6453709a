"""Chrome traces as `ebbtide timeline` writes them, read by what the format says."""

import json
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any


def nanos(microseconds: float) -> int:
    """The value of the decimals in the file, without a rounding in between."""
    return int(Fraction(repr(microseconds)) * 1000)


class ChromeTrace:
    """The requirements of Perfetto's importer of JSON, written from its documentation.

    Its own trace processor is a program that the PyPI package fetches when it is
    first used; where nothing can be fetched this takes its place.
    """

    def __init__(self, path: Path) -> None:
        self.events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
        self.slices: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for event in self.events:
            assert {"ph", "name", "pid", "tid", "ts"} <= event.keys()
            if event["ph"] == "X":
                assert event["dur"] >= 0
                self.slices[event["tid"]].append(event)

    def phase(self, phase: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["ph"] == phase]

    def check_nesting(self) -> None:
        """Slices of a thread lie in each other or beside each other."""
        for row in self.slices.values():
            spans = sorted(
                (nanos(s["ts"]), -nanos(s["ts"]) - nanos(s["dur"])) for s in row
            )
            open_ends: list[int] = []
            for begin, negative_end in spans:
                end = -negative_end
                while open_ends and open_ends[-1] <= begin:
                    open_ends.pop()
                assert not open_ends or end <= open_ends[-1]
                open_ends.append(end)

    def check_threads(self) -> dict[int, str]:
        names = {
            event["tid"]: event["args"]["name"]
            for event in self.phase("M")
            if event["name"] == "thread_name"
        }
        assert self.slices.keys() <= names.keys()
        assert len(set(names.values())) == len(names)
        return names

    def slice_at(self, event: dict[str, Any]) -> dict[str, Any]:
        """The innermost slice that a flow's end is bound to."""
        at = event["ts"]
        holding = [
            s
            for s in self.slices[event["tid"]]
            if nanos(s["ts"]) <= nanos(at) <= nanos(s["ts"]) + nanos(s["dur"])
        ]
        return max(holding, key=lambda s: s["ts"])

    def flows(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        begun = {event["id"]: event for event in self.phase("s")}
        ended = {event["id"]: event for event in self.phase("f")}
        assert begun.keys() == ended.keys()
        assert len(begun) == len(self.phase("s")) == len(self.phase("f"))
        return [(self.slice_at(begun[i]), self.slice_at(ended[i])) for i in begun]
