"""The package as it is built, installed and removed."""

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import harness
from run import clean_environment

DEV = harness.ROOT / "dev"


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


@pytest.mark.long
def test_the_wheel_names_its_platform_and_leaves_nothing(tmp_path: Path) -> None:
    said = quietly(DEV, "wheel")
    (wheel,) = (harness.ROOT / "build" / "wheel").glob("*.whl")
    assert wheel.name.startswith("ebbtide-0.1.0-py3-none-manylinux_2_")
    print(said.splitlines()[-1])
    home = tmp_path / "home"
    quietly(sys.executable, "-m", "venv", home)
    before = everything(home)
    quietly(home / "bin" / "pip", "install", "-q", "--no-deps", wheel)
    quietly(home / "bin" / "ebbtide", "--help")
    assert any(path.name == "libebbtide_cuda.so" for path in everything(home))
    quietly(home / "bin" / "pip", "uninstall", "-q", "-y", "ebbtide")
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
