"""torch.compile under a budget: the same graphs, and the same bits."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import harness
from ebbtide import _compile
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
# One op reads all that was saved, so no eviction lowers the peak: that is said, of that
# op or of what is outside of ops, which is where inductor's forward is.
ONE_BACKWARD = {"aot_eager": "CompiledFunctionBackward", "inductor": "tail"}
# Small blocks count as what malloc gives, which depends on where earlier ones lay:
# peaks of one program without a budget differ by up to 400 bytes.
MALLOC_ROUNDS = 1 << 10


@pytest.mark.parametrize(
    "way",
    [pytest.param(w, marks=() if w in SHORT else pytest.mark.long) for w in WAYS],
)
def test_a_compiled_model_trains_the_same(way: str, tmp_path: Path) -> None:
    command = [PYTHON, PROGRAM, *WAYS[way]]
    fixed = {"PYTHONPATH": str(harness.JOBS), "TMPDIR": str(tmp_path)}
    # A later run would count hits where the first one missed.
    fixed["TORCHINDUCTOR_AUTOGRAD_CACHE"] = "0"
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
        assert f"{ONE_BACKWARD[way]} needs it" in lines[-1], done.stderr
    else:
        assert len(lines) == 1, done.stderr
        assert managed["peak"] <= budget < seen["peak"]
    assert managed["peak"] <= seen["peak"] + MALLOC_ROUNDS


@pytest.mark.long
def test_what_inductor_writes_into_a_result_is_not_lost(tmp_path: Path) -> None:
    """Its ReLU is a kernel of its own in the result of a convolution."""
    job = Compiled(tmp_path, "inductor", "--regional", "--images")
    fixed = {"TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}
    plain, _ = job.run(**fixed)
    for tier in ("none", str(harness.ROOT / "build")):
        within = {"EBBTIDE_BUDGET": "64KiB", "EBBTIDE_OFFLOAD_DIR": tier}
        done, managed = job.run(**within, **fixed)
        assert done.stdout == plain.stdout, done.stderr
    print(f"inductor, convolutions: {managed['bytes_spilled']} spilled")
    assert managed["bytes_spilled"] > 0


class Compiled:
    """Runs of the program in a folder; `tight` is a budget that binds."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.command = [PYTHON, PROGRAM, *arguments]
        self.plain, seen = self.run(EBBTIDE_RECORD="/dev/null")
        self.tight = f"{seen['peak'] - seen['peak_activations'] // 3}B"

    def run(self, *more: str, **variables: str) -> tuple[Any, dict[str, Any]]:
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        fixed = {"PYTHONPATH": str(harness.JOBS), "TMPDIR": str(self.folder)}
        done = run(
            [*self.command, *more], EBBTIDE_REPORT=str(report), **fixed, **variables
        )
        assert done.returncode == 0, done.stderr
        return done, json.loads(report.read_text()) if report.exists() else {}


@pytest.mark.parametrize(
    "backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.long)]
)
def test_the_partitioner_is_handed_what_the_budget_leaves(
    backend: str, tmp_path: Path
) -> None:
    job = Compiled(tmp_path, backend, "--dropout", "0")
    done, managed = job.run(EBBTIDE_BUDGET=job.tight, EBBTIDE_COMPILE="1")
    said = re.findall(
        r"torch.compile: activation_memory_budget (0\.\d+): the first graph saves",
        done.stderr,
    )
    assert len(said) == 1, done.stderr
    if backend == "aot_eager":
        assert len(our_lines(done.stderr)) == 2, done.stderr
    # As if the program had set it: the same graphs, the same bits.
    by_hand, _ = job.run("--share", said[0], TORCHINDUCTOR_AUTOGRAD_CACHE="0")
    assert done.stdout == by_hand.stdout
    assert f"activation_memory_budget {said[0]}\n" in done.stdout
    _, without = job.run(EBBTIDE_BUDGET=job.tight)
    saved = [
        int(re.findall(r"saved (\d+)", job.run("--saved", *share)[0].stdout)[0])
        for share in ((), ("--share", said[0]))
    ]
    print(
        f"{backend}: share {said[0]}: saves {saved[1]}, not {saved[0]}; "
        f"peak {managed['peak']}, not {without['peak']}"
    )
    assert saved[1] < saved[0]
    # The backward part is one op that reads all of it: no eviction could do this.
    assert int(job.tight[:-1]) < without["peak"]
    if backend == "inductor":
        # A graph does not show the memory of inductor's kernels between them. Where
        # that is more than the share leaves, the run says so.
        assert managed["peak"] <= 1.01 * int(job.tight[:-1])
        is_over = managed["peak"] > int(job.tight[:-1])
        assert ("is below the floor" in our_lines(done.stderr)[-1]) == is_over
    else:
        assert managed["peak"] <= int(job.tight[:-1])


