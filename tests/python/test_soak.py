"""Memory, files and threads stay what they are however long a job trains."""

import pytest

from same import SPILL, Outcome, Zygote


def flat(zygote: Zygote, steps: int, folder: str) -> Outcome:
    case = f"soak.steps_{steps}"
    counted = zygote.same("soak.steps_20", {"EBBTIDE_RECORD": "/dev/null"})
    persistent = counted.report["persistent"]
    budget = persistent + int(counted.report["peak_activations"] * 0.7)
    # A thread that plans is none that stays.
    env = {
        "EBBTIDE_BUDGET": f"{budget}B",
        "EBBTIDE_OFFLOAD_DIR": folder,
        "EBBTIDE_TEST_WAIT": "1",
    }
    done = zygote.same(case, env, seconds=600)
    warm, end = done.work["warm"], done.work["end"]
    grown = abs(end["resident"] - warm["resident"])
    assert grown <= warm["resident"] // 100, (warm, end)
    assert (end["files"], end["threads"]) == (warm["files"], warm["threads"])
    assert done.report["over_budget_steps"] == 0, done.lines
    assert done.report["held"]["saved_tensors"] == 0
    assert done.report["held"]["disk"] == 0
    assert done.replayed + done.spilled > 0
    return done


@pytest.mark.parametrize("folder", ["none", str(SPILL)])
def test_a_short_soak(zygote: Zygote, folder: str) -> None:
    flat(zygote, 150, folder)


@pytest.mark.long
@pytest.mark.parametrize("folder", ["none", str(SPILL)])
def test_a_long_soak(zygote: Zygote, folder: str) -> None:
    flat(zygote, 2000, folder)
