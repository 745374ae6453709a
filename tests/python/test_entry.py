"""The entry point: silent unless asked for, and never in the program's way."""

import json
import os
import re
from pathlib import Path

import pytest

import ebbtide
import harness
from ebbtide import _entry
from run import PYTHON, our_lines, run

IMPORT = [PYTHON, "-c", "import torch; print('imported', torch.ones(2).sum().item())"]
LOADED = [
    PYTHON,
    "-c",
    "import re, torch;"
    "maps = open('/proc/self/maps').read();"
    "print(sorted(set(re.findall(r'libebbtide\\w*', maps))))",
]


def import_with(
    package: Path, command: list[str] = IMPORT, **variables: str
) -> tuple[str, list[str]]:
    """Imports torch with the entry point of this copy of the package.

    `-S` hides the installed package, whose entry point would start too.
    """
    site = harness.ROOT / ".venv" / "lib"
    packages = next(site.glob("python3*/site-packages"))
    hidden = package.parent / "site"
    hidden.mkdir(exist_ok=True)
    for entry in packages.iterdir():
        if not entry.name.startswith("ebbtide"):
            (hidden / entry.name).symlink_to(entry)
    path = os.pathsep.join([str(package / "boot"), str(hidden)])
    done = run([PYTHON, "-S", *command[1:]], PYTHONPATH=path, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr.splitlines()


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"EBBTIDE_BUDGET": ""},
        {"EBBTIDE_BUDGET": "1GiB", "EBBTIDE_DISABLE": "1"},
        {"EBBTIDE_BUDGET": "1GiB", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        {"EBBTIDE_OFFLOAD_DIR": "/nowhere", "EBBTIDE_LOG": "debug"},
    ],
)
def test_nothing_is_loaded_unless_asked(core: Path, variables: dict[str, str]) -> None:
    assert core.exists()
    done = run(LOADED, **variables)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


def test_a_budget_loads_the_core(core: Path) -> None:
    assert core.exists()
    done = run(LOADED, EBBTIDE_BUDGET="8GiB")
    expected = (0, "['libebbtide_cuda']\n")
    assert (done.returncode, done.stdout) == expected, done.stderr


def test_zero_does_not_disable() -> None:
    assert _entry.wanted({"EBBTIDE_BUDGET": "1GiB", "EBBTIDE_DISABLE": "0"})


def test_a_missing_core_is_one_line(package_copy: Path) -> None:
    for core in ("libebbtide.so", "libebbtide_cuda.so"):
        (package_copy / "lib" / core).unlink()
    output, errors = import_with(package_copy, EBBTIDE_BUDGET="1GiB")
    assert output == "imported 2.0\n"
    assert len(errors) == 1
    assert re.match(r"ebbtide: off: .*libebbtide_cuda\.so", errors[0])


def test_a_core_without_cuda_is_used_and_said(package_copy: Path) -> None:
    (package_copy / "lib" / "libebbtide_cuda.so").unlink()
    output, errors = import_with(package_copy, EBBTIDE_BUDGET="1GiB")
    assert output == "imported 2.0\n"
    said, closing = errors
    assert said == (
        "ebbtide: built for a torch without CUDA: CUDA memory is left alone"
    )
    assert closing.startswith("ebbtide: nothing done")


def test_a_process_that_was_over_before_makes_no_launcher(core: Path) -> None:
    """Torch 2.15 asks ldconfig while it is imported: nothing was said at the end."""
    assert core.exists()
    program = "import subprocess; subprocess.run(['true']); import torch"
    done = run([PYTHON, "-c", program], EBBTIDE_BUDGET="8GiB")
    assert done.returncode == 0
    (closing,) = our_lines(done.stderr)
    assert closing.startswith("ebbtide: nothing done")


def test_a_core_that_cannot_be_opened_is_one_line(package_copy: Path) -> None:
    (package_copy / "lib" / "libebbtide_cuda.so").write_bytes(b"no library")
    output, errors = import_with(package_copy, EBBTIDE_BUDGET="1GiB")
    assert output == "imported 2.0\n"
    assert len(errors) == 1
    assert errors[0].startswith("ebbtide: off: ")


