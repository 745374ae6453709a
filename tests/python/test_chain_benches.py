"""Benches on chains: what `./dev bench pofo` measures and complains of."""

import dataclasses

import pytest

import model_chains
import pofo_bench
import weights_bench
from pofo_bench import Case, Row

GOOD = Row("resnet-50", 18, [Case(0.3, 55, 10.0, 3.5, 0.1)], 39.1, [31.7, 30.9, 30.9])


@pytest.mark.parametrize("model", model_chains.MODELS)
def test_chains_of_models_are_chains(model: str) -> None:
    chain = model_chains.with_lanes(model_chains.MODELS[model](), 0.3)
    plan = pofo_bench.plan(chain, 1 << 60, "keep")
    assert plan["time"] == pytest.approx(sum(chain["fw"]) + sum(chain["bw"]))


@pytest.mark.parametrize("model", ["gpt-24", "resnet-50"])
def test_the_graph_of_a_chain_is_the_same_step(model: str) -> None:
    chain = pofo_bench.in_slots(model_chains.MODELS[model]())
    kept = pofo_bench.plan(chain, 1 << 40, "keep")
    graph = pofo_bench.plan(model_chains.as_profile(chain), 1 << 40, "keep")
    assert (graph["time"], graph["peak"]) == (kept["time"], kept["peak"])


def test_a_budget_of_one_less_takes_longer() -> None:
    chain = pofo_bench.in_slots(model_chains.MODELS["resnet-50"]())
    moving = model_chains.with_lanes(chain, 0.3)
    peak = pofo_bench.plan(chain, 1 << 60, "keep")["peak"]
    assert pofo_bench.SLOTS <= peak <= pofo_bench.SLOTS + 30
    least = pofo_bench.least_share(moving, "pofo", peak) / 100 * peak
    base = sum(chain["fw"]) + sum(chain["bw"])
    most = base * (1 + pofo_bench.OVERHEAD)
    assert pofo_bench.plan(moving, round(least), "pofo")["time"] <= most
    below = pofo_bench.plan(moving, round(least) - 1, "pofo")
    assert not below["feasible"] or below["time"] > most


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({}, None),
        (
            {"cases": [Case(0.3, 55, 10.0, 4.0, 0.1)]},
            "resnet-50: 60.0 % removed, 63 asked",
        ),
        (
            {"least": [31.8, 30.9, 30.9]},
            "resnet-50 at 0.3: from 31.80 %, 31.7 asked",
        ),
        ({"cases": [Case(0.3, 55, 10.0, 3.5, 1.5)]}, "resnet-50: a plan took 1.50 s"),
    ],
)
def test_what_does_not_hold_is_complained_of(
    change: dict[str, object], complaint: str | None
) -> None:
    row = dataclasses.replace(GOOD, **change)  # type: ignore[arg-type]
    expected = [] if complaint is None else [complaint]
    assert list(row.complaints()) == expected


def test_the_table_has_a_line_for_each_model() -> None:
    text = pofo_bench.show([GOOD])
    assert "| resnet-50 |" in text


@pytest.mark.parametrize(
    ("model", "weights"),
    [
        ("resnet-50", 25_557_032),
        ("resnet-101", 44_549_160),
        ("resnet-152", 60_192_808),
    ],
)
def test_resnets_have_as_many_weights_as_their_authors_count(
    model: str, weights: int
) -> None:
    chain = model_chains.WEIGHTED[model]()
    assert sum(weight["bytes"] for weight in chain["weights"]) == 4 * weights


@pytest.mark.parametrize("model", model_chains.WEIGHTED)
def test_chains_with_weights_are_chains(model: str) -> None:
    chain = model_chains.trained(model_chains.WEIGHTED[model](), 2, 0.5)
    plan = pofo_bench.plan(chain, 1 << 60, "weights", 0)
    assert plan["time"] == pytest.approx(sum(chain["fw"]) + sum(chain["bw"]))
    assert plan["peak"] > 4 * sum(weight["bytes"] for weight in chain["weights"]) * 0.7


def test_a_row_of_weights_complains_of_no_plan_and_of_a_joint_plan_that_is_slower() -> (
    None
):
    row = weights_bench.Row(
        "gpt-24", "sgd", 5, None, 12.0, 8.0, 7.5, 0.5, 0.1, joint=3.0
    )
    assert list(row.complaints()) == []
    slower = dataclasses.replace(row, joint=8.5)
    assert list(slower.complaints()) == ["gpt-24, sgd at 5 %: joint 8.50, weights 8.00"]
    none = dataclasses.replace(row, ours=None)
    assert list(none.complaints()) == ["gpt-24, sgd at 5 %: no plan"]
    assert weights_bench.mean_gap([row, dataclasses.replace(row, gap=1.5)]) == 1.0
    assert "| gpt-24 |       sgd |" in weights_bench.show([row])