def test_random_numbers_are_not_drawn_anew_by_the_partitioner(tmp_path: Path) -> None:
    # PyTorch's share alone makes other masks of dropout in the backward part.
    job = Compiled(tmp_path, "aot_eager")
    by_hand, _ = job.run("--share", "0.5")
    assert trained(by_hand) != trained(job.plain)
    done, _ = job.run(EBBTIDE_BUDGET=job.tight, EBBTIDE_COMPILE="1")
    assert re.search(r"activation_memory_budget 0\.\d+:", done.stderr), done.stderr
    assert trained(done) == trained(job.plain)


def trained(done: Any) -> str:
    return str(done.stdout).partition("activation_memory_budget")[0]


def test_a_share_is_handed_only_where_it_is_needed_and_free(tmp_path: Path) -> None:
    job = Compiled(tmp_path, "aot_eager")
    asked = {"EBBTIDE_COMPILE": "1"}
    fits, _ = job.run(EBBTIDE_BUDGET="4GiB", **asked)
    assert fits.stdout == job.plain.stdout
    assert "torch.compile: activation_memory_budget 1: " in fits.stderr
    silent, _ = job.run(EBBTIDE_BUDGET="4GiB", EBBTIDE_LOG="off", **asked)
    assert our_lines(silent.stderr) == []
    by_hand, _ = job.run("--share", "0.7")
    own, _ = job.run("--share", "0.7", EBBTIDE_BUDGET=job.tight, **asked)
    assert own.stdout == by_hand.stdout
    assert "the program has set activation_memory_budget to 0.7" in own.stderr
    alone, _ = job.run(**asked)
    assert alone.stdout == job.plain.stdout
    assert our_lines(alone.stderr) == []


class Optimizer:
    """As far as torch.optim's are looked at."""

    def __init__(self, *groups: dict[str, Any], state: tuple[Any, ...] = ()) -> None:
        self.param_groups = groups
        self.state = dict.fromkeys(state)


class Weight:
    requires_grad = True

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


class Graph:
    """A joint graph of nodes of these sizes, some of which are its outputs."""

    def __init__(self, *sizes: int, made: int) -> None:
        target = SimpleNamespace(namespace="aten", tags=())
        inner = [SimpleNamespace(size=n, target=target, meta={}) for n in sizes]
        self.output = SimpleNamespace(all_input_nodes=inner[:made], target="", meta={})
        self.inputs = [SimpleNamespace(size=100)]
        self.nodes = [*inner, self.output]

    def find_nodes(self, op: str) -> list[SimpleNamespace]:
        assert op == "output"
        return [self.output]


def partitioner(choose: Callable[..., Any], **config: Any) -> Any:
    return SimpleNamespace(
        config=SimpleNamespace(**config),
        choose_saved_values_set=choose,
        CheckpointPolicy=SimpleNamespace(MUST_SAVE="saved"),
        _size_of=lambda node: node.size,
        torch=SimpleNamespace(
            optim=SimpleNamespace(Optimizer=Optimizer),
            Tag=SimpleNamespace(nondeterministic_seeded="seeded"),
        ),
    )


