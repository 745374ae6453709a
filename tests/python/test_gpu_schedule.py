"""The runner of tests/gpu and bench/gpu: its plan, its processes, its table.

The processes pretend (programs/gpu_pretended.py); test_gpu_suite.py has real ones.
"""

import json
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

import gpu_jobs
import gpu_processes
import gpu_program
import gpu_results
import gpu_schedule
import gpu_table
import harness
from run import PYTHON, clean_environment, run

RUNNER = harness.ROOT / "tests" / "gpu" / "gpu_run.py"
LAUNCHER = Path(__file__).with_name("programs") / "gpu_pretended.py"
CORE = [job.name for job in gpu_jobs.every_job() if not job.extra]


def pretended(folder: Path, **wanted: object) -> dict[str, str]:
    return {
        "EBBTIDE_GPU_TESTS_LAUNCHER": str(LAUNCHER),
        "EBBTIDE_GPU_TESTS_LOG": str(folder / "log"),
        "EBBTIDE_GPU_TESTS_PRETENDED": json.dumps({"seconds": 0.1, **wanted}),
    }


def command(folder: Path, *arguments: str) -> list[str]:
    places = ["--results", str(folder / "r.jsonl"), "--out", str(folder / "table.md")]
    return [PYTHON, str(RUNNER), *places, *arguments]


def jobs_of(folder: Path) -> dict[str, dict[str, object]]:
    records = gpu_results.read(folder / "r.jsonl")
    return {record["job"]: record for record in records if "job" in record}


def test_the_printed_plan_has_all_that_matters_in_240_seconds() -> None:
    done = run([PYTHON, RUNNER, "--plan"])
    assert done.returncode == 0, done.stderr
    row = r"^(\S+) +(\d+) +\d+ +(\d+) +[\d.]+"
    planned = {n: (int(a), int(b)) for n, a, b in re.findall(row, done.stdout, re.M)}
    assert set(CORE) <= set(planned)
    assert "does not run" not in done.stdout
    total = re.search(r"^Expected: (\d+) of 240 s, (\d+) s of inst", done.stdout, re.M)
    assert total, done.stdout
    assert int(total[2]) == min(start for start, _ in planned.values())
    assert int(total[1]) == max(end for _, end in planned.values()) <= 240
    # A process takes at least its start.
    assert min(job.total for job in gpu_jobs.every_job()) >= 15


def test_planned_processes_keep_to_cores_memory_and_the_device() -> None:
    limits = gpu_schedule.Limits()
    world = gpu_schedule.counted(gpu_jobs.every_job(), limits, 0.0)
    planned = list(world.planned.values())
    assert len(planned) > len(CORE) / 2
    beside = [p for p in planned if not p.job.alone]
    for moment in sorted({p.begin for p in planned}):
        there = [p for p in beside if p.start <= moment < p.end]
        loading = [
            p
            for p in planned
            if p.job.alone and p.start <= moment < p.start + p.job.start
        ]
        timed = [p for p in planned if p.job.alone and p.begin <= moment < p.end]
        assert len(there) + len(loading) <= limits.cores
        assert sum(p.job.gib for p in there) <= limits.gib
        assert len(timed) <= 1
        assert not (timed and there)


def test_the_longest_of_what_can_start_starts_first() -> None:
    jobs = [gpu_jobs.Job(f"j{n}", ("p.py",), n, 1.0) for n in (3, 1, 2)]
    limits = gpu_schedule.Limits(cores=1, seconds=1000)
    world = gpu_schedule.counted(jobs, limits, 0.0)
    assert sorted(world.planned, key=lambda name: world.planned[name].start) == [
        *("j3", "j2", "j1")
    ]


def test_what_there_is_no_time_for_is_left_out_by_name() -> None:
    done = run([PYTHON, RUNNER, "--plan", "--seconds", "120"])
    assert re.search(
        r"^gpt-1b.offload +does not run: no time is left", done.stdout, re.M
    )
    ends = [int(e) for e in re.findall(r"^\S+ +\d+ +\d+ +(\d+) ", done.stdout, re.M)]
    assert max(ends) <= 120


def test_more_time_is_filled_with_more_processes() -> None:
    done = run([PYTHON, RUNNER, "--plan", "--seconds", "900"])
    assert re.search(r"^trainer.budget +\d+", done.stdout, re.M), done.stdout


def test_every_case_of_the_program_is_among_the_processes() -> None:
    assert list(gpu_program.CASES) == list(gpu_jobs.CASES)


