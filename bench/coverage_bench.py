"""Share of the bytes saved by autograd that can be evicted and brought back.

    ./dev bench coverage [--quick] [--check] [--json]

Each model trains twice unmanaged in one process, where hooks of Python count what
autograd saves, and once under a budget that nothing fits, where the runtime says
what it holds and every saved tensor that can leave does. The figures count when the
backward of a step begins.
"""

import dataclasses
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
from harness import mib

CHILD = Path(__file__).with_name("coverage_child.py")
MODELS = [
    "GPT-2 (transformers)",
    "Llama-style",
    "ViT",
    "ResNet-50",
    "U-Net",
    "encoder-decoder",
    "LSTM",
    "mixture of experts",
    "state space, step by step",
    "state space, by sums",
    "graph net",
]
QUICK = ["graph net"]
BUDGET = 64 << 10
# Per cent of the bytes that autograd saves.
WANTED = 95.0


@dataclasses.dataclass
class Row:
    """One model; sizes in bytes."""

    model: str
    saved: int  # counted from outside
    others: int  # parameters, buffers and inputs, counted from outside
    report: dict[str, Any]  # "saved" of the runtime's
    same: bool
    steps: int
    dropped: int
    spilled: int

    @property
    def managed(self) -> int:
        return int(self.report["recomputable"] + self.report["offload_only"])

    @property
    def share(self) -> float:
        return 100.0 * self.managed / self.saved

    @property
    def unexplained(self) -> int:
        """Bytes by which the two counts differ."""
        ours = [self.report[key] for key in ("bytes", "parameters", "outside")]
        return sum(map(int, ours)) - self.saved - self.others

    @property
    def away(self) -> float:
        return 100.0 * int(self.report["away"]) / max(self.managed, 1)

    def groups(self) -> list[str]:
        """The parts that are not recomputable, in words."""
        lines = []
        for group in self.report["groups"]:
            if group["tier"] == "outside" or group["bytes"] < 0.005 * self.saved:
                continue
            size = f"{mib(group['bytes'])} MiB in {group['storages']}"
            reason = f"{group['op']}: {group['reason']}"
            lines.append(f"- {self.model}: {group['tier']}, {size}, {reason}")
        return lines

    def complaints(self) -> Iterator[str]:
        if not self.same:
            yield f"{self.model}: losses or gradients differ from the unmanaged run"
        if self.unexplained != 0:
            yield f"{self.model}: the counts differ by {self.unexplained} bytes"
        if self.away < WANTED:
            yield f"{self.model}: {self.away:.2f} % of the managed bytes had left"
        if self.share < WANTED:
            yield f"{self.model}: {self.share:.2f} % managed, wanted {WANTED:g}"


def measure(model: str) -> Row:
    # The models import those of the jobs.
    command = ["env", f"PYTHONPATH={harness.JOBS}"]
    command += [str(harness.PYTHON), str(CHILD), model]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "counted.json"
        plain = harness.run([*command, "--count", str(file)])
        counted = json.loads(file.read_text())
    managed = harness.managed(command, BUDGET)
    return Row(
        model,
        saved=counted.pop("activations"),
        others=sum(counted.values()),
        report=managed.report["saved"],
        same=managed.same_result(plain),
        steps=len(plain.losses),
        dropped=managed.report["bytes_by_tier"]["dropped"],
        spilled=managed.report["bytes_spilled"],
    )


def show(rows: list[Row]) -> str:
    header = ["model", "saved MiB", "seen", "recomputable", "offload only", "kept"]
    header += ["managed %", "away %", "same", "dropped", "copied"]
    body = []
    for row in rows:
        tiers = ("bytes", "recomputable", "offload_only", "kept")
        sizes = [mib(row.report[tier]) for tier in tiers]
        shares = [f"{row.share:.2f}", f"{row.away:.2f}"]
        done = ["yes" if row.same else "NO", mib(row.dropped), mib(row.spilled)]
        body.append([row.model, mib(row.saved), *sizes, *shares, *done])
    lines = "\n".join(line for row in rows for line in row.groups())
    return f"{harness.table([header, *body])}\n\n{lines}".strip()


def main() -> int:
    args = harness.bench_parser(__doc__, "one model").parse_args()
    rows = []
    for model in QUICK if args.quick else MODELS:
        rows.append(measure(model))
        harness.progress(f"{model}: {rows[-1].share:.2f} % managed")
    harness.report(
        args,
        "coverage",
        seed=1,
        rows=[dataclasses.asdict(row) for row in rows],
        body=show(rows),
    )
    complaints = [text for row in rows for text in row.complaints()]
    return harness.verdict("coverage", complaints, args.check)


if __name__ == "__main__":
    sys.exit(main())