def test_a_core_whose_help_fails_steps_aside(
    package_copy: Path, tmp_path: Path
) -> None:
    """It was said to be off, and managed all the same."""
    (package_copy / "_layers.py").unlink()
    report = tmp_path / "report.json"
    output, errors = import_with(
        package_copy,
        EBBTIDE_BUDGET="1GiB",
        EBBTIDE_RECORD=str(tmp_path / "run.trace"),
        EBBTIDE_REPORT=str(report),
    )
    assert output == "imported 2.0\n"
    said = [line for line in errors if "off:" in line]
    assert len(said) == 1, errors
    assert re.match(r"ebbtide: off: FileNotFoundError: .*_layers\.py", said[0])
    assert json.loads(report.read_text())["state"] == "off"


def this_is() -> str:
    """With what its build is called, which metadata do not have."""
    done = run([PYTHON, "-c", "import torch; print(torch.__version__)"])
    return f"this is torch {done.stdout.strip()}"


def test_a_core_for_another_torch_is_not_opened(package_copy: Path) -> None:
    (package_copy / "lib" / "torch_version").write_text("2.99.0\n")
    output, errors = import_with(package_copy, EBBTIDE_BUDGET="1GiB")
    assert output == "imported 2.0\n"
    assert errors == [f"ebbtide: off: built for torch 2.99, {this_is()}"]


def for_another_torch_first(package: Path, also: str) -> Path:
    """A wheel of two versions: the folder of the second, which has our libraries."""
    folder = package / "lib" / f"torch-{also}"
    folder.mkdir()
    for name in ("libebbtide.so", "libebbtide_cuda.so", "torch_version"):
        (package / "lib" / name).rename(folder / name)
    (package / "lib" / "libebbtide_cuda.so").write_bytes(b"no library")
    (package / "lib" / "torch_version").write_text("2.99.0\n")
    return folder


def test_the_core_for_this_torch_is_opened(package_copy: Path) -> None:
    here = (package_copy / "lib" / "torch_version").read_text()
    folder = for_another_torch_first(package_copy, here[: here.index(".", 2)])
    where = [*IMPORT[:2], IMPORT[2] + "; print(open('/proc/self/maps').read())"]
    output, errors = import_with(package_copy, where, EBBTIDE_BUDGET="8GiB")
    assert f"{folder}/libebbtide_cuda.so\n" in output
    assert not any("off:" in line for line in errors), errors


def test_the_versions_that_there_are_are_named(package_copy: Path) -> None:
    folder = for_another_torch_first(package_copy, "2.98")
    (folder / "torch_version").write_text("2.98.1\n")
    output, errors = import_with(package_copy, EBBTIDE_BUDGET="1GiB")
    assert output == "imported 2.0\n"
    assert errors == [f"ebbtide: off: built for torch 2.99, 2.98, {this_is()}"]


def test_a_damaged_package_is_one_line(package_copy: Path) -> None:
    (package_copy / "_entry.py").write_text("this is not Python\n")
    output, errors = import_with(package_copy, EBBTIDE_BUDGET="1GiB")
    assert output == "imported 2.0\n"
    assert len(our_lines("\n".join(errors))) == 1


def test_importing_the_package_imports_no_torch() -> None:
    done = run([PYTHON, "-c", "import ebbtide, sys; print('torch' in sys.modules)"])
    assert done.stdout == "False\n"


def test_version_is_the_projects() -> None:
    project = (harness.ROOT / "pyproject.toml").read_text()
    assert f'version = "{ebbtide.__version__}"' in project


def test_public_names_are_the_agreed_ones() -> None:
    golden = harness.ROOT / "tests" / "golden" / "python_names.txt"
    assert sorted(ebbtide.__all__) == golden.read_text().split()
    assert len(ebbtide.__all__) <= 8


def test_report_is_empty_where_nothing_runs() -> None:
    assert ebbtide.report() == {}


def test_report_of_a_running_core_names_the_budget(core: Path) -> None:
    assert core.exists()
    script = "import torch, ebbtide; print(ebbtide.report()['budget'])"
    done = run([PYTHON, "-c", script], EBBTIDE_BUDGET="8GiB")
    assert done.stdout == f"{8 << 30}\n", done.stderr
