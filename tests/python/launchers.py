"""Every way in which a job is started (programs/launched.py), as command lines.

All of them run in a folder that is theirs.
"""

import dataclasses
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import harness
from run import PYTHON, run

JOB = str(harness.ROOT / "tests" / "python" / "programs" / "launched.py")
BIN = harness.PYTHON.parent
JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"


@dataclasses.dataclass
class Start:
    """How a job is started, and what becomes of it."""

    command: list[str]
    exit: int = 3
    processes: int = 1  # that train, of which each prints its closing line
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    managed: bool = True
    says: bool = True  # its standard error is open to the end
    cpp: bool = False  # prints what the jobs of bench/ print


def python(*words: str) -> Start:
    return Start([PYTHON, *words, JOB, "--exit", "3"])


def module(folder: Path) -> Start:
    (folder / "job").mkdir()
    (folder / "job" / "__init__.py").touch()
    (folder / "job" / "__main__.py").write_text(Path(JOB).read_text())
    return Start([PYTHON, "-m", "job", "--exit", "3"])


def script(folder: Path) -> Start:
    """As pip installs what a package names in [project.scripts]."""
    (folder / "job.py").write_text(Path(JOB).read_text())
    program = folder / "job"
    lines = [f"#!{PYTHON}", "import sys", "from job import main", "sys.exit(main())"]
    program.write_text("\n".join(lines) + "\n")
    program.chmod(0o755)
    return Start([str(program), "--exit", "3"], environment={"PYTHONPATH": str(folder)})


def torchrun(_folder: Path) -> Start:
    words = ("--standalone", "--nproc-per-node", "2", JOB)
    return Start([str(BIN / "torchrun"), *words], exit=0, processes=2)


def torchrun_module(_folder: Path) -> Start:
    words = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1")
    return Start([PYTHON, *words, JOB], exit=0)


def children(method: str) -> Callable[[Path], Start]:
    return lambda _: Start([PYTHON, JOB, "--start", method, "--exit", "3"], processes=2)


def accelerate(_folder: Path) -> Start:
    words = ("--cpu", "--num_processes", "1", "--num_machines", "1")
    more = ("--mixed_precision", "no", "--dynamo_backend", "no")
    return Start([str(BIN / "accelerate"), "launch", *words, *more, JOB], exit=0)


def notebook(folder: Path) -> Start:
    """A kernel of Jupyter runs the job; what its cell printed is printed again."""
    driver = folder / "driver.py"
    driver.write_text(f"""
import os
# Where it is set ipykernel leaves standard error alone.
os.environ.pop("PYTEST_CURRENT_TEST", None)
import nbformat
from nbclient import NotebookClient
source = "import runpy; job = runpy.run_path({JOB!r}); job['train'](0)"
book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
client = NotebookClient(book, kernel_name="python3")
client.create_kernel_manager()
client.km.shutdown_wait_time = 60  # then it is killed
client.execute()
print(*(out["text"] for out in book.cells[0].outputs if out["name"] == "stdout"))
""")
    # ipykernel has standard error go to the notebook, and releases it early.
    return Start([PYTHON, str(driver)], exit=0, says=False)


def xdist(folder: Path) -> Start:
    test = folder / "test_job.py"
    test.write_text(f"""
import runpy
import pytest

@pytest.mark.parametrize("seed", [0, 1])
def test_job(seed, capsys):
    job = runpy.run_path({JOB!r})
    job["train"](seed)
    with open(f"trained{{seed}}", "w") as file:
        file.write(capsys.readouterr().out)
""")
    tests = f"{PYTHON} -m pytest -q -n 1 -p no:cacheprovider --rootdir . test_job.py"
    shell = f"rm -f trained*; {tests} >/dev/null; cat trained*"
    return Start(["/bin/sh", "-c", shell], exit=0)


def wrapped(folder: Path) -> Start:
    inner = folder / "inner.sh"
    inner.write_text('#!/bin/sh\nexec nice -n 1 "$@"\n')
    inner.chmod(0o755)
    command = f"timeout 200 env A=1 {inner} {PYTHON} {JOB} --exit 3; exit $?"
    return Start(["/bin/bash", "-c", command])


def embedded(folder: Path) -> Start:
    """A C program with libpython."""
    source = harness.ROOT / "tests" / "python" / "programs" / "embedded.c"
    variables = sysconfig.get_config_vars()
    library = f"-lpython{variables['LDVERSION']}"
    folders = (f"-I{variables['INCLUDEPY']}", f"-L{variables['LIBDIR']}")
    program = folder / "embedded"
    built = run(["cc", "-o", program, *folders, source, library])
    assert built.returncode == 0, built.stderr
    return Start([str(program), PYTHON, JOB, "--exit", "3"])


def site_customized(folder: Path) -> Start:
    customized = folder / "sitecustomize.py"
    customized.write_text("print('the sitecustomize of the user')\n")
    start = python()
    start.environment = {"PYTHONPATH": str(folder)}
    return start


def beside_jemalloc(_folder: Path) -> Start:
    assert Path(JEMALLOC).exists(), "the Debian package libjemalloc2 is missing"
    start = python()
    start.environment = {"LD_PRELOAD": JEMALLOC}
    return start


def without_autoload(_folder: Path) -> Start:
    start = python()
    start.environment = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    start.managed = False
    return start


def cpp(_folder: Path) -> Start:
    program = str(harness.ROOT / "build" / "release" / "bench" / "mlp")
    return Start([program, "--size", "small"], exit=0, cpp=True)


LAUNCHERS: Mapping[str, Callable[[Path], Start]] = {
    "python": lambda _: python(),
    "python -m": module,
    "console script": script,
    "no autoload": without_autoload,
    "torchrun": torchrun,
    "torchrun of one": torchrun_module,
    "spawn": children("spawn"),
    "fork": children("fork"),
    "accelerate launch": accelerate,
    "Jupyter": notebook,
    "pytest-xdist": xdist,
    "shells and wrappers": wrapped,
    "embedded interpreter": embedded,
    "sitecustomize": site_customized,
    "jemalloc": beside_jemalloc,
    "python -I": lambda _: python("-I"),
    "python -E": lambda _: python("-E"),
    "python -B -u -X dev": lambda _: python("-B", "-u", "-X", "dev"),
    "exec in the same process": lambda _: Start(
        [PYTHON, JOB, "--exec", "--exit", "3"], processes=1
    ),
    "C++ program": cpp,
}


def under(start: Start, options: Sequence[str]) -> list[str]:
    return [str(harness.EBBTIDE), "run", *options, "--", *start.command]
