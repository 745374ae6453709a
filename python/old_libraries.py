"""Makes what the linker takes for the C and C++ libraries of an older system.

    old_libraries.py COMPILER FOLDER

For each library of this system, FOLDER gets one of the same name that defines the same
symbols without any code, each in the newest version that manylinux_2_28 allows. A
program linked against these libraries runs on that system and on any later one. Newer
symbols of the C++ library come from the static archive, and those of the C library from
python/old_libc.c; a reference to anything else fails to link.
"""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

NEWEST = {
    "GLIBC": (2, 28),
    "GLIBCXX": (3, 4, 24),
    "CXXABI": (1, 3, 11),
    "GCC": (7, 0, 0),
}
# These were in the C library's file only from 2.34 on.
APART = {
    "libdl.so.2": r"dl(addr1?|close|error|info|m?open|v?sym)",
    "libpthread.so.0": r"(pthread|sem)_\w+",
    "librt.so.1": r"(aio|lio|mq|shm|timer)_\w+",
}
LOADER = "ld-linux-x86-64.so.2"
LINE = re.compile(
    r"^[0-9a-f]+ .{6}(?P<kind>.) (?P<section>\S+)\s+(?P<size>[0-9a-f]+)\s+"
    r"\(?(?P<version>(?P<family>[A-Z]+)_(?P<number>[0-9.]+))\)?\s+"
    r"(?:\.\w+ )?(?P<name>\S+)$",
    re.MULTILINE,
)


def symbols(library: str) -> dict[str, re.Match[str]]:
    """By their name, those that an older system has."""
    listed = subprocess.check_output(["objdump", "-T", library], text=True)
    found: dict[str, tuple[tuple[int, ...], re.Match[str]]] = {}
    for line in LINE.finditer(listed):
        number = tuple(map(int, line["number"].split(".")))
        # An absolute symbol is the name of a version.
        if line["section"] in ("*UND*", "*ABS*"):
            continue
        if number > NEWEST.get(line["family"], ()):
            continue
        name = line["name"]
        if name not in found or found[name][0] < number:
            found[name] = number, line
    return {name: line for name, (_, line) in found.items()}


def definition(line: re.Match[str]) -> str:
    name, size = line["name"], int(line["size"], 16)
    if line["kind"] == "F":
        return f".text\n.type {name},@function\n.globl {name}\n{name}:\n"
    section, kind = ".data", "object"
    if line["section"] in (".tbss", ".tdata"):
        section, kind = '.section .tbss,"awT",@nobits', "tls_object"
    return (
        f"{section}\n.balign 32\n.type {name},@{kind}\n.size {name},{size}\n"
        f".globl {name}\n{name}: .skip {size}\n"
    )


def make(compiler: str, file: Path, defined: list[re.Match[str]]) -> None:
    versions = defaultdict(list)
    for line in defined:
        versions[line["version"]].append(line["name"])
    nodes = [f"{it} {{ global: {'; '.join(of)}; }};" for it, of in versions.items()]
    map_file, code = file.with_suffix(".map"), file.with_suffix(".s")
    map_file.write_text("\n".join(nodes))
    code.write_text("".join(map(definition, defined)))
    options = [f"-Wl,--soname,{file.name}", f"-Wl,--version-script,{map_file}"]
    subprocess.check_call(
        [compiler, "-shared", "-nostdlib", *options, code, "-o", file]
    )


def main(compiler: str, folder: Path) -> None:
    def here(name: str) -> str:
        done = [compiler, f"-print-file-name={name}"]
        return subprocess.check_output(done, text=True).strip()

    folder.mkdir(exist_ok=True)
    of_c = symbols(here("libc.so.6"))
    for name, pattern in APART.items():
        apart = [it for it in of_c if re.fullmatch(pattern, it)]
        make(compiler, folder / name, [of_c.pop(it) for it in apart])
    make(compiler, folder / "libc.so.6", list(of_c.values()))
    for name in (LOADER, "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1"):
        make(compiler, folder / name, list(symbols(here(name)).values()))

    def paths(*files: object) -> str:
        """For the linker: a folder may have spaces in its name."""
        return " ".join(f'"{file}"' for file in files)

    def ours(*names: str) -> str:
        return paths(*(folder / name for name in names))

    scripts = {
        "libc.so": f"GROUP({ours('libc.so.6')} AS_NEEDED({ours(*APART, LOADER)}) "
        f"{paths(here('libc_nonshared.a'))})",
        "libm.so": f"INPUT({ours('libm.so.6')})",
        "libgcc_s.so": f"INPUT({ours('libgcc_s.so.1')})",
        "libstdc++.so": f"INPUT({ours('libstdc++.so.6')} {paths(here('libstdc++.a'))})",
    }
    for name, script in scripts.items():
        (folder / name).write_text(script + "\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
