"""The documents: their commands run, their links lead somewhere, every message of the
sources is explained."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness
from run import clean_environment

DOCS = harness.ROOT / "docs"
GUIDE = DOCS / "guide"
PAGES = sorted(DOCS.rglob("*.md"))
SHORT = ("first-ten-minutes.md", "cpp-jobs.md")

# An indented command, or a fenced block with the name of a file or a reason why it
# is not run.
PROGRAM = r"(?:ebbtide|python|pip|cmp|torchrun|sbatch|\./\w+)"
COMMAND = re.compile(rf"^    ((?:\w+=(?:\$\([^)]*\)|\S+) )*{PROGRAM} .*)$")
FENCE = re.compile(r"^```(\w*)(?: file=(\S+))?\n(.*?)^```$", re.M | re.S)
NOT_RUN = re.compile(r"<!-- not run: (.+?) -->\s*$", re.S)

# Slurm with two nodes, as far as the pages ask for it, on this machine.
SLURM = {
    "sbatch": 'export SLURM_TMPDIR="$PWD"; exec bash "$1"',
    "srun": '"$@" & "$@"; first=$?; wait $! && exit $first',
    "scontrol": "echo localhost; echo localhost",
}

# Functions that print, or raise, messages for users.
CALLS = (
    *("Say", "SayHere", "say_", "TurnOff", "StepAside", "Refuse", "fprintf"),
    *("TORCH_CHECK", "TORCH_CHECK_WITH", "PrintError", "_say", "_say_off"),
    *("say", "_leave"),
)
SPEAKERS = (
    *("hooks/*.cc", "hooks/*.c", "allocator/torch_*.cc"),
    *("python/ebbtide/*.py", "cli/launch.cc"),
)
# Parts of a shown line that differ between runs and machines.
VARIES = re.compile(r"\.\.\.|0x\S+|[0-9a-f]{64}|\d[\d.]*|[KMG]iB")
# PyTorch's own words, which we repeat.
THEIRS = ("one of the variables needed for gradient computation",)
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')


def files_of(text: str) -> dict[str, str]:
    return {name: body for _, name, body in FENCE.findall(text) if name}


def commands_of(text: str) -> list[str]:
    """In order; those below a comment that says why they are not run are left out."""
    found, skipped = [], False
    for line in FENCE.sub("", text).splitlines():
        if line.startswith("<!--"):
            skipped = NOT_RUN.match(line) is not None
        elif line and not line.startswith("    "):
            skipped = False
        match = COMMAND.match(line)
        if match and not skipped:
            found.append(match[1])
    return found


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=() if page.name in SHORT else pytest.mark.long)
        for page in PAGES
        if commands_of(page.read_text())
    ],
    ids=lambda page: str(page.name),
)
def test_commands_run(page: Path, tmp_path: Path, mlp: Path) -> None:
    first = (GUIDE / SHORT[0]).read_text()
    for name, body in {**files_of(first), **files_of(page.read_text())}.items():
        (tmp_path / name).write_text(body)
    shutil.copy(mlp, tmp_path / "train_cpp")
    for name, body in SLURM.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    environment = {
        **clean_environment(),
        "PATH": f"{harness.PYTHON.parent}:{tmp_path}:{os.environ['PATH']}",
        "VIRTUAL_ENV": str(harness.PYTHON.parent.parent),
        "OMP_NUM_THREADS": "1",
    }
    for command in commands_of(page.read_text()):
        done = subprocess.run(
            ["/bin/bash", "-c", command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        assert "ebbtide: off" not in done.stderr, (command, done.stderr)


def test_the_readme_shows_what_its_commands_print() -> None:
    """But for "...", times, and what depends on the clock or the processor."""
    text = (harness.ROOT / "README.md").read_text()
    shown = re.findall(r"^    \$ (.*)\n((?:    [^$\n].*\n)+)", text, re.M)
    assert len(shown) == 2
    path = f"{harness.PYTHON.parent}:{os.environ['PATH']}"
    hashes = set()
    for command, output in shown:
        done = subprocess.run(
            ["/bin/bash", "-c", f"{command} 2>&1"],
            cwd=harness.ROOT,
            env={**clean_environment(), "PATH": path},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        hashes |= set(re.findall("^hash ([0-9a-f]{64})$", done.stdout, re.M))
        lines = done.stdout.splitlines()
        for line in output.splitlines():
            form = re.escape(VARIES.sub("§", line.strip())).replace("§", r"\S+")
            found = [each for each in lines if re.match(form, each)]
            assert found or line.strip() == "...", (line, done.stdout)
    assert len(hashes) == 1


def test_what_the_first_minutes_promise(tmp_path: Path) -> None:
    """The budget of that page binds, and is kept."""
    text = (GUIDE / SHORT[0]).read_text()
    shown = re.search(r"ebbtide: peak \S+ MiB of 12.00 MiB, 8 steps; recomputed", text)
    assert shown is not None
    (tmp_path / "train.py").write_text(files_of(text)["train.py"])
    done = subprocess.run(
        [harness.PYTHON, "train.py"],
        cwd=tmp_path,
        env={**clean_environment(), "EBBTIDE_BUDGET": "12MiB"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.match(
        r"ebbtide: peak \S+ MiB of 12.00 MiB, 8 steps; recomputed", done.stderr
    ), done.stderr
    assert "OVER BUDGET" not in done.stderr


def test_blocks_that_are_not_run_say_why() -> None:
    """A shell or YAML block either makes a file for a command, or has a reason."""
    unexplained = []
    for page in PAGES:
        text = page.read_text()
        for block in FENCE.finditer(text):
            kind, name, body = block.groups()
            reason = NOT_RUN.search(text[: block.start()].rstrip() + "\n")
            if kind in ("sh", "yaml", "python") and not name and reason is None:
                unexplained.append(f"{page.name}: {body.splitlines()[0]}")
    assert unexplained == []


def test_links_lead_somewhere() -> None:
    dead = []
    others = [*harness.ROOT.glob("*.md"), *harness.RESULTS.glob("*.md")]
    for page in [*PAGES, *sorted(others)]:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            if target.startswith("https://github.com/"):
                pattern = r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+"
                assert re.fullmatch(pattern, target), target
            elif not (page.parent / target.partition("#")[0]).exists():
                dead.append(f"{page.name}: {target}")
    assert dead == []


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "README.md").read_text()
    missing = [p.name for p in PAGES if p.name != "README.md" and p.name not in index]
    assert missing == []


def arguments_of_calls(text: str) -> Iterator[str]:
    """The text between the parentheses of a call to one of CALLS."""
    for call in re.finditer(rf"\b(?:{'|'.join(CALLS)})\(", text):
        depth, end = 1, call.end()
        while depth:
            literal = LITERAL.match(text, end)
            if literal:
                end = literal.end()
                continue
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        yield text[call.end() : end - 1]


def messages() -> dict[str, str]:
    """The longest piece of text of each message, and where it is."""
    found = {}
    for pattern in SPEAKERS:
        for source in sorted(harness.ROOT.glob(pattern)):
            for arguments in arguments_of_calls(source.read_text()):
                whole = re.sub(r'"\s*\n\s*"', "", arguments)
                pieces = [
                    re.sub(r"^(?:ebbtide: )?(?:off: )?", "", piece)
                    for literal in LITERAL.findall(whole)
                    for piece in re.split(r"%[sd]|\\n|\{[^}]*\}", literal)
                ]
                longest = max((p.strip(" :;,()") for p in pieces), key=len, default="")
                if len(longest) > 3 and not longest.startswith(THEIRS):
                    found[longest] = source.name
    return found


def test_every_message_is_explained() -> None:
    explained = " ".join((GUIDE / "troubleshooting.md").read_text().split())
    known = messages()
    assert len(known) > 30
    missing = {text: file for text, file in known.items() if text not in explained}
    assert missing == {}
