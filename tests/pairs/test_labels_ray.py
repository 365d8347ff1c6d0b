"""The engine on a local Ray of two workers: slow to start, so one cluster serves all tests but the command's."""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest

from corpo_rl.errors import CorpoError, MissingExtraError
from corpo_rl.pairs import engines
from corpo_rl.pairs.engines import JudgingJob, judge_on_ray
from corpo_rl.records import OK, WRONG, FunctionTests, Verdict

ray = pytest.importorskip("ray")

TESTS = FunctionTests("f", "assert f() == 1")


@pytest.fixture(scope="module")
def cluster():
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()


def scripted():
    """Judges that obey the answer's word. Made here, so that they travel to the actors by value."""

    class Scripted:
        def __init__(self):
            self.n_judged = 0

        def judge(self, tests, answer):
            self.n_judged += 1
            word = answer.split()[0]
            if word == "die":
                os._exit(1)
            if word == "bug":
                raise ZeroDivisionError("a bug of the judge")
            if word == "unavailable":
                raise MissingExtraError("judging final answers", "pairs")
            if "slow" in answer:
                time.sleep(0.05)
            return Verdict(OK if word == "right" else WRONG, 1, 1, detail=f"{os.getpid()}")

    return Scripted()


def jobs_of(*answers):
    return [JudgingJob(str(number), TESTS, answer) for number, answer in enumerate(answers)]


def test_every_job_has_its_own_verdict_from_one_of_two_workers(cluster):
    # slow enough for the second worker to start in the meantime
    answers = [f"{'right' if number % 3 else 'wrong'} slow" for number in range(100)]
    found = list(judge_on_ray(jobs_of(*answers), new_judges=scripted, workers=2))
    assert {int(key): verdict.status for key, verdict in found} == {
        number: "ok" if number % 3 else "wrong" for number in range(100)
    }
    assert len(found) == 100
    processes = {verdict.detail for _, verdict in found}
    assert len(processes) == 2
    assert str(os.getpid()) not in processes


def test_jobs_are_read_as_they_are_needed(cluster):
    n_read = 0

    def endless():
        nonlocal n_read
        while True:
            n_read += 1
            yield JudgingJob(str(n_read), TESTS, "right")

    coming = judge_on_ray(endless(), new_judges=scripted, workers=2)
    for number, _ in enumerate(coming, start=1):
        assert n_read <= number + 3 * 16  # a batch at each worker, and the one that is being given out
        if number == 100:
            break
    coming.close()


def test_the_job_under_which_workers_die_is_not_judged_and_the_others_are(cluster):
    answers = ["right"] * 40
    answers[7] = answers[25] = "die"
    found = dict(judge_on_ray(jobs_of(*answers), new_judges=scripted, workers=2))
    assert len(found) == 40
    dead = {key for key, verdict in found.items() if verdict.status == "not_judged"}
    assert dead == {"7", "25"}
    assert found["7"].correct is None
    assert found["7"].detail.startswith("its worker died: ")
    assert len(found["7"].detail.splitlines()) == 1
    assert all(verdict.status == "ok" for key, verdict in found.items() if key not in dead)


def test_workers_that_die_again_and_again_end_the_job_without_labels(cluster, monkeypatch):
    monkeypatch.setattr(engines, "_MOST_DEATHS", 1)
    found = []
    with pytest.raises(
        CorpoError, match=r"^Ray's workers died under 1 candidates in a row .* run the same command again"
    ):
        found.extend(judge_on_ray(jobs_of(*["die"] * 5), new_judges=scripted, workers=1))
    assert found == []


def test_workers_that_find_no_core_get_no_work(cluster):
    found = list(judge_on_ray(jobs_of(*["right"] * 60), new_judges=scripted, workers=4))
    assert len(found) == 60


def test_no_jobs_are_no_wait(cluster):
    assert list(judge_on_ray([], new_judges=scripted, workers=2)) == []


def test_a_worker_that_does_not_start_is_named(cluster):
    def broken():
        raise ModuleNotFoundError("No module named 'corpo_rl'")

    with pytest.raises(CorpoError, match=r"^a worker does not start on a node of the Ray cluster .*corpo_rl"):
        list(judge_on_ray(jobs_of("right"), new_judges=broken, workers=1))


@pytest.mark.parametrize(
    ("word", "error", "message"),
    [
        ("bug", ZeroDivisionError, "a bug of the judge"),
        ("unavailable", CorpoError, r"^judging final answers needs libraries .* pip install 'corpo-rl\[pairs\]'$"),
    ],
)
def test_an_error_of_a_judge_is_no_verdict(cluster, word, error, message):
    with pytest.raises(error, match=message):
        list(judge_on_ray(jobs_of("right", word, "right"), new_judges=scripted, workers=1))


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")
def test_the_command_gives_the_same_labels_as_in_threads(cluster, tmp_path):
    problems, candidates = tmp_path / "problems.jsonl", tmp_path / "candidates.jsonl"
    with problems.open("w") as file:
        for k in range(6):
            tests = {"entry_point": "plus", "source": "\n".join(f"assert plus({x}) == {x + k}" for x in range(3))}
            row = {"problem_id": f"plus{k}", "text": f"Add {k}.", "tests": tests}
            file.write(json.dumps({**row, "reference": f"def plus(x):\n    return x + {k}\n"}) + "\n")
    bodies = [
        *(f"return x + {k}" for k in range(5)),
        "import no_such_module_anywhere",
        "return x / 0",
        "return (",
        "import os; os._exit(0)",
        "raise SystemExit",
    ]
    with candidates.open("w") as file:
        for k in range(6):
            for body in bodies:
                row = {"problem_id": f"plus{k}", "text": f"def plus(x):\n    {body}\n", "source": "m"}
                file.write(json.dumps(row) + "\n")
    labels = {}
    for engine, options in {
        "local": ["--workers", "2"],
        "ray of its own": ["--engine", "ray", "--workers", "2"],
        "ray": ["--engine", "ray", "--ray-address", cluster],
    }.items():
        out = tmp_path / f"{engine}.jsonl"
        command = [sys.executable, "-m", "corpo_rl", "pairs", "label", str(candidates), "--problems", str(problems)]
        command += ["--out", str(out), *options, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        summary = json.loads(done.stdout)
        assert (summary["n_candidates"], summary["n_references"], summary["failed_references"]) == (60, 6, {})
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        labels[engine] = [{**row, "seconds": None} for row in rows]
    assert labels["ray"] == labels["local"]
    assert labels["ray of its own"] == labels["local"]
    assert {row["status"] for row in labels["ray"]} == {"ok", "wrong", "load_error", "missing_module"}
