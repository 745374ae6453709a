"""torch.compile under a budget: the same graphs, and the same bits."""

import json
from pathlib import Path

import pytest

import harness
from run import PYTHON, our_lines, run

PROGRAM = str(harness.ROOT / "tests" / "python" / "programs" / "compiled.py")

WAYS = {
    "aot_eager, each block": ("aot_eager", "--regional"),
    "eager": ("eager",),
    "aot_eager": ("aot_eager",),
    "inductor": ("inductor",),
    "inductor, each block": ("inductor", "--regional"),
}
SHORT = ("aot_eager, each block",)
# One op reads all that was saved, so no eviction lowers the peak: that is said.
ONE_BACKWARD = ("aot_eager", "inductor")


@pytest.mark.parametrize(
    "way",
    [pytest.param(w, marks=() if w in SHORT else pytest.mark.long) for w in WAYS],
)
def test_a_compiled_model_trains_the_same(way: str, tmp_path: Path) -> None:
    command = [PYTHON, PROGRAM, *WAYS[way]]
    fixed = {"PYTHONPATH": str(harness.JOBS), "TMPDIR": str(tmp_path)}
    plain = run(command, **fixed)
    assert plain.returncode == 0, plain.stderr
    assert "unique_graphs" in plain.stdout
    report = tmp_path / "report.json"
    written = {"EBBTIDE_REPORT": str(report)}
    counted = run(command, EBBTIDE_RECORD="/dev/null", **fixed, **written)
    # The control: two runs without a budget are equal.
    assert counted.stdout == plain.stdout
    seen = json.loads(report.read_text())
    budget = seen["peak"] - seen["peak_activations"] // 2
    done = run(command, EBBTIDE_BUDGET=f"{budget}B", **fixed, **written)
    assert done.returncode == 0, done.stderr
    assert done.stdout == plain.stdout, done.stderr
    managed = json.loads(report.read_text())
    dropped = managed["bytes_by_tier"]["dropped"]
    print(f"{way}: {dropped} bytes recomputed, {managed['bytes_spilled']} spilled")
    assert dropped + managed["bytes_spilled"] > 0
    lines = our_lines(done.stderr)
    if way in ONE_BACKWARD:
        assert "OVER BUDGET" in lines[-1], done.stderr
        assert "CompiledFunctionBackward needs it" in lines[-1], done.stderr
    else:
        assert len(lines) == 1, done.stderr
        assert managed["peak"] <= budget
    assert managed["peak"] <= seen["peak"]