def core_with(room: int) -> Any:
    return SimpleNamespace(ebbtide_room=lambda: room)


def test_a_torch_without_the_knob_is_left_as_it_is() -> None:
    def choose() -> None: ...

    said: list[str] = []
    torch = partitioner(choose)
    _compile._attach(torch, core_with(0), said.append)
    assert said == [
        "torch.compile is left as it is: this torch has no activation_memory_budget"
    ]
    assert torch.choose_saved_values_set is choose


def test_the_share_leaves_room_for_what_is_to_come() -> None:
    asked: list[float] = []

    def choose(graph: Graph, info: Any, budget: float = 1) -> list[Any]:  # noqa: ARG001
        asked.append(budget)
        # PyTorch keeps to a share only so far.
        return [SimpleNamespace(size={1: 500, 0.3: 241}.get(budget, 215))]

    old, new, moved = Weight(1000), Weight(5), Weight(7)
    keeping = [
        Optimizer({"params": [old, new], "betas": (0.9, 0.99)}, state=(old,)),
        Optimizer({"params": [moved], "momentum": 0.9}),
    ]
    torch = partitioner(choose, activation_memory_budget=1.0)
    said: list[str] = []
    _compile._attach(torch, core_with(277), said.append)
    graph = Graph(40, 20, 30, made=2)
    graph.nodes[2].target.tags = ("seeded",)
    torch.choose_saved_values_set(graph, graph, 1)
    # 60 of the 277 are results and gradients, 80 twice the largest, 17 the state of the
    # optimizers: 120 are left of the 400 that go beyond the inputs. With 0.3 of them 21
    # more are saved.
    assert asked == [1, 0.3, 0.24, 0.24]
    assert torch.config.activation_memory_budget == 0.24
    assert graph.nodes[2].meta == {"recompute": "saved"}
    torch.choose_saved_values_set(graph, graph, 0.24)
    torch.choose_saved_values_set(graph, graph, 0.8)
    assert asked == [1, 0.3, 0.24, 0.24, 0.24, 0.8]
    assert len(said) == 1
    assert len(keeping) == 2


def test_a_failing_partitioner_is_native_again() -> None:
    asked: list[float] = []

    def choose(graph: Graph, info: Any, budget: float = 1) -> list[Any]:  # noqa: ARG001
        asked.append(budget)
        if budget != 1:
            raise KeyError("runtime")
        return [SimpleNamespace(size=500)]

    said: list[str] = []
    torch = partitioner(
        choose, activation_memory_budget=1.0, enable_autograd_cache=True
    )
    _compile._attach(torch, core_with(100), said.append)
    assert not torch.config.enable_autograd_cache
    graph = Graph(40, made=1)
    assert torch.choose_saved_values_set(graph, graph, 1)[0].size == 500
    # Nothing is left: PyTorch's 0 would draw random numbers anew.
    assert asked == [1, 0.01, 1]
    assert said == ["torch.compile is left as it is: KeyError: 'runtime'"]
    torch.choose_saved_values_set(graph, graph, 1)
    assert asked == [1, 0.01, 1, 1]
    assert torch.config.activation_memory_budget == 1
    # Graphs cut with a share may still be on their way there.
    assert not torch.config.enable_autograd_cache


def test_graphs_of_ours_are_in_no_cache_of_others() -> None:
    class Forced(SimpleNamespace):
        """As where TORCHINDUCTOR_AUTOGRAD_CACHE is set."""

        def __setattr__(self, name: str, value: Any) -> None:
            assert name == "enable_autograd_cache"

    def choose() -> None: ...

    said: list[str] = []
    torch = partitioner(choose)
    torch.config = Forced(activation_memory_budget=1.0, enable_autograd_cache=True)
    _compile._attach(torch, core_with(0), said.append)
    assert said[0].startswith("torch.compile is left as it is: TORCHINDUCTOR_")
    assert torch.choose_saved_values_set is choose
