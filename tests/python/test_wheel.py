"""What the installed package needs of the machine: libraries that every one has."""

import re
from pathlib import Path

import harness
from run import run

# Of the C library and the compiler, zlib, which Python has, and of torch.
EVERYWHERE = re.compile(
    r"(ld-linux-x86-64|lib(c|m|dl|pthread|stdc\+\+|gcc_s|z))\.so\.\d+"
)
TORCHS = re.compile(r"lib(c10|c10_cuda|torch_cpu|torch_cuda)\.so")


def entries(file: Path, tag: str) -> list[str]:
    """Of an ELF file's dynamic section."""
    done = run(["readelf", "-d", file])
    assert done.returncode == 0, done.stderr
    return re.findall(rf"\({tag}\).*\[(.*)\]", done.stdout)


def lacking(file: Path, beside: Path) -> list[str]:
    """What an ELF file needs and nobody brings."""
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
