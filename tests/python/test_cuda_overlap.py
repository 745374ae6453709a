"""Copies beside kernels, on the simulated device's virtual clock."""

import overlap_bench
import simulator


def test_a_plan_keeps_its_time_where_copies_cannot_all_hide() -> None:
    simulator.check_built()
    (row,) = overlap_bench.rows((overlap_bench.JUDGED,))
    assert list(row.complaints()) == []
