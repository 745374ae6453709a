"""The names of parameters in modules are in the trace, without a word in the script."""

import json
from pathlib import Path

import pytest

import harness
from run import PYTHON, run
from trace_file import Trace

# The models live in a function; a leaf belongs to none of them.
TRAINING = """
import sys, threading, time
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.fc = nn.LayerNorm(128), nn.Linear(128, 256)
        self.out = nn.Linear(256, 128)
    def forward(self, x):
        return x + self.out(torch.nn.functional.gelu(self.fc(self.norm(x))))
    def named_parameters(self, *_, **__):
        raise AssertionError("the script's own")

def train(several):
    torch.manual_seed(1)
    blocks = [Block() for _ in range(3)]
    model = nn.Sequential(*blocks)
    head = nn.Linear(128, 128) if several else nn.Identity()
    free = torch.rand(256, 128, requires_grad=True)
    layers = [getattr(b, name) for b in blocks for name in ("norm", "fc", "out")]
    parts = [p for layer in [*layers, head] for p in layer.parameters()] + [free]
    optimizer = torch.optim.SGD(parts, lr=0.1)
    for step in range(8):
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        loss = head(model(free.tanh())).square().mean()
        loss.backward()
        optimizer.step()
        if step < 2:
            time.sleep(0.5)  # names come while the script goes on
    print(loss.item(), [thread.name for thread in threading.enumerate()])

train(sys.argv[1] == "several")
"""
LARGE = ("fc.weight", "out.weight")  # large parameters of a block: 64 KiB and more


def recorded(folder: Path, which: str, *options: str) -> Path:
    trace = folder / "run.ebbtide"
    program = (PYTHON, "-c", TRAINING, which)
    plain = run(program)
    options = (f"--record={trace}", *options)
    done = run([harness.EBBTIDE, "run", *options, "--", *program])
    assert done.returncode == plain.returncode == 0, done.stderr
    assert done.stdout == plain.stdout
    assert "no names" not in done.stderr
    return trace


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(Path(tmp_path_factory.mktemp("layers")), "one")


def of_kinds(trace: Path, *kinds: str) -> set[str]:
    return {name for kind, name in Trace(trace).layers if kind in kinds}


def in_blocks(*names: str) -> set[str]:
    return {f"{block}.{name}" for block in range(3) for name in names}


@pytest.mark.parametrize("kind", ["parameters", "gradients"])
def test_parameters_and_gradients_have_their_names(trace: Path, kind: str) -> None:
    assert of_kinds(trace, kind) == in_blocks(*LARGE)


def test_saved_tensors_are_of_the_layer_that_made_them_or_the_last(
    trace: Path,
) -> None:
    """The first addmm reads what norm has made, gelu what fc has; the next norm, and
    behind the last block the square, read the sum behind out.
    """
    assert of_kinds(trace, "saved") == in_blocks("norm", "fc", "out")


def test_modules_that_have_no_common_parent_are_told_apart(tmp_path: Path) -> None:
    trace = recorded(tmp_path, "several")
    names = of_kinds(trace, "parameters", "gradients")
    assert names == {f"Sequential.{n}" for n in in_blocks(*LARGE)} | {"Linear.weight"}


def test_what_was_brought_back_is_of_its_layer(tmp_path: Path) -> None:
    trace = recorded(tmp_path, "one", "--budget=3MiB")
    again = of_kinds(trace, "scratch")
    assert again
    assert again <= in_blocks("norm", "fc", "out")


def test_explain_tells_the_layer(trace: Path) -> None:
    done = run([harness.EBBTIDE, "explain", trace, "--json"])
    assert done.returncode == 0, done.stderr
    largest = json.loads(done.stdout)["peak"]["largest"]
    assert all(holder["name"] or holder["layer"] for holder in largest)
    assert any(holder["layer"] == "1.fc" for holder in largest)
    text = run([harness.EBBTIDE, "explain", trace]).stdout
    assert ", 1.fc\n" in text