def test_a_whole_run_measures_each_process_alone_where_it_says_so(
    tmp_path: Path,
) -> None:
    done = run(command(tmp_path), **pretended(tmp_path))
    assert done.returncode == 0, done.stderr
    records = jobs_of(tmp_path)
    assert list(records.keys() - set(CORE)) == []
    assert {r["status"] for r in records.values()} == {"done"}, done.stderr
    # Half of a gibibyte less than what is reserved.
    assert records["gpt-1b.half"]["budget"] == 5 << 29
    log = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    alone = [row for row in log if row[2]]
    assert len(alone) == 9
    for begin, end, _ in alone:
        others = [row for row in log if row[0] < end and row[1] > begin]
        assert len(others) == 1
    beside = [row for row in log if not row[2]]
    assert any(a[0] < b[0] < a[1] for a in beside for b in beside)


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
def test_a_runner_that_is_ended_leaves_results_that_render(
    by: signal.Signals, tmp_path: Path
) -> None:
    environment = {**clean_environment(), **pretended(tmp_path, seconds=0.5)}
    with subprocess.Popen(
        command(tmp_path, "--cores", "4"), env=environment, stderr=subprocess.DEVNULL
    ) as runner:
        deadline = time.monotonic() + 60
        while len(jobs_of(tmp_path)) < 6 and time.monotonic() < deadline:
            time.sleep(0.05)
        runner.send_signal(by)
        runner.wait()
    assert (tmp_path / "table.md").exists() == (by == signal.SIGTERM)
    said = (tmp_path / "log").read_text()
    known = jobs_of(tmp_path)
    assert 6 <= len(known) < len(CORE)
    # The last line may be a part of one.
    with (tmp_path / "r.jsonl").open("a") as file:
        file.write('{"job": "gpt-1b.unm')
    done = run(command(tmp_path, "--table"))
    table = (tmp_path / "table.md").read_text()
    assert "a pretended device" in table
    assert "2026-11-26: NVIDIA H100 80GB HBM3" in table
    assert "Traceback" not in done.stderr
    # Its processes have gone with it: those that ran would have said so by now.
    time.sleep(1)
    assert (tmp_path / "log").read_text() == said


def test_controls_that_differ_are_told_of_and_are_no_error(tmp_path: Path) -> None:
    chosen = ["--jobs", "case.attention_flash.*,case.gemm_bf16.*"]
    done = run(
        command(tmp_path, *chosen), **pretended(tmp_path, differs="attention_flash")
    )
    assert (done.returncode, "does not hold" in done.stderr) == (0, False), done.stderr
    table = (tmp_path / "table.md").read_text().split("2026-11-26: NVIDIA")[0]
    cells = {row.split(" | ")[0]: row.split(" | ")[1:] for row in table.splitlines()}
    assert cells["| attention_flash"][0] == "differ in step 1"
    assert cells["| attention_flash"][1].startswith("not comparable; ")
    assert cells["| gemm_bf16"][0] == f"{gpu_jobs.STEPS} steps"
    assert cells["| gemm_bf16"][1].startswith("same bits; ")


def test_bits_are_compared_up_to_where_the_controls_part() -> None:
    def told(bits: str, budget: bool = False) -> dict[str, object]:
        return {
            "status": "done",
            "budget": 9 if budget else None,
            "said": [],
            "told": {
                "bits": list(bits),
                "peaks": [{"allocated": 1, "reserved": 1}] * (len(bits) - 1),
                "report": {"ops_replayed": 1, "bytes_spilled": 0, "plans": []},
            },
        }

    known = {
        "case.c.control1": told("aaaae"),
        "case.c.control2": told("aaabe"),
        "case.c.recomputed": told("aaace", True),
        "case.c.planned": told("aacce", True),
    }
    found = gpu_results.case("c", known)
    assert gpu_table.controls_cell(found) == "differ in step 4"
    assert gpu_table.way_cell(found, found["ways"]["recomputed"]).startswith(
        "same bits in 3 steps"
    )
    assert "differs in step 3" in gpu_table.way_cell(found, found["ways"]["planned"])
    said = list(gpu_results.case_complaints("c", found))
    assert "c, planned: the bits of step 3 differ" in said
    assert not any("recomputed: the bits" in text for text in said)


def test_a_process_that_dies_is_a_row_and_those_behind_it_do_not_run(
    tmp_path: Path,
) -> None:
    chosen = ["--jobs", "gpt-1b.half,gpt-1b.unmanaged,gpt-1b.as-checkpoint"]
    dies = pretended(tmp_path, dies="EBBTIDE_RECORD")
    done = run(command(tmp_path, *chosen), **dies)
    assert done.returncode == 1
    records = jobs_of(tmp_path)
    assert records["gpt-1b.size"]["error"] == "SystemExit: it was told to"
    assert records["gpt-1b.half"]["status"] == "not run"
    assert records["gpt-1b.as-checkpoint"]["status"] == "done"
    table = (tmp_path / "table.md").read_text()
    assert re.search(r"^\| gpt-1b.half \| - \| not run \|", table, re.M), table
    assert "gpt-1b.half did not run to its end: gpt-1b.size has not run to" in table


