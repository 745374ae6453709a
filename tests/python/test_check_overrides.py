"""The configure step that finds what a class of ours forgets to override."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "cmake" / "check_overrides.py"
HEADER = """
struct Other { virtual void elsewhere() = 0; };
class C10_API Base : public Other {
 public:
  virtual ~Base() = default;
  virtual int first(size_t size) = 0;
  // virtual void commented();
  virtual std::pair<int, int> second(
      std::function<bool(int)> filter) const {
    return {0, 0};
  }
  void third();
};
"""


def check(
    folder: Path, ours: str, base: str = "Base"
) -> subprocess.CompletedProcess[str]:
    (folder / "base.h").write_text(HEADER)
    (folder / "ours.h").write_text(ours)
    command = [SCRIPT, "13", folder / "ours.h", "Ours", f"{folder / 'base.h'}:{base}"]
    return subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_class_that_overrides_all_passes(tmp_path: Path) -> None:
    done = check(
        tmp_path,
        "class Ours : public Base {\n"
        "  int first(size_t size) override { return 1; }\n"
        "  std::pair<int, int> second(std::function<bool(int)> f) const override;\n"
        "};\n",
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    done = check(
        tmp_path,
        "class Ours : public Base {\n"
        "  int first(size_t size) override { return 1; }\n"
        "  // second(x) override\n"
        "};\n",
    )
    assert done.returncode == 1
    assert "Ours does not override Base::second" in done.stderr
    assert "first" not in done.stderr


@pytest.mark.parametrize(("least", "status"), [(11, 0), (13, 0), (15, 1)])
def test_what_is_for_later_versions_does_not_count(
    tmp_path: Path, least: int, status: int
) -> None:
    """With torch 2.13 functions were not forwarded that it has, too."""
    done = check(
        tmp_path,
        "class Ours : public Base {\n"
        "  int first(size_t size) override { return 1; }\n"
        f"#if TORCH_VERSION_MINOR >= {least}\n"
        "  std::pair<int, int> second(std::function<bool(int)> f) const override;\n"
        "#endif\n"
        "};\n",
    )
    assert done.returncode == status
    assert ("Base::second" in done.stderr) == (status == 1)


@pytest.mark.parametrize("base", ["Nothing", "third"])
def test_a_class_that_is_not_there_is_an_error(tmp_path: Path, base: str) -> None:
    done = check(tmp_path, "class Ours {};", base=base)
    assert done.returncode == 1
    assert f"no class {base}" in done.stderr
