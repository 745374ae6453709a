"""Makes the twin's table of op times from traces of a real device.

    twin_table.py extract TRACE NAME     the times in a trace, into tests/data/h100
    twin_table.py make                   op_times.tsv, from all that was extracted

A trace has the time of each forward op, of each backward op and of what is behind the
backward pass, but no shapes. The same program on the twin has the shapes of each op in
the same order. So the two are walked side by side. Where a backward op runs several
ops, they share its time in proportion to their rooflines, and what follows the
backward pass likewise. Ops of the forward pass that the trace does not list are left
to the roofline.
"""

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import harness

sys.path.insert(0, str(harness.ROOT / "tests" / "cudasim"))
sys.path.insert(0, str(harness.ROOT / "tests" / "python"))
import trace_file
import twin

PROGRAMS = {
    "gpt-1b": ("gpu_child.py", "gpt-1b"),
    "llama": ("llama_child.py", "llama"),
}
# The simulator has no cuDNN, and the trace's program used its attention.
CUDNN, FLASH = "_scaled_dot_product_cudnn_", "_scaled_dot_product_flash_"
CUDNN_NODE, FLASH_NODE = "ScaledDotProductCudnn", "ScaledDotProductFlash"
STEPS = 3
# So many ops of the twin in a row may be none of the trace's.
FORWARD_GAP = 5
# The shortest kernel takes so long, as in tests/cudasim/timed_install.cc.
LEAST_NS = 2500.0
HEADER = """\
# Nanoseconds that an H100 takes for an op (made by bench/twin_table.py from the traces
# of gpt-1b and llama within half of what autograd holds, see README.md).
"""


@dataclasses.dataclass
class Line:
    """An op of the twin: the backward op that ran it, and its place in the table."""

    node: str
    op: str
    roofline: float

    @property
    def name(self) -> str:
        return self.op.split(" ")[0]


def texts(trace: Path) -> Iterator[tuple[int, str]]:
    """Kind and text of each text of the trace, whose parts are put together."""
    whole = ""
    for kind, payload in trace_file.records(trace):
        if kind != trace_file.TEXT:
            continue
        fields = trace_file.Fields(payload)
        what, goes_on = fields.byte(), fields.byte()
        fields.number()
        whole += fields.text()
        if not goes_on:
            yield what, whole
            whole = ""


def extract(trace: Path, name: str) -> None:
    profile_kind = 2
    profiles = [json.loads(text) for kind, text in texts(trace) if kind == profile_kind]
    if not profiles:
        raise SystemExit(f"{trace}: no profile in it")
    last = profiles[-1]  # has the least times of all steps before it
    kept = {
        part: [[op["name"], round(op["time"])] for op in last[part]]
        for part in ("ops", "stages")
    }
    kept["tail"] = round(last["tail_time"])
    out = twin.MEASURED / f"{name}.times.json"
    out.write_text(json.dumps(kept).replace("], [", "],\n["))


def log_of(program: str, model: str) -> list[Line]:
    """The ops of one step, in order."""
    libraries = harness.ROOT / "build" / "release" / "tests" / "cudasim" / "lib"
    with tempfile.NamedTemporaryFile() as log:
        subprocess.run(
            [
                *(sys.executable, twin.__file__),
                *(str(harness.ROOT / "bench" / "gpu" / program), model, "plain"),
                str(STEPS),
            ],
            env={**os.environ, **twin.environment(libraries)}
            | {"CUDASIM_OP_LOG": log.name, "CUDASIM_OP_TIMES": ""},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        rows = [line.split("\t") for line in Path(log.name).read_text().splitlines()]
    lines = [Line(node, op, float(ns)) for node, op, ns, _ in rows]
    begin = max(
        i
        for i, line in enumerate(lines)
        if line.name == "embedding"
        and not any(near.name == "embedding" for near in lines[i - 3 : i])
    )
    return lines[begin:]


def share(lines: Sequence[Line], ns: float) -> Iterator[tuple[str, float]]:
    weights = [line.roofline + LEAST_NS for line in lines]
    for line, weight in zip(lines, weights, strict=True):
        yield line.op, ns * weight / sum(weights)


def forward(lines: Sequence[Line], ops: Sequence[Any]) -> Iterator[tuple[str, float]]:
    at = 0
    for name, ns in ops:
        wanted = name.replace(CUDNN, FLASH)
        near = [line.name for line in lines[at : at + FORWARD_GAP]]
        if wanted not in near:
            print(f"the twin has no {wanted} where the trace has it", file=sys.stderr)
            continue
        at += near.index(wanted) + 1
        yield lines[at - 1].op, ns


def backward(
    lines: Sequence[Line], stages: Sequence[Any]
) -> Iterator[tuple[str, float]]:
    at = 0

    def find(name: str, begin: int) -> int:
        for i in range(begin, len(lines)):
            is_first = i == 0 or lines[i].node != lines[i - 1].node
            if is_first and lines[i].node.split("@")[0] == name:
                return i
        raise SystemExit(f"the twin has no {name} where the trace has it")

    names = [name.replace(CUDNN_NODE, FLASH_NODE) for name, _ in stages]
    at = find(names[0], 0)
    for i, (_, ns) in enumerate(stages):
        end = find(names[i + 1], at + 1) if i + 1 < len(stages) else len(lines)
        yield from share(lines[at:end], ns)
        at = end


def times_of(name: str) -> Iterator[tuple[str, float]]:
    measured = json.loads((twin.MEASURED / f"{name}.times.json").read_text())
    lines = log_of(*PROGRAMS[name])
    first = next(i for i, line in enumerate(lines) if line.node)
    last = max(i for i, line in enumerate(lines) if line.node)
    yield from forward(lines[:first], measured["ops"])
    yield from backward(lines[first : last + 1], measured["stages"])
    yield from share(lines[last + 1 :], measured["tail"])


def make() -> None:
    found: defaultdict[str, list[float]] = defaultdict(list)
    for name in PROGRAMS:
        for op, ns in times_of(name):
            found[op].append(ns)
    rows = [f"{statistics.median(ns):.0f}\t{op}\n" for op, ns in sorted(found.items())]
    twin.TABLE.write_text(HEADER + "".join(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("extract")
    command.add_argument("trace", type=Path)
    command.add_argument("name", choices=PROGRAMS)
    commands.add_parser("make")
    arguments = parser.parse_args()
    if arguments.command == "extract":
        extract(arguments.trace, arguments.name)
    else:
        make()


if __name__ == "__main__":
    main()
