"""Jobs shared out to processes: what is on record is left alone, a failure ends all, and no process is left behind."""

import json
import subprocess
import sys
import textwrap
import time
from collections import deque
from pathlib import Path

import pytest

from corpo_rl.errors import UsageError
from corpo_rl.experiment.folder import write_json
from corpo_rl.study import side_by_side
from corpo_rl.study.execution import job_as_json
from corpo_rl.study.plan import record_path
from corpo_rl.study.side_by_side import StudyError, run_jobs

from .made_up import PLAN

JOBS = [PLAN.job(run, {}) for run in PLAN.runs("pilot")]

WORKER = """
    import json, os, sys, time
    from pathlib import Path
    out = Path(sys.argv[1])
    for line in sys.stdin:
        job = json.loads(line)
        run = job["run"]
        threshold = "" if run["threshold"] is None else f"@{run['threshold']:g}"
        name = f"{run['part']}-{run['base']}-{run['reward']}-{run['method']}{threshold}-s{run['seed']}"
        with (out / "asked.txt").open("a") as file:
            file.write(f"{os.getpid()} {name}\\n")
        BEFORE
        (out / "records").mkdir(exist_ok=True)
        (out / "records" / f"{name}.json").write_text(line)
        print(json.dumps({"name": name, "seconds": 1.4}), flush=True)
"""


@pytest.fixture
def started(monkeypatch):
    """Replace the worker by a script that only writes the record; the processes it was given are returned."""
    processes = []

    def use(before="pass"):
        def start(out, number):
            script = textwrap.dedent(WORKER).replace("BEFORE", before)
            process = subprocess.Popen(
                [sys.executable, "-c", script, str(out)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            processes.append(process)
            return process

        monkeypatch.setattr(side_by_side, "_start", start)
        return processes

    yield use
    for process in processes:
        process.kill()
        process.wait()


def asked(out: Path) -> list[str]:
    path = out / "asked.txt"
    return [line.split()[1] for line in path.read_text().splitlines()] if path.exists() else []


def test_every_job_is_done_once_by_as_many_processes(started, tmp_path):
    processes, said = started(), []
    run_jobs(tmp_path, JOBS, side_by_side=2, n_later=5, say=said.append)
    assert sorted(asked(tmp_path)) == sorted(job.run.name for job in JOBS)
    assert len(processes) == 2
    assert all(process.poll() == 0 for process in processes)
    assert len(said) == len(JOBS)
    assert said[0].startswith(f"[1/{len(JOBS)}] pilot-mini-")
    assert f"{len(JOBS) - 1 + 5} to go, about 0 min" in said[0]
    assert "5 to go" in said[-1]


def test_what_is_on_record_is_not_run_again(started, tmp_path):
    started()
    for job in JOBS[:-2]:
        write_json(record_path(tmp_path, job.run), job_as_json(job))
    said = []
    run_jobs(tmp_path, JOBS, side_by_side=1, n_later=0, say=said.append)
    assert asked(tmp_path) == [job.run.name for job in JOBS[-2:]]
    assert [line.split()[0] for line in said] == ["[19/20]", "[20/20]"]
    assert said[-1].endswith("that was the last one")
    run_jobs(tmp_path, JOBS, side_by_side=1, n_later=0, say=said.append)
    assert len(said) == 2


def test_other_settings_are_refused(started, tmp_path):
    processes = started()
    write_json(record_path(tmp_path, JOBS[3].run), job_as_json(JOBS[3]) | {"learning_rate": 0.5})
    with pytest.raises(UsageError, match=r"learning_rate is 0\.5 there and 0\.001 here; name a new folder"):
        run_jobs(tmp_path, JOBS, side_by_side=1, n_later=0, say=print)
    assert processes == []


def test_a_process_takes_a_fresh_one_after_so_many_runs(started, tmp_path, monkeypatch):
    processes = started()
    monkeypatch.setattr(side_by_side, "MOST_RUNS", 8)
    run_jobs(tmp_path, JOBS, side_by_side=1, n_later=0, say=lambda line: None)
    assert len(processes) == 3  # 8 + 8 + 4
    assert sorted(asked(tmp_path)) == sorted(job.run.name for job in JOBS)


@pytest.mark.parametrize(
    ("before", "message"),
    [
        ("print(json.dumps({'name': name, 'error': 'KeyError: x'}), flush=True); continue", "KeyError: x"),
        ("os._exit(7)", "its process ended with exit code 7"),
        ("os.kill(os.getpid(), 9)", "its process ended with exit code -9"),
        ("print('no answer', flush=True); sys.exit(3)", "its process ended with exit code 3"),
    ],
)
def test_a_failure_names_the_run_and_leaves_no_process(started, tmp_path, before, message):
    processes = started(f"if name.endswith('grpo-s101'): {before}")
    with pytest.raises(StudyError, match=rf"grpo-s101: {message}; see .*worker-\d.log\. The same command goes on"):
        run_jobs(tmp_path, JOBS, side_by_side=2, n_later=0, say=lambda line: None)
    assert all(process.poll() is not None for process in processes)
    started()
    run_jobs(tmp_path, JOBS, side_by_side=2, n_later=0, say=lambda line: None)
    assert all(record_path(tmp_path, job.run).exists() for job in JOBS)


def test_a_process_that_is_ended_because_of_another_is_not_blamed(tmp_path, monkeypatch):
    """A failure has the others killed, and their ends may arrive before it is told."""
    crew = side_by_side._Crew(tmp_path, deque(JOBS), n_before=0, n_later=0, say=lambda line: None)
    for number, reason in enumerate(("KeyError: x", "its process ended with exit code -9")):
        monkeypatch.setattr(side_by_side, "_asked", lambda *_, reason=reason: {"error": reason})
        assert not crew._done(JOBS[number], None, number)
    with pytest.raises(StudyError, match=f"{JOBS[0].run.name}: KeyError: x; see .*worker-0.log"):
        crew.work(0)


def test_an_interrupt_leaves_no_process(started, tmp_path, monkeypatch):
    processes = started("time.sleep(60)")
    slept = time.sleep

    def interrupted(seconds):
        slept(seconds)
        if len(asked(tmp_path)) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(side_by_side.time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_jobs(tmp_path, JOBS, side_by_side=2, n_later=0, say=lambda line: None)
    assert [process.poll() for process in processes] == [-9, -9]


def test_the_worker_answers_errors_in_a_line(tmp_path):
    pytest.importorskip("trl", reason="the worker imports what trains")
    job = job_as_json(JOBS[0])
    job["run"]["reward"] = "log"
    ran = subprocess.run(
        [sys.executable, "-m", "corpo_rl.study.worker", str(tmp_path), "0"],
        input=json.dumps(job) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    (answer,) = ran.stdout.splitlines()
    assert json.loads(answer)["error"] == "reward: expected one of min_margin, brier, got 'log'"
