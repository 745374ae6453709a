"""The wheel needs no more of the machine than torch's own does."""

import hashlib
import re
import zipfile
from pathlib import Path

import pytest

import harness
import old_system
from run import run

# Libraries: the C library and the compiler's, zlib, which Python has, and torch's.
EVERYWHERE = re.compile(
    r"(ld-linux-x86-64|lib(c|m|dl|pthread|stdc\+\+|gcc_s|z))\.so\.\d+"
)
TORCHS = re.compile(r"lib(c10|c10_cuda|torch_cpu|torch_cuda)\.so")


def entries(file: Path, tag: str) -> list[str]:
    """Entries of an ELF file's dynamic section."""
    done = run(["readelf", "-d", file])
    assert done.returncode == 0, done.stderr
    return re.findall(rf"\({tag}\).*\[(.*)\]", done.stdout)


def lacking(file: Path, beside: Path) -> list[str]:
    """Libraries that an ELF file needs and that are missing."""
    return [
        name
        for name in entries(file, "NEEDED")
        if not EVERYWHERE.fullmatch(name) and not (beside / name).exists()
    ]


def missing(folder: Path, beside: Path, may_need_torch: bool) -> dict[str, list[str]]:
    """The same of each file in `folder`."""
    found = {}
    for file in sorted(folder.iterdir()):
        if not file.is_file() or file.read_bytes()[:4] != b"\x7fELF":
            continue
        wanted = lacking(file, beside)
        if may_need_torch:
            wanted = [name for name in wanted if not TORCHS.fullmatch(name)]
        found[file.name] = wanted
    return found


@pytest.fixture
def wheel() -> Path:
    """The one that is installed in .venv."""
    (found,) = (harness.ROOT / "build" / "wheel").glob("ebbtide-*.whl")
    return found


def test_the_libraries_need_nothing_that_a_machine_with_torch_lacks(
    package: Path,
) -> None:
    found = missing(package / "lib", package / "lib", may_need_torch=True)
    assert {"libebbtide.so", "libebbtide_cuda.so"} <= found.keys()
    assert [name for name, wanted in found.items() if wanted] == [], found


def test_the_program_brings_what_it_needs() -> None:
    beside = harness.EBBTIDE.parent.parent / "lib" / "ebbtide"
    assert entries(harness.EBBTIDE, "RUNPATH") == ["$ORIGIN/../lib/ebbtide"]
    assert lacking(harness.EBBTIDE, beside) == []
    assert missing(beside, beside, may_need_torch=False) == {"libhighs.so": []}


def test_auditwheel_names_no_newer_platform_than_torchs(wheel: Path) -> None:
    assert wheel.name == "ebbtide-0.1.0-py3-none-manylinux_2_28_x86_64.whl"
    done = run([harness.ROOT / ".venv" / "bin" / "auditwheel", "show", wheel])
    said = " ".join(done.stdout.split())
    named = re.search(
        r'constrains the platform tag to "manylinux_2_(\d+)_x86_64"', said
    )
    assert named is not None, done.stdout + done.stderr
    assert int(named[1]) <= 28


def test_no_file_is_in_the_wheel_twice(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        files = {it.filename: packed.read(it) for it in packed.infolist()}
    hashes = [hashlib.sha256(data).digest() for data in files.values()]
    assert len(set(hashes)) == len(hashes), sorted(files)
    cores = [name for name in files if re.search(r"/libebbtide(_cuda)?\.so$", name)]
    assert len(cores) >= 2
    assert wheel.stat().st_size <= len(cores) * 6_000_000


def names(file: Path, pattern: str) -> set[str]:
    """Names of the symbols that `nm` lists in lines that match."""
    done = run(["nm", "-D", file])
    assert done.returncode == 0, done.stderr
    return set(re.findall(pattern, done.stdout, re.MULTILINE))


def test_no_symbol_of_the_system_is_asked_for_without_its_version(
    package: Path,
) -> None:
    """Such a one is a newer one, which auditwheel does not see."""
    system: set[str] = set()
    for name in ("libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1"):
        found = run(["g++", f"-print-file-name={name}"]).stdout.strip()
        system |= names(Path(found), r" [A-TV-Zi] ([^@\s]+)@")
    assert {"fstat", "pthread_cond_clockwait"} <= system
    for file in [*(package / "lib").glob("*.so"), harness.EBBTIDE]:
        assert names(file, r" U ([^@\s]+)$") & system == set(), file


def test_it_starts_with_an_older_c_library(
    preload: Path, mlp: Path, tmp_path: Path
) -> None:
    """Debian 11's is the oldest to be had; what it has since 2.28 auditwheel sees."""
    lacks = old_system.fetch()
    if lacks:
        pytest.skip(f"Debian 11 is not to be had: {lacks}")
    # A whole job, whose losses are not for another C library to decide.
    torch = next(harness.ROOT.glob(".venv/lib/python3*/site-packages/torch/lib"))
    words = ("--size", "small", "--threads", "1")
    command = [str(word) for word in old_system.command(mlp, torch, *words)]
    plain = harness.run(command)
    preloaded = {"LD_PRELOAD": str(preload)}
    trace = tmp_path / "run.ebbtide"
    counted = harness.run(command, {**preloaded, "EBBTIDE_RECORD": str(trace)})
    peak = counted.report["peak_activations"]
    budget = counted.report["persistent"] + peak * 60 // 100
    managed = harness.run(command, {**preloaded, "EBBTIDE_BUDGET": f"{budget}B"})
    assert managed.same_result(plain)
    assert managed.live <= budget
    assert managed.report["over_budget_steps"] == 0

    libraries = harness.EBBTIDE.parent.parent / "lib" / "ebbtide"
    explain = ("explain", str(trace))
    there = run(old_system.command(harness.EBBTIDE, libraries, *explain))
    assert (there.returncode, there.stderr) == (0, "")
    assert there.stdout == run([harness.EBBTIDE, *explain]).stdout
