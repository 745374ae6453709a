"""Names the virtuals of a C++ class and its bases that a class of ours forgets.

    check_overrides.py MINOR OURS CLASS HEADER:CLASS...

MINOR is the minor version of torch, OURS the file with our CLASS; the rest are the
classes whose virtuals it must override, each with the header that defines it. What
OURS has for later versions (#if TORCH_VERSION_MINOR >= N) does not count. Prints what
is missing, one per line, and exits 1. It reads text, not C++: enough for headers that
declare one member per declaration, and it fails where it finds a class without
virtuals, so that a changed header cannot pass unread.
"""

import re
import sys
from pathlib import Path


def body(text: str, name: str, path: Path) -> str:
    """What stands between the braces of class or struct `name`."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    found = re.search(rf"\b(?:class|struct)\b[^;{{(]*\b{name}\b[^;{{(]*{{", text)
    if found is None:
        sys.exit(f"{path}: no class {name}")
    depth = 1
    end = found.end()
    while depth:
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        end += 1
    return text[found.end() : end - 1]


def compiled(text: str, minor: int) -> str:
    """Without what stands for later versions of torch than 2.`minor`."""

    def kept(guarded: re.Match[str]) -> str:
        return guarded[2] if minor >= int(guarded[1]) else ""

    guard = r"^#if TORCH_VERSION_MINOR >= (\d+)\n(.*?)^#endif"
    return re.sub(guard, kept, text, flags=re.DOTALL | re.MULTILINE)


def members(declarations: str) -> set[str]:
    """Names of the functions that are declared virtual, without destructors."""
    pattern = r"\bvirtual\b[^;{}()]*?([~\w]+)\s*\("
    names = re.findall(pattern, declarations)
    return {name for name in names if not name.startswith("~")}


def overridden(declarations: str) -> set[str]:
    pattern = (
        r"(\w+)\s*\((?:[^(){}]|\([^(){}]*\))*\)\s*(?:const)?\s*(?:noexcept)?\s*override"
    )
    return set(re.findall(pattern, declarations))


def main(arguments: list[str]) -> int:
    minor, ours, name, *theirs = arguments
    text = compiled(Path(ours).read_text(), int(minor))
    mine = overridden(body(text, name, Path(ours)))
    missing = []
    for source in theirs:
        header, _, base = source.rpartition(":")
        virtuals = members(body(Path(header).read_text(), base, Path(header)))
        if not virtuals:
            sys.exit(f"{header}: class {base} has no virtuals; was it moved?")
        missing += sorted(f"{base}::{each}" for each in virtuals - mine)
    for line in missing:
        print(f"{ours}: {name} does not override {line}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
