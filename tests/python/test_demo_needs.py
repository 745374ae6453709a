"""`./dev demo` builds and installs what it needs, and not what tests add."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import harness
from run import PYTHON, run

BUILD = harness.ROOT / "requirements.txt"
TESTS = harness.ROOT / "requirements-tests.txt"


def packages(file: Path) -> dict[str, str]:
    return dict(re.findall(r"^([\w-]+)==(\S+)$", file.read_text(), re.M))


def test_each_package_has_its_version_in_one_place() -> None:
    lines = [
        line
        for file in (BUILD, TESTS)
        for line in file.read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert lines.count("-r requirements.txt") == 1
    assert len(packages(BUILD)) + len(packages(TESTS)) == len(lines) - 1
    assert not packages(BUILD).keys() & packages(TESTS).keys()


def test_the_demo_imports_nothing_that_tests_add() -> None:
    script = "import sys; sys.path[:0] = ['bench', 'bench/jobs']; import demo, gpt"
    done = subprocess.run(
        [PYTHON, "-c", f"{script}; print(*sys.modules)"],
        cwd=harness.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "torch" in loaded
    assert not loaded & {name.replace("-", "_") for name in packages(TESTS)}


def test_what_is_installed_builds_without_test_libraries(tmp_path: Path) -> None:
    """Configured as ./dev does it, where Debian's packages for tests are missing."""
    missing = ("GTest", "benchmark")
    options = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in missing]
    options += ["-DCMAKE_BUILD_TYPE=Release", "-DEBBTIDE_TESTS=OFF"]
    done = run(
        ["cmake", "-S", harness.ROOT, "-B", tmp_path, "-G", "Ninja", *options],
        VIRTUAL_ENV=str(harness.PYTHON.parent.parent),
    )
    assert done.returncode == 0, done.stderr
    targets = ["ebbtide_libraries", "ebbtide_cli"]
    counts = []
    for folder, wanted in ((tmp_path, targets), (BUILD.parent / "build/release", [])):
        done = run(["ninja", "-C", folder, "-t", "commands", *wanted])
        assert done.returncode == 0, done.stderr
        counts.append(len(re.findall(r" -o \S+\.o -c ", done.stdout)))
    assert 100 < counts[0] < 0.7 * counts[1]  # number of those with tests and benches
    dev = (harness.ROOT / "dev").read_text()
    assert "configure release -D EBBTIDE_TESTS=OFF" in dev
    assert f"compile {' '.join(targets)}" in dev


@pytest.mark.parametrize("word", ["demo", "test"])
def test_a_folder_that_cannot_be_preloaded_from_is_named_at_once(
    word: str, tmp_path: Path
) -> None:
    folder = tmp_path / "with space"
    folder.mkdir()
    shutil.copy(harness.ROOT / "dev", folder)
    done = run([folder / "dev", word])
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"dev: {folder}: LD_PRELOAD names no path with a space or a colon;"
        " move the checkout\n"
    )
    assert [each.name for each in folder.iterdir()] == ["dev"]
