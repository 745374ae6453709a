"""Progress of a run: a row of its own on a terminal, lines in a log."""

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from pathlib import Path

import harness
from run import PYTHON, clean_environment
from same import SPILL, Zygote

ROWS, COLUMNS = 12, 70
TRAINING = """
import time, torch
w = torch.randn(1 << 18, requires_grad=True)
for step in range(24):
    h = w
    for _ in range(6):
        h = h.tanh().exp()
    h.sum().backward()
    w.grad = None
    print(f"line {step} of the program, as it is", flush=True)
    time.sleep(0.05)
"""


class Terminal:
    """The screen, by the few sequences that are used: slow and obvious."""

    def __init__(self) -> None:
        self.screen = [[" "] * COLUMNS for _ in range(ROWS)]
        self.gone: list[str] = []  # lines that have scrolled off
        self.row = self.column = 0
        self.top, self.bottom = 0, ROWS - 1
        self.saved = (0, 0)

    def lines(self) -> list[str]:
        return self.gone + ["".join(row).rstrip() for row in self.screen]

    def down(self) -> None:
        if self.row != self.bottom:
            self.row = min(self.row + 1, ROWS - 1)
            return
        assert self.top == 0
        self.gone.append("".join(self.screen.pop(self.top)).rstrip())
        self.screen.insert(self.bottom, [" "] * COLUMNS)

    def escape(self, code: str) -> None:
        if code == "7":
            self.saved = (self.row, self.column)
        elif code == "8":
            self.row, self.column = self.saved
        elif code == "D":
            self.down()
        elif code == "[1A":
            self.row = max(self.row - 1, 0)
        elif code == "[2K":
            self.screen[self.row] = [" "] * COLUMNS
        elif code.endswith("r"):
            limits = [int(n) for n in code[1:-1].split(";")] if code != "[r" else []
            self.top, self.bottom = (
                (limits[0] - 1, limits[1] - 1) if limits else (0, ROWS - 1)
            )
            self.row = self.column = 0
        else:
            assert code.endswith("H"), code
            row, column = code[1:-1].split(";")
            self.row, self.column = int(row) - 1, int(column) - 1

    def write(self, text: str) -> None:
        pattern = r"\x1b(\[[0-9;]*[A-Za-z]|[78D])|([^\x1b])"
        for code, character in re.findall(pattern, text):
            if code:
                self.escape(code)
            elif character == "\r":
                self.column = 0
            elif character == "\n":
                self.down()
            else:
                self.screen[self.row][self.column] = character
                self.column = min(self.column + 1, COLUMNS - 1)


def on_terminal(command: list[str], **variables: str) -> str:
    """All that the program writes to a terminal of its own."""
    pid, master = pty.fork()
    if pid == 0:
        size = struct.pack("HHHH", ROWS, COLUMNS, 0, 0)
        fcntl.ioctl(2, termios.TIOCSWINSZ, size)
        os.execve(command[0], command, {**clean_environment(), **variables})
    written, end = b"", time.monotonic() + 120
    while time.monotonic() < end and select.select([master], [], [], 60)[0]:
        try:
            part = os.read(master, 1 << 16)
        except OSError:  # the program has closed it
            break
        if not part:
            break
        written += part
    os.close(master)
    _, status = os.waitpid(pid, 0)
    assert status == 0, written.decode()
    return written.decode()


def test_a_row_on_a_terminal_leaves_the_programs_lines_alone() -> None:
    command = [str(harness.EBBTIDE), "run", "--budget=6MiB", f"--offload-dir={SPILL}"]
    text = on_terminal([*command, "--", PYTHON, "-c", TRAINING], TERM="xterm")
    rows = re.findall(r"\x1b\[12;1H\x1b\[2K(ebbtide: step [^\x1b]*)\x1b8", text)
    assert len(rows) >= 3
    for row in rows:
        assert re.fullmatch(
            r"ebbtide: step \d+, peak \d\.\d\d MiB of 6\.00 MiB, \d+\.\d ms, \w+", row
        )
    # While it runs the last row is ours, and no line of the program's is touched.
    terminal = Terminal()
    for part in re.split(r"(?<=\x1b8)", text):
        terminal.write(part)
        if terminal.bottom != ROWS - 1:
            assert "line" not in "".join(terminal.screen[ROWS - 1])
    # On a busy machine a plan may measure slower than none, which is reported.
    dropped = "ebbtide: the plan was slower than evicting"
    shown = [line for line in terminal.lines() if line]
    lines = [line for line in shown if not line.startswith(dropped)]
    assert lines[:24] == [f"line {i} of the program, as it is" for i in range(24)]
    assert lines[24].startswith("ebbtide: peak ")
    # The row is given back.
    assert terminal.bottom == ROWS - 1
    assert not any(line.startswith("ebbtide: step") for line in lines)


def test_a_terminal_without_rows_and_a_silent_run_have_none() -> None:
    short = TRAINING.replace("24", "4")
    command = [str(harness.EBBTIDE), "run", "--budget=6MiB", "--offload-dir=none", "--"]
    text = on_terminal([*command, PYTHON, "-c", short], TERM="dumb")
    assert "\x1b" not in text
    assert "ebbtide: step" not in text
    text = on_terminal([*command, PYTHON, "-c", short], TERM="xterm", EBBTIDE_LOG="off")
    assert "\x1b" not in text
    assert "ebbtide" not in text


def test_a_log_has_plain_lines(zygote: Zygote, tmp_path: Path) -> None:
    env = {
        "EBBTIDE_BUDGET": "6MiB",
        "EBBTIDE_OFFLOAD_DIR": "none",
        "EBBTIDE_REPORT": str(tmp_path / "report.json"),
        "EBBTIDE_PROGRESS": "1",
    }
    quiet = zygote.same("budgets.chain", env)
    assert not any("ebbtide: step" in line for line in quiet.lines)
    debug = zygote.same("budgets.chain", env | {"EBBTIDE_LOG": "debug"})
    shown = [line for line in debug.lines if line.startswith("ebbtide: step ")]
    # The last step's line comes when the next begins, or the program ends.
    assert [int(line.split()[2].rstrip(",")) for line in shown] == list(
        range(1, debug.report["steps"])
    )
    off = zygote.same("budgets.chain", env | {"EBBTIDE_LOG": "off"})
    assert off.lines == []
    other = {"RANK": "1", "WORLD_SIZE": "2"}
    one = zygote.same("budgets.chain", env | {"EBBTIDE_LOG": "debug", **other})
    assert not any("ebbtide: step" in line for line in one.lines)
