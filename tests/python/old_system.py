"""Debian 11's C and C++ libraries: of glibc 2.31, where nothing of 2.32 is."""

import re
import subprocess
from pathlib import Path

import harness

HOME = harness.ROOT / "build" / "old-system"
PACKAGES = ("libc6", "libstdc++6", "libgcc-s1", "zlib1g")


def fetch() -> str:
    """Unpacks them into HOME, from where Debian's packages come. Returns why not."""
    if (HOME / "ready").exists():
        return ""
    listed = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    text = "".join(file.read_text() for file in listed if file.is_file())
    mirror = re.search(r"^[^#\n]*?(\w+://\S+/debian)/?\s", text, re.MULTILINE)
    if mirror is None:
        return "no mirror of Debian is listed"
    (HOME / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (HOME / "sources.list").write_text(f"deb {mirror[1]} bullseye main\n")
    options = {
        "Dir::Etc::SourceList": HOME / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": HOME / "lists",
        "Dir::State::Status": "/dev/null",
        "Dir::Cache": HOME,
        "Acquire::Languages": "none",
    }
    apt = ["apt-get", *(f"-o{name}={value}" for name, value in options.items())]
    for what in (["update"], ["download", *PACKAGES]):
        done = subprocess.run([*apt, *what], cwd=HOME, capture_output=True, text=True)
        if done.returncode != 0:
            return f"apt-get {what[0]}: {done.stderr}"
    for package in HOME.glob("*.deb"):
        subprocess.check_call(["dpkg-deb", "-x", package, HOME])
    (HOME / "ready").touch()
    return ""


def command(program: Path, beside: Path, *arguments: str) -> list[str | Path]:
    """The command that runs `program` there, with its own libraries in `beside`."""
    folders = [HOME / "lib", HOME / "usr" / "lib"]
    places = [str(folder / "x86_64-linux-gnu") for folder in folders]
    loader = Path(places[0]) / "ld-linux-x86-64.so.2"
    path = ":".join([*places, str(beside)])
    return [loader, "--library-path", path, program, *arguments]
