"""`ebbtide timeline` to Perfetto's and memory_viz's formats."""

import itertools
import pickle
import random
from bisect import bisect_right
from pathlib import Path
from typing import Any

import pytest

import harness
from chrome_file import ChromeTrace, nanos
from run import PYTHON, run
from trace_file import Event, Trace

PROGRAM = harness.EBBTIDE

# Saved tensors that leave for the offload file, and some that are dropped.
TRAINING = """
import torch
torch.manual_seed(1)
layers = [torch.nn.Linear(512, 512) for _ in range(8)]
model = torch.nn.Sequential(*[m for l in layers for m in (l, torch.nn.GELU())])
x = torch.randn(512, 512)
for _ in range(12):
    model.zero_grad()
    model(x).square().mean().backward()
"""


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = Path(tmp_path_factory.mktemp("exports")) / "run.ebbtide"
    options = ["--budget=24MiB", f"--record={path}"]
    done = run([PROGRAM, "run", *options, "--", PYTHON, "-c", TRAINING])
    assert done.returncode == 0, done.stderr
    return path


def export(trace: Path, ending: str) -> Path:
    out = trace.with_suffix(ending)
    done = run([PROGRAM, "timeline", trace, "-o", out])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return out


def test_the_chrome_trace_is_one_that_perfetto_reads(trace: Path) -> None:
    chrome = ChromeTrace(export(trace, ".json"))
    chrome.check_nesting()
    names = chrome.check_threads()
    assert {"steps", "forward", "backward", "offload", "restore"} <= set(names.values())
    flows = chrome.flows()
    assert len(flows) > 3
    for out, back in flows:
        assert (out["cat"], back["cat"]) == ("offload", "restore")
        assert out["args"]["value"] == back["args"]["value"]
        assert out["args"]["bytes"] == back["args"]["bytes"]
        assert nanos(out["ts"]) + nanos(out["dur"]) <= nanos(back["ts"])


def test_its_counters_and_slices_are_those_of_the_trace(trace: Path) -> None:
    chrome, whole = ChromeTrace(export(trace, ".json")), Trace(trace)
    device = [event for event in chrome.phase("C") if event["name"] == "live bytes"]
    assert len(device) == len(whole.events)
    for counter, event in zip(device, whole.events, strict=True):
        expected = {**event.by_kind, "workspace": event.workspace}
        expected["other"] -= event.workspace
        assert counter["args"] == expected
        assert nanos(counter["ts"]) == event.time - whole.start
    tiers = [event for event in chrome.phase("C") if event["name"] == "disk"]
    used = itertools.dropwhile(lambda tier: tier.disk == 0, whole.tiers)
    assert [tier["args"]["bytes"] for tier in tiers] == [t.disk for t in used]
    assert max(tier["args"]["bytes"] for tier in tiers) > 0
    assert not any(event["name"] == "host memory" for event in chrome.phase("C"))
    slices = chrome.phase("X")
    ended = [step for step in whole.steps if step.end]
    assert len(slices) == sum(whole.spans.values()) + len(ended)
    assert len(chrome.phase("i")) == whole.evictions > 0


