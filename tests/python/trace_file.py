"""Reads traces by docs/internals/trace.md and profiler/trace_format.h, slowly.

It shares no code with the program: the tests compare the two.
"""

import dataclasses
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

KINDS = ["other", "parameters", "gradients", "optimizer", "saved", "scratch"]
ALLOCATE, FREE, RETAG, FORGET, FOUND = range(5)
START, NAME, SPAN, STEP_BEGIN, STEP_END = 1, 2, 4, 5, 6
BUDGET, EVICTION, TEXT, END = 7, 8, 10, 11
BLOCK, NOTE, TIER, DETAIL_END, GAP = 12, 13, 14, 15, 16
OF_LAYER = 4


@dataclasses.dataclass
class Block:
    bytes: int
    kind: str
    name: int
    layer: str = ""


@dataclasses.dataclass
class Event:
    """A change of live bytes, and what is alive after it."""

    time: int
    rest: int
    by_kind: dict[str, int]
    workspace: int
    changed: int  # the block's number

    @property
    def live(self) -> int:
        return sum(self.by_kind.values())


@dataclasses.dataclass
class Step:
    index: int
    begin: int
    end: int
    peak: int


@dataclasses.dataclass
class Tier:
    time: int
    host: int
    disk: int


class Fields:
    """The fields of one record."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._at = 1

    def byte(self) -> int:
        self._at += 1
        return self._payload[self._at - 1]

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        return (value >> 1) ^ -(value & 1)

    def text(self) -> str:
        length = self.number()
        self._at += length
        return self._payload[self._at - length : self._at].decode(errors="replace")


def records(path: Path) -> Iterator[tuple[int, bytes]]:
    """Type and payload of each whole record."""
    data = path.read_bytes()
    magic, version = struct.unpack_from("<8sI", data)
    assert (magic, version) == (b"EBBTIDE\n", 3)
    at = 16
    while at + 8 <= len(data):
        (length,) = struct.unpack_from("<I", data, at)
        payload = data[at + 8 : at + 8 + length]
        if len(payload) < length:
            return
        yield payload[0], payload
        at += 8 + length


class Trace:
    """The events, steps, tiers and names of a file."""

    def __init__(self, path: Path, until: int | None = None) -> None:
        """`until`: the number of the last event that is read."""
        self.names: list[str] = []
        self.events: list[Event] = []
        self.steps: list[Step] = []
        self.tiers: list[Tier] = []
        self.left_out: list[int] = []  # steps
        self.spans: Counter[int] = Counter()  # by kind
        self.evictions = 0
        self.start = 0
        self.complete = False
        self.detail_end = 0
        self.last = 0  # the last time of any record
        self.alive: dict[int, Block] = {}  # after the last event
        self.layers: list[tuple[str, str]] = []  # the block's kind, and what is noted
        self._time = self._rest = self._blocks = 0
        for kind, payload in records(path):
            self._read(kind, Fields(payload))
            if until is not None and len(self.events) > until:
                break

    def _clock(self, fields: Fields) -> int:
        self._time += fields.number()
        self.last = max(self.last, self._time)
        return self._time

    def _read(self, kind: int, fields: Fields) -> None:
        if kind == START:
            fields.number()
            fields.number()
            self.start = self._clock(fields)
        elif kind == NAME:
            self.names.append(fields.text())
        elif kind == STEP_BEGIN:
            self.steps.append(Step(fields.number(), self._clock(fields), 0, 0))
        elif kind == STEP_END:
            index, end, peak = fields.number(), self._clock(fields), fields.number()
            # There was no room for its beginning.
            if not self.steps or self.steps[-1].index != index:
                self.steps.append(Step(index, end, 0, 0))
            self.steps[-1].end, self.steps[-1].peak = end, peak
        elif kind == SPAN:
            self.spans[fields.byte()] += 1
            fields.number()
            self._clock(fields)
            self._clock(fields)
        elif kind == BUDGET:
            self._clock(fields)
        elif kind == EVICTION:
            self.evictions += 1
            self._clock(fields)
        elif kind == TEXT:
            fields.byte()
            fields.byte()
            self._clock(fields)
        elif kind == TIER:
            self.tiers.append(
                Tier(self._clock(fields), fields.number(), fields.number())
            )
        elif kind == BLOCK:
            self._block(fields)
        elif kind == DETAIL_END:
            self.detail_end = self._clock(fields)
        elif kind == GAP:
            first, last = fields.number(), fields.number()
            self.left_out += range(first, last + 1)
            self._clock(fields)
            self._clock(fields)
            self._blocks += fields.number()
        elif kind == END:
            self.complete = True
        else:
            assert kind == NOTE, f"a record of type {kind}"
            what, number = fields.byte(), self._blocks - fields.number()
            if what == OF_LAYER and number in self.alive:
                block = self.alive[number]
                block.layer = self.names[fields.number() - 1]
                self.layers.append((block.kind, block.layer))

    def _block(self, fields: Fields) -> None:
        what = fields.byte()
        time = self._clock(fields)
        self._rest += fields.number()
        number = -1
        if what == ALLOCATE:
            number = self._blocks
            self._blocks += 1
            size, kind = fields.number(), KINDS[fields.byte()]
            self.alive[number] = Block(size, kind, fields.number() - 1)
        elif what == FOUND:
            number = self._blocks - fields.number()
            size, kind = fields.number(), KINDS[fields.byte()]
            self.alive[number] = Block(size, kind, fields.number() - 1)
        elif what in (FREE, RETAG):
            number = self._blocks - fields.number()
            if what == FREE:
                del self.alive[number]
            else:
                self.alive[number].kind = KINDS[fields.byte()]
        else:
            self.alive.clear()
        by_kind = dict.fromkeys(KINDS, 0)
        by_kind["other"] = self._rest
        workspace = 0
        for block in self.alive.values():
            by_kind[block.kind] += block.bytes
            if block.kind == "other" and block.name >= 0:
                workspace += block.bytes
        self.events.append(Event(time, self._rest, by_kind, workspace, number))
