"""Memory of a job that needs little of its budget.

Freed blocks stayed with the job as long as the budget had room, so that lengths that
vary let its resident memory grow from 689 to 1,085 MiB within 8 GiB.
"""

import cases


def resident(output: str) -> int:
    """MiB, by the program's last line."""
    return int(output.split()[-1])


def test_a_job_within_an_ample_budget_is_as_small_as_alone() -> None:
    managed = resident(cases.within("lengths", "8GiB").output)
    assert managed <= 1.05 * resident(cases.alone("lengths").output)