class ViewersUnpickler:
    """The reader of memory_viz, from its description: few opcodes, nothing called."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: list[Any] = []

    def _take(self, count: int) -> bytes:
        self._at += count
        part = self._data[self._at - count : self._at]
        assert len(part) == count
        return part

    def _unsigned(self, count: int) -> int:
        return int.from_bytes(self._take(count), "little")

    def _to_mark(self) -> list[Any]:
        mark = self._marks.pop()
        items = self._stack[mark:]
        del self._stack[mark:]
        return items

    def load(self) -> Any:
        assert self._take(2) == b"\x80\x04"
        while True:
            opcode = self._take(1)
            if opcode == b".":
                (value,) = self._stack
                assert self._at == len(self._data)
                return value
            self._step(opcode)

    def _step(self, opcode: bytes) -> None:
        stack = self._stack
        match opcode:
            case b"]":
                stack.append([])
            case b"}":
                stack.append({})
            case b"(":
                self._marks.append(len(stack))
            case b"e":
                items = self._to_mark()
                stack[-1].extend(items)
            case b"u":
                items = self._to_mark()
                assert len(items) % 2 == 0
                stack[-1].update(zip(items[::2], items[1::2], strict=True))
            case b"K" | b"M":
                stack.append(self._unsigned(1 if opcode == b"K" else 2))
            case b"J":
                stack.append(int.from_bytes(self._take(4), "little", signed=True))
            case b"\x8a":
                count = self._unsigned(1)
                stack.append(int.from_bytes(self._take(count), "little", signed=True))
            case b"\x8c":
                stack.append(self._take(self._unsigned(1)).decode())
            case b"X":
                stack.append(self._take(self._unsigned(4)).decode())
            case b"\x94":
                self._memo.append(stack[-1])
            case b"h":
                stack.append(self._memo[self._unsigned(1)])
            case b"j":
                stack.append(self._memo[self._unsigned(4)])
            case _:
                raise AssertionError(f"opcode {opcode!r} at {self._at}")


@pytest.fixture(scope="module")
def snapshot(trace: Path) -> dict[str, Any]:
    data = export(trace, ".pickle").read_bytes()
    read: dict[str, Any] = ViewersUnpickler(data).load()
    assert read == pickle.loads(data)
    return read


class Totals:
    """Allocated bytes after each event of a device of a snapshot."""

    def __init__(self, events: list[dict[str, Any]], **only: str) -> None:
        self.times: list[int] = []
        self.totals: list[int] = []
        alive: dict[int, int] = {}
        total = 0
        for event in events:
            if all(event[key] == value for key, value in only.items()):
                if event["action"] == "alloc":
                    assert event["addr"] not in alive
                    alive[event["addr"]] = event["size"]
                    total += event["size"]
                elif event["action"] == "free_completed":
                    assert alive.pop(event["addr"]) == event["size"]
                    total -= event["size"]
            self.times.append(event["nanos"])
            self.totals.append(total)
        self.alive = alive

    def at(self, time: int) -> int:
        after = bisect_right(self.times, time)
        return self.totals[after - 1] if after else 0


def random_instants(events: list[Event], count: int) -> list[int]:
    """Half of them at events, where an error by one would show."""
    rng = random.Random(4)
    first, last = events[0].time, events[-1].time
    anywhere = [rng.randint(first, last) for _ in range(count // 2)]
    return anywhere + [rng.choice(events).time for _ in range(count // 2)]


def test_the_snapshots_totals_are_the_traces(
    trace: Path, snapshot: dict[str, Any]
) -> None:
    whole = Trace(trace)
    device, tiers = snapshot["device_traces"]
    totals, disk = Totals(device), Totals(tiers, category="on disk")
    times = [event.time for event in whole.events]
    assert times == sorted(times)
    tier_times = [tier.time for tier in whole.tiers]
    for instant in random_instants(whole.events, 1000):
        event = whole.events[bisect_right(times, instant) - 1]
        assert totals.at(instant) == event.live, instant
        after = bisect_right(tier_times, instant)
        assert disk.at(instant) == (whole.tiers[after - 1].disk if after else 0)
    assert max(disk.totals) > 0


def test_its_segments_hold_what_is_alive_at_the_end(
    trace: Path, snapshot: dict[str, Any]
) -> None:
    totals = Totals(snapshot["device_traces"][0])
    (segment,) = snapshot["segments"]
    address, alive = segment["address"], {}
    for block in segment["blocks"]:
        if block["state"] == "active_allocated":
            alive[address] = block["size"]
        address += block["size"]
    assert address == segment["address"] + segment["total_size"]
    assert alive == totals.alive
    assert sum(alive.values()) == Trace(trace).events[-1].live


def test_the_viewer_finds_its_category_and_plain_values(
    snapshot: dict[str, Any],
) -> None:
    device, tiers = snapshot["device_traces"]
    kinds = {event["category"] for event in device}
    assert {"unknown", "parameters", "gradients", "saved"} <= kinds
    actions = {event["action"] for event in device + tiers}
    assert actions == {"alloc", "free_requested", "free_completed"}
    for event in device + tiers:
        assert event["addr"] < 1 << 53  # beyond it the viewer's numbers are not exact
        (frame,) = event["frames"]
        assert frame.keys() == {"filename", "line", "name"}
    assert "addmm" in {event["frames"][0]["name"] for event in device}


def test_an_old_trace_has_no_snapshot(tmp_path: Path) -> None:
    old = harness.ROOT / "tests" / "data" / "trace_v1.ebbtide"
    done = run([PROGRAM, "timeline", old, "-o", tmp_path / "out.pickle"])
    assert done.returncode == 2
    assert f"{old}: a trace of version 1 tells of no blocks" in done.stderr
    done = run([PROGRAM, "timeline", old, "-o", tmp_path / "out.html"])
    assert done.returncode == 0
