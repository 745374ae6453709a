"""The package as it is built, installed and removed."""

import re
import subprocess
import tarfile
from pathlib import Path

import pytest

import harness
from run import clean_environment, our_lines, run
from test_docs import files_of


def quietly(*command: str | Path, cwd: Path = harness.ROOT) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=clean_environment(),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout + done.stderr


def everything(folder: Path) -> set[Path]:
    found = (path.relative_to(folder) for path in folder.rglob("*"))
    return {path for path in found if "__pycache__" not in path.parts}


@pytest.mark.parametrize(
    "registry", [False, pytest.param(True, marks=pytest.mark.long)]
)
def test_a_script_trains_where_the_wheel_was_installed(
    registry: bool, tmp_path: Path
) -> None:
    """With torch from the registry, or from .venv; and nothing stays behind."""
    (wheel,) = (harness.ROOT / "build" / "wheel").glob("*.whl")
    home = tmp_path / "home"
    quietly(harness.PYTHON, "-m", "venv", home)
    pip = home / "bin" / "pip"
    if registry:
        wanted = (harness.ROOT / "requirements.txt").read_text().split()
        quietly(
            pip, "install", "-q", next(it for it in wanted if it.startswith("torch=="))
        )
    else:
        theirs = next(harness.ROOT.glob(".venv/lib/python3*/site-packages"))
        site = next(home.glob("lib/python3*/site-packages"))
        for entry in theirs.iterdir():
            if (
                not entry.name.startswith("ebbtide")
                and not (site / entry.name).exists()
            ):
                (site / entry.name).symlink_to(entry)
    before = everything(home)
    quietly(pip, "install", "-q", *([] if registry else ["--no-deps"]), wheel)
    quietly(home / "bin" / "ebbtide", "--help")

    page = (harness.ROOT / "docs" / "guide" / "first-ten-minutes.md").read_text()
    script = tmp_path / "train.py"
    script.write_text(files_of(page)["train.py"])
    plain = run([home / "bin" / "python", script])
    assert (plain.returncode, our_lines(plain.stderr)) == (0, [])
    managed = run([home / "bin" / "python", script], EBBTIDE_BUDGET="12MiB")
    assert (managed.returncode, managed.stdout) == (0, plain.stdout), managed.stderr
    (closing,) = our_lines(managed.stderr)
    assert re.match(r"ebbtide: peak 1[01]\.\d\d MiB of 12\.00 MiB, 8 steps", closing)

    quietly(pip, "uninstall", "-q", "-y", "ebbtide")
    assert everything(home) - before == set()


def test_the_source_archive_holds_what_a_build_needs(tmp_path: Path) -> None:
    script = "import sys; from scikit_build_core.build import build_sdist as b; " + (
        "b(sys.argv[1])"
    )
    quietly(harness.PYTHON, "-c", script, tmp_path)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    tracked = set(quietly("git", "ls-files", "hooks", "planner", "python").split())
    assert tracked <= names
    assert {"CMakeLists.txt", "pyproject.toml", "LICENSE", "README.md"} <= names
    assert not any(name.startswith(("build/", ".venv/")) for name in names)