def test_a_wheel_that_does_nothing_is_an_error_of_the_suite(tmp_path: Path) -> None:
    chosen = ["--jobs", "gpt-1b.half,gpt-1b.as-checkpoint,case.gemm_bf16.planned"]
    missing = {"EBBTIDE_GPU_TESTS_UNMANAGED": "1"}
    done = run(command(tmp_path, *chosen), **pretended(tmp_path), **missing)
    assert done.returncode == 1
    said = "did not run to its end: gpt-1b.size told no 'peak_activations'"
    assert f"gpt-1b.half {said}" in done.stderr, done.stderr
    # The other's budget is from a run that needs no report.
    assert "gpt-1b.as-checkpoint was not managed" in done.stderr


def test_a_process_that_prints_no_figures_counts_as_dead(tmp_path: Path) -> None:
    chosen = ["--jobs", "gpt-1b.checkpoint"]
    done = run(command(tmp_path, *chosen), **pretended(tmp_path, silent=True))
    assert done.returncode == 1
    assert "gpt-1b.checkpoint died: it printed no figures" in done.stderr


def test_a_process_that_takes_too_long_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in pretended(tmp_path, seconds=200).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(gpu_jobs.Job, "limit", 0.5)
    job = gpu_jobs.Job("gpt-1b.half", ("p.py", "2"), 1.0, 1.0, start=0.5)
    limits = gpu_schedule.Limits(cores=1, seconds=60.0)
    begin = time.time()
    with gpu_processes.Processes(tmp_path / "r.jsonl", begin, limits) as world:
        gpu_schedule.drive(gpu_schedule.Schedule([job], limits), world)
    assert 0.5 <= time.time() - begin < 30
    record = jobs_of(tmp_path)["gpt-1b.half"]
    assert (record["status"], record["rc"]) == ("died", -signal.SIGKILL)
    assert str(record["error"]).startswith("it took more than ")


def test_at_the_end_of_the_time_what_runs_is_ended_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in pretended(tmp_path, seconds=200).items():
        monkeypatch.setenv(name, value)
    jobs = [
        gpu_jobs.Job(f"case.gemm_bf16.{name}", ("p.py", "2"), 1.0, 1.0, start=0.5)
        for name in ("control1", "control2")
    ]
    limits = gpu_schedule.Limits(cores=1, seconds=2.0)
    results = tmp_path / "r.jsonl"
    begin = time.time()
    with gpu_processes.Processes(results, begin, limits) as world:
        gpu_schedule.drive(gpu_schedule.Schedule(jobs, limits), world)
    assert 2 <= time.time() - begin < 10
    records = jobs_of(tmp_path)
    assert records["case.gemm_bf16.control1"]["status"] == "ended"
    assert records["case.gemm_bf16.control2"]["status"] == "not run"
    found = gpu_results.summary(gpu_results.read(results))
    said = gpu_results.complaints(found)
    assert any("planned did not run to its end: not yet" in text for text in said)


def test_the_published_table_is_that_of_the_stored_figures(tmp_path: Path) -> None:
    """Figures of a run are stored as it prints them with --json."""
    out = tmp_path / "table.md"
    run([PYTHON, RUNNER, "--table", "--results", tmp_path / "none", "--out", out])
    assert out.read_text() == (harness.RESULTS / "gpu.md").read_text()


def test_figures_printed_as_json_are_those_of_the_table(tmp_path: Path) -> None:
    run(command(tmp_path, "--jobs", "gpt-1b.checkpoint"), **pretended(tmp_path))
    done = run(command(tmp_path, "--json"))
    figures = json.loads(done.stdout)
    assert figures == gpu_results.summary(gpu_results.read(tmp_path / "r.jsonl"))
    row = figures["rows"]["gpt-1b.checkpoint"]
    assert (row["seconds"], row["host"], row["first"]) == (0.1, 0.05, 0.5)
    assert row["reserved"] == 3 << 30


def test_the_table_has_what_the_simulated_device_says_of_a_run() -> None:
    twin = {"gpt-1b.half": {"seconds": 0.14, "reserved": 15 << 30}}
    text = gpu_table.text(gpu_table.stored(), twin)
    rows = {row.split(" | ")[0]: row for row in text.splitlines()}
    assert rows["| gpt-1b.half"].endswith("| 0.1400; 15.00 |")
    assert rows["| gpt-1b.checkpoint"].endswith("| - |")
    assert "| llama.as-checkpoint | 15.54 | died |" in text
