"""Runs training programs in forked children of a process that has torch.

Importing torch takes longer than all the cases. Reads one job per line of
standard input ({"case": "module.function", "env": {..}, "threads": n,
"seconds": limit, "finish": bool, "linger": bool, "fill": byte}) and answers
each with one line: how the child ended, what it wrote to standard error, and
what its case noted. The parent runs no op and starts no thread, so a child is
as good as a fresh process. Without "finish" a child skips the end of the
interpreter and of the libraries, which takes longer than most cases. With
"linger" its threads go on for a while after the statics of everything loaded
later, ebbtide included, have been destroyed. "fill" is what fresh memory
holds, 0 for what it happens to.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"

import torch

from ebbtide import _entry
from programs.trial import Trial


def linger_at_exit() -> None:
    """Ends the process a while after what is made from now on was destroyed.

    PyTorch does not survive the end of its own statics when threads still use
    it: those that it makes late are made here, and outlive the process.
    """
    torch.ones(2, requires_grad=True).exp().sum().backward()  # type: ignore[no-untyped-call]
    libc = ctypes.CDLL(None)
    # Functions registered last are called first.
    for function, argument in ((libc._exit, 0), (libc.usleep, 400_000)):
        address = ctypes.cast(function, ctypes.c_void_p)
        assert libc.__cxa_atexit(address, ctypes.c_void_p(argument), None) == 0


def child(job: dict[str, Any], folder: Path) -> int:
    """The work of the child; its result is the exit status of the process."""
    os.environ.pop("TORCH_DEVICE_BACKEND_AUTOLOAD")
    # The report of an out-of-memory error lies beside the report.
    os.environ["EBBTIDE_REPORT"] = str(folder / "report.json")
    os.environ.update(job["env"])
    if job["linger"]:
        linger_at_exit()
    if job["fill"]:
        m_perturb = -6
        assert ctypes.CDLL(None).mallopt(m_perturb, job["fill"]) == 1
    _entry.start()
    torch.set_num_threads(job["threads"])
    torch.manual_seed(1)
    module, _, name = job["case"].rpartition(".")
    trial = Trial(folder / "result.json")
    try:
        getattr(importlib.import_module(f"programs.{module}"), name)(trial)
    except Exception:
        traceback.print_exc()
        return 70
    trial.write()
    if not job["finish"]:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    return 0


def wait(pid: int, seconds: float) -> int | str:
    """The exit status, negative for a signal, or "hangs"."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with contextlib.suppress(ProcessLookupError):  # its own children, if any
        os.killpg(pid, signal.SIGKILL)
    return "hangs"


def enter(folder: Path) -> None:
    """Gives the child standard streams and a process group of its own."""
    os.setpgid(0, 0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, stream in ((1, "output"), (2, "errors")):
        os.dup2(os.open(folder / stream, os.O_CREAT | os.O_WRONLY, 0o600), number)


def serve(job: dict[str, Any]) -> None:
    # Not a context manager: the child leaves through here as well.
    folder = Path(tempfile.mkdtemp())
    pid = os.fork()
    if pid == 0:
        enter(folder)
        raise SystemExit(child(job, folder))
    answer = {"exit": wait(pid, job["seconds"])}
    for stream in ("output", "errors"):
        answer[stream] = (folder / stream).read_text(errors="replace")
    result = folder / "result.json"
    answer |= json.loads(result.read_text()) if result.exists() else {}
    shutil.rmtree(folder)
    print(json.dumps(answer), flush=True)


def main() -> None:
    # Many parts of torch import this when they are first used: once is enough.
    for module in ("torch._dynamo", *sys.argv[1:]):
        importlib.import_module(module)
    gc.freeze()  # a child's collections leave what was imported alone
    with contextlib.suppress(KeyboardInterrupt):
        for line in sys.stdin:
            serve(json.loads(line))


if __name__ == "__main__":
    main()
