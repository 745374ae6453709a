"""Programs and folders the tests use. A part that was not built is an error."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness
from same import Zygote


def installed(path: Path) -> Path:
    if not path.exists():
        pytest.fail(f"{path} is missing; ./dev setup makes it")
    return path


@pytest.fixture(scope="session")
def package() -> Path:
    """The folder of the installed package."""
    found = sorted(harness.ROOT.glob(".venv/lib/python3*/site-packages/ebbtide"))
    if not found:
        pytest.fail("ebbtide is not installed in .venv; ./dev setup does it")
    return found[0]


@pytest.fixture(scope="session")
def core(package: Path) -> Path:
    """The form of it for the torch that is installed, which has CUDA."""
    return installed(package / "lib" / "libebbtide_cuda.so")


@pytest.fixture(scope="session")
def preload(package: Path) -> Path:
    return installed(package / "lib" / "libebbtide_preload.so")


@pytest.fixture(scope="session")
def mlp() -> Path:
    return installed(harness.ROOT / "build" / "release" / "bench" / "mlp")


@pytest.fixture(scope="session")
def mlp_cuda() -> Path:
    return installed(harness.ROOT / "build" / "release" / "bench" / "mlp_cuda")


@pytest.fixture
def package_copy(package: Path, tmp_path: Path) -> Path:
    """A copy of the package that a test may damage."""
    return Path(shutil.copytree(package, tmp_path / "ebbtide"))


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    """Runs cases of programs/ in children of one process that has torch."""
    with Zygote() as process:
        yield process
