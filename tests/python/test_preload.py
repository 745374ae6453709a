"""The preload library: Python programs, C++ programs, and all others."""

import shutil
from pathlib import Path

import pytest

import harness
from run import PYTHON, job, our_lines, run

SHOW_PATH = ["/bin/sh", "-c", "printf '%s' \"$PYTHONPATH\""]


def test_a_shell_gets_the_boot_folder(preload: Path, package: Path) -> None:
    done = run(SHOW_PATH, LD_PRELOAD=str(preload), EBBTIDE_BUDGET="1GiB")
    assert done.stdout == str(package / "boot")
    assert done.stderr == ""


def test_the_programs_own_path_is_kept(preload: Path, package: Path) -> None:
    done = run(
        SHOW_PATH, LD_PRELOAD=str(preload), EBBTIDE_RECORD="x", PYTHONPATH="/a:/b"
    )
    assert done.stdout == f"{package / 'boot'}:/a:/b"


def test_children_do_not_add_it_again(preload: Path, package: Path) -> None:
    nested = ["/bin/sh", "-c", "/bin/sh -c 'printf %s \"$PYTHONPATH\"'"]
    done = run(nested, LD_PRELOAD=str(preload), EBBTIDE_BUDGET="1GiB", PYTHONPATH="/a")
    assert done.stdout == f"{package / 'boot'}:/a"


@pytest.mark.parametrize(
    "variables", [{}, {"EBBTIDE_BUDGET": "1GiB", "EBBTIDE_DISABLE": "1"}]
)
def test_nothing_happens_unless_asked(preload: Path, variables: dict[str, str]) -> None:
    done = run(SHOW_PATH, LD_PRELOAD=str(preload), PYTHONPATH="/a", **variables)
    assert (done.stdout, done.stderr) == ("/a", "")


def test_it_lives_with_other_preloads(preload: Path, package: Path) -> None:
    for both in (f"libm.so.6 {preload}", f"{preload} libm.so.6"):
        done = run(SHOW_PATH, LD_PRELOAD=both, EBBTIDE_BUDGET="1GiB")
        assert done.stdout == str(package / "boot")


def test_it_exports_no_name(preload: Path) -> None:
    done = run(["nm", "-D", "--defined-only", preload])
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("library", "function"),
    [
        ("libebbtide.so", "ebbtide_start"),
        ("libebbtide_cuda.so", "ebbtide_start"),
        ("libebbtide_pluggable.so", "ebbtide_alloc"),
    ],
)
def test_a_library_exports_only_its_own_names(
    package: Path, library: str, function: str
) -> None:
    done = run(["nm", "-D", "--defined-only", package / "lib" / library])
    names = [line.split()[-1] for line in done.stdout.splitlines()]
    assert function in names
    assert [name for name in names if not name.startswith("ebbtide_")] == []


def test_a_python_job_starts_managed(preload: Path) -> None:
    plain = harness.run(job("lstm"))
    managed = harness.run(
        job("lstm"), {"LD_PRELOAD": str(preload), "EBBTIDE_BUDGET": "8GiB"}
    )
    assert managed.same_result(plain)
    assert managed.report["budget"] == 8 << 30
    assert len(our_lines(managed.errors)) == 1


def test_a_cpp_program_gives_the_same_result(mlp: Path, preload: Path) -> None:
    command = [str(mlp), "--size", "small"]
    plain = harness.run(command)
    assert plain.same_result(harness.run(command))
    counted = harness.run(
        command, {"LD_PRELOAD": str(preload), "EBBTIDE_RECORD": "/dev/null"}
    )
    persistent = counted.report["persistent"]
    assert counted.report["peak_activations"] > 0
    budget = persistent + counted.report["peak_activations"] * 60 // 100
    managed = harness.run(
        command, {"LD_PRELOAD": str(preload), "EBBTIDE_BUDGET": f"{budget}B"}
    )
    assert managed.same_result(plain)
    assert managed.live <= budget
    assert managed.report["over_budget_steps"] == 0


def test_a_cpp_program_gets_the_core_for_its_torch(
    mlp: Path, mlp_cuda: Path, preload: Path
) -> None:
    plain = harness.run([str(mlp), "--size", "small"])
    for program, has_cuda in ((mlp, False), (mlp_cuda, True)):
        managed = harness.run(
            [str(program), "--size", "small"],
            {"LD_PRELOAD": str(preload), "EBBTIDE_BUDGET": "8GiB"},
        )
        assert managed.same_result(plain)
        assert ("cuda" in managed.report) == has_cuda


def test_a_cpp_program_without_a_core_trains_on(
    mlp: Path, preload: Path, tmp_path: Path
) -> None:
    alone = shutil.copy(preload, tmp_path)
    command = [str(mlp), "--size", "small"]
    done = run(command, LD_PRELOAD=str(alone), EBBTIDE_BUDGET="1GiB")
    assert done.returncode == 0
    assert len(our_lines(done.stderr)) == 1
    assert our_lines(done.stderr)[0].startswith("ebbtide: off: ")


def test_the_preloaded_and_the_installed_entry_start_once(preload: Path) -> None:
    command = [PYTHON, "-c", "import torch"]
    done = run(command, LD_PRELOAD=str(preload), EBBTIDE_BUDGET="8GiB")
    assert done.returncode == 0
    assert len(our_lines(done.stderr)) == 1, done.stderr


def test_a_second_copy_is_refused_in_one_line(
    preload: Path, package_copy: Path
) -> None:
    assert preload.exists()
    second = package_copy / "lib" / "libebbtide_preload.so"
    plain = harness.run(job("lstm"))
    done = harness.run(
        job("lstm"), {"LD_PRELOAD": str(second), "EBBTIDE_BUDGET": "8GiB"}
    )
    assert done.same_result(plain)
    refusals = [line for line in our_lines(done.errors) if "another copy" in line]
    assert len(refusals) == 1, done.errors
