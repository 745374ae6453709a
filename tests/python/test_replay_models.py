"""The models of `ebbtide replay` beside PyTorch's own allocator.

That runs on the simulated device: what it reserves is its own doing.
"""

import csv
import json
from pathlib import Path

import pytest

import harness
import simulator
from run import PYTHON, run

TRACES = harness.ROOT / "tests" / "data" / "traces"
PROGRAM = Path(__file__).parent / "programs" / "replay_trace.py"
# Quarters that sizes are multiplied by: the device has 4 GiB, and what is hard in
# units of its authors is made as large as tensors are.
SCALES = {
    "somas_resnet50": 4,
    "somas_pangu_2.6B": 1,
    "minimalloc_A.1048576": 4096,
    "minimalloc_H.1048576": 4096,
    "minimalloc_K.1048576": 1200,
}
SETTINGS = {"native": "", "expandable": "expandable_segments:True"}


def scaled(name: str, scale: int, folder: Path) -> Path:
    with (TRACES / f"{name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    lines = ["id,lower,upper,size"]
    for row in rows:
        size = max(1, int(row["size"]) * scale // 4)
        lines.append(f"{row['id']},{row['lower']},{row['upper']},{size}")
    path = folder / "trace.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("policy", SETTINGS)
@pytest.mark.parametrize("name", SCALES)
def test_a_model_reserves_what_pytorch_does(
    name: str, policy: str, tmp_path: Path
) -> None:
    simulator.check_built()
    trace = scaled(name, SCALES[name], tmp_path)
    theirs = run(
        [PYTHON, PROGRAM, trace, "3"],
        **simulator.ENVIRONMENT,
        PYTORCH_ALLOC_CONF=SETTINGS[policy],
    )
    assert theirs.returncode == 0, theirs.stderr
    options = ["--policy", policy, "--steps", "3", "--json"]
    ours = run([harness.EBBTIDE, "replay", trace, *options])
    assert ours.returncode == 0, ours.stderr
    reserved = [step["height"] for step in json.loads(ours.stdout)["steps"]]
    assert reserved == json.loads(theirs.stdout)
