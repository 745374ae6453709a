"""A job that fits its budget runs as it would without one."""

import pytest

import fits_bench


def test_the_closing_line_says_that_nothing_was_done_and_why() -> None:
    process = fits_bench.start([], fits_bench.BUDGET)
    child = fits_bench.finish(process, fits_bench.BUDGET)
    assert child.state == "idle"
    assert child.errors.startswith(fits_bench.CLOSING)


@pytest.mark.long  # a minute, most of it under valgrind
def test_an_idle_job_executes_hardly_more_instructions() -> None:
    _, row = fits_bench.instructions()
    assert row.unmanaged > 10_000_000
    assert list(row.complaints()) == []
