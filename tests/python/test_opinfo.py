"""PyTorch's own samples of its ops as the judge of eviction and recomputation."""

import collections
import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

import harness
from same import RECOMPUTE, SPILLING, Outcome, Zygote

# Samples are tiny: every storage is managed, and nothing fits.
TINY = {"EBBTIDE_MIN_BYTES": "1B", "EBBTIDE_BUDGET": "1B", "EBBTIDE_LOG": "off"}
PARTS = 8  # children per mode: a crash costs one of them

FLOATING = ["float64", "float32", "bfloat16", "float16"]
COMPLEX = ["complex128", "complex64"]


@pytest.fixture(scope="module")
def database() -> Iterator[Zygote]:
    """A zygote that has the database, which takes seconds to import."""
    with Zygote("torch.testing._internal.common_methods_invocations") as process:
        yield process


@dataclasses.dataclass
class Judgement:
    """The outcome of the samples; labels are "op type number"."""

    refused: dict[str, str] = dataclasses.field(default_factory=dict)
    chance: list[str] = dataclasses.field(default_factory=list)
    different: list[str] = dataclasses.field(default_factory=list)
    classes: dict[str, list[str]] = dataclasses.field(
        default_factory=lambda: collections.defaultdict(list)
    )
    reasons: dict[str, list[str]] = dataclasses.field(
        default_factory=lambda: collections.defaultdict(list)
    )

    def share(self) -> float:
        """The recomputed share of the deterministic samples with something to evict."""
        sizes = {name: len(labels) for name, labels in self.classes.items()}
        return sizes["replayed"] / (sum(sizes.values()) - sizes.get("saves nothing", 0))

    def table(self) -> str:
        total = sum(len(labels) for labels in self.classes.values())
        lines = [f"{total} deterministic samples of {len(ops_of(self.classes))} ops"]
        for name, labels in sorted(self.classes.items()):
            lines.append(f"  {name:14} {len(labels):6} {len(operators(labels)):5} ops")
        lines.append(f"  replayed of those that save: {self.share():.2%}")
        lines.append(
            f"  refused by PyTorch {len(self.refused)}: {operators(self.refused)}"
        )
        lines.append(f"  different without ebbtide {len(self.chance)}: {self.chance}")
        by_count = sorted(self.reasons.items(), key=lambda item: -len(item[1]))
        for why, labels in by_count:
            lines.append(f"  {why}: {len(labels)} of {operators(labels)}")
        return "\n".join(lines)


def ops_of(classes: Mapping[str, list[str]]) -> list[str]:
    return operators([label for labels in classes.values() for label in labels])


def operators(labels: "Mapping[str, Any] | list[str]") -> list[str]:
    return sorted({label.split(" ")[0] for label in labels})


def run(database: Zygote, sweep: dict[str, Any], env: Mapping[str, str]) -> Outcome:
    done = database.run(
        "opinfo.sweep", {"OPINFO": json.dumps(sweep), **env}, seconds=900
    )
    last = done.output.splitlines()[-1:] if done.exit else []
    assert done.exit == 0, (done.exit, last, done.errors)
    return done


def work_of(outcome: Outcome) -> dict[str, dict[str, Any]]:
    lines = [json.loads(line) for line in outcome.output.splitlines()]
    return {line["label"]: line for line in lines if "label" in line}


def class_of(recomputed: dict[str, Any], spilled: dict[str, Any]) -> str:
    if recomputed["kept"]:
        return "offloaded" if spilled["spilled"] else "kept"
    return "replayed" if recomputed["dropped"] else "saves nothing"


def judge_part(database: Zygote, sweep: dict[str, Any], verdict: Judgement) -> None:
    # New memory holds zeroes in one unmanaged run and something else in the
    # other: what an op reads there is chance (the pivots of lstsq's gelsy).
    first = dict(run(database, sweep | {"fill": 0xFF}, {}).notes)
    second = dict(run(database, sweep | {"fill": 0x11}, {}).notes)
    assert first.keys() == second.keys()
    managed = [run(database, sweep, mode | TINY) for mode in (RECOMPUTE, SPILLING)]
    notes = [dict(outcome.notes) for outcome in managed]
    work = [work_of(outcome) for outcome in managed]
    for label, expected in first.items():
        got = [of_mode.get(label) for of_mode in notes]
        if expected != second[label]:
            verdict.chance.append(label)
        elif got != [expected, expected]:
            verdict.different.append(label)
        elif expected[0][0] in "'\"":
            verdict.refused[label] = expected[0]
        else:
            done = [of_mode[label] for of_mode in work]
            verdict.classes[class_of(*done)].append(label)
            for why in done[0]["kept"]:
                verdict.reasons[why].append(label)


def judge(database: Zygote, name: str, **sweep: Any) -> Judgement:
    verdict = Judgement()
    for part in range(PARTS):
        judge_part(database, sweep | {"part": part, "parts": PARTS}, verdict)
    print(f"\n{name}: {verdict.table()}")
    path = harness.ROOT / "build" / f"opinfo_{name}.json"
    path.write_text(json.dumps(vars(verdict), indent=1) + "\n")
    return verdict


def test_opinfo_gradients(database: Zygote) -> None:
    verdict = judge(database, "first", dtypes=["float64", "complex128"], samples=2)
    assert verdict.different == []
    assert len(ops_of(verdict.classes)) >= 500
    assert verdict.share() >= 0.95, verdict.table()


@pytest.mark.long
@pytest.mark.parametrize("order", [1, 2])
def test_opinfo_gradients_of_all_types(database: Zygote, order: int) -> None:
    verdict = judge(
        database, f"order{order}", dtypes=FLOATING + COMPLEX, samples=24, order=order
    )
    assert verdict.different == []
    assert verdict.share() >= 0.95, verdict.table()
