"""A request that fails: what is written down, where, and that it is so once."""

from pathlib import Path

from same import Outcome, Zygote

MIB = 1 << 20


def written(done: Outcome, folder: Path) -> str:
    """The text of the one file, which the error and the report name."""
    (file,) = folder.glob("ebbtide-oom-*.txt")
    first = done.output.splitlines()[0]
    assert first.partition("what was alive is in ")[2].split()[0] == str(file)
    assert done.report["out_of_memory"]["file"] == str(file)
    return file.read_text()


def test_strict_budgets_write_down_what_was_alive(
    zygote: Zygote, tmp_path: Path
) -> None:
    env = {
        "EBBTIDE_BUDGET": "8MiB",
        "EBBTIDE_OFFLOAD_DIR": "none",
        "EBBTIDE_STRICT": "1",
        "EBBTIDE_REPORT": str(tmp_path / "report.json"),
    }
    done = zygote.run("ends.beyond_the_budget", env)
    assert done.exit == 0, done.errors
    text = written(done, tmp_path)
    assert text.startswith(
        "ebbtide: out of memory on cpu: 1.00 MiB did not fit in tanh, in step 0 "
        "(watch)\n"
        "8.00 MiB were alive, the budget is 8.00 MiB\n"
    )
    for line in [
        "    1.00 MiB  parameters  of no recorded op, a parameter",
        "    1.00 MiB  saved       tanh, saved for the backward pass",
        "floor: not known; it takes a step that was recorded to its end",
        "- a budget of 9.00 MiB has room for this request",
        "- what lets 7.00 MiB of tanh go, which stay: held by the script",
        "- a smaller batch",
    ]:
        assert line in text.splitlines(), text
    known = done.report["out_of_memory"]
    assert known["request"] == MIB
    assert known["live"] == 8 * MIB == sum(known["live_by_kind"].values())
    assert [block["bytes"] for block in known["largest"]] == 8 * [MIB]
    assert sum(block["op"] == "tanh" for block in known["largest"]) == 7


def test_a_machine_without_memory_is_told_of_too(
    zygote: Zygote, tmp_path: Path
) -> None:
    env = {
        "EBBTIDE_BUDGET": "64MiB",
        "EBBTIDE_REPORT": str(tmp_path / "report.json"),
    }
    done = zygote.same("memory.asks_for_more_than_there_is", env)
    assert "did not fit" in written(done, tmp_path)
    first, second = done.output.splitlines()
    assert first.startswith(second + " | ebbtide: what was alive is in ")
    # It is the one of the unmanaged run.
    assert [second, second] == zygote.run(
        "memory.asks_for_more_than_there_is", {}
    ).output.splitlines()
    assert "DefaultCPUAllocator: can't allocate memory: you tried to allocate" in second
    # A request that the system refuses is in no peak.
    assert done.report["peak"] <= 64 * MIB
    assert done.report["over_budget_steps"] == 0
    assert not any("over budget" in line for line in done.lines)


def test_without_a_report_it_is_in_the_current_directory_or_tmpdir(
    zygote: Zygote, tmp_path: Path
) -> None:
    # The folder of a report that is not there is passed over.
    env = {
        "EBBTIDE_BUDGET": "64MiB",
        "EBBTIDE_REPORT": str(tmp_path / "missing" / "report.json"),
        "TMPDIR": str(tmp_path),
    }
    done = zygote.run("memory.asks_for_more_than_there_is", env)
    assert done.exit == 0, done.errors
    written(done, tmp_path)
