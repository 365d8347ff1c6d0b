import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from corpo_rl.cli.main import cli
from corpo_rl.errors import DataError, UsageError
from tests.ranking.verifiers import Verifier, by_quality

DOCS = Path(__file__).parents[2] / "docs" / "ranking.md"


@pytest.fixture
def verifier(monkeypatch):
    """A scripted policy in the place of a real one: longer is better. Its `specs` say what was opened."""
    scripted = by_quality(len)
    scripted.specs = []
    scripted.sampled = []

    def stream(requests, sampling):
        scripted.sampled.append(sampling)
        return scripted(requests, sampling)

    def open_policy(spec, **asking):
        scripted.specs.append(spec)
        scripted.asking = asking
        return SimpleNamespace(name=spec, stream=stream)

    monkeypatch.setitem(sys.modules, "corpo_rl.policies.opening", SimpleNamespace(open_policy=open_policy))
    return scripted


@pytest.fixture
def problem(tmp_path):
    path = tmp_path / "problem.txt"
    path.write_text("Name a colour.\n", encoding="utf-8")
    return path


@pytest.fixture
def answers(tmp_path):
    folder = tmp_path / "answers"
    folder.mkdir()
    for name, text in {"a.txt": "red", "b.txt": "violet\n", "c.txt": "green\n\n", "d.txt": "red\n"}.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / ".hidden").write_text("")
    return folder


def run(*arguments, stdin=None):
    return CliRunner().invoke(cli, ["rank", *map(str, arguments)], input=stdin)


def refused(kind, *arguments, stdin=None):
    """The message of a refused call, which prints nothing to stdout."""
    result = run(*arguments, stdin=stdin)
    assert isinstance(result.exception, kind), result.exception
    assert result.stdout == ""
    return str(result.exception)


def test_a_folder_of_answers(verifier, problem, answers):
    result = run(problem, answers, "--model", "scripted")
    assert result.exit_code == 0, result.exception
    assert verifier.specs == ["scripted"]
    assert [line.split()[5:] for line in result.stdout.splitlines()[2:5]] == [
        ["b.txt", "violet"],
        ["c.txt", "green"],
        ["a.txt", "(+1)", "red"],
    ]
    assert "Best: b.txt." in result.stdout
    assert "6/6" in result.stderr
    assert "Problem: Name a colour.\n\nAnswer A:\n" in verifier.batches[0][0].prompt


def test_json_lines_and_lines_of_text(verifier, problem, tmp_path):
    rows = [
        '{"completion": "red", "task_id": 1}',
        '"  violet"',
        "",
        '{"task_id": 1, "text": "green\\n", "answer": "x"}',
    ]
    path = tmp_path / "answers.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + "\n".join(rows).encode())
    found = json.loads(run(problem, path, "--model", "scripted", "--json").stdout)
    # leading spaces belong to an answer (a program's body), line ends around it do not
    assert [(row["names"], row["text"], row["score"]) for row in found["answers"]] == [
        (["line 2"], "  violet", 8),
        (["line 4"], "green", 5),
        (["line 1"], "red", 3),
    ]
    array = tmp_path / "answers.json"
    array.write_text(json.dumps(["red", {"output": "violet"}], indent=1))
    found = json.loads(run(problem, array, "--model", "scripted", "--json").stdout)
    assert [(row["names"], row["text"]) for row in found["answers"]] == [(["item 2"], "violet"), (["item 1"], "red")]
    text = tmp_path / "answers.txt"
    text.write_text("red\n\n violet \n")
    found = json.loads(run(problem, text, "--model", "scripted", "--json").stdout)
    assert [(row["names"], row["text"]) for row in found["answers"]] == [(["line 3"], "violet"), (["line 1"], "red")]


def test_problem_from_standard_input_and_the_best_alone(verifier, answers):
    result = run("-", answers, "--model", "scripted", "--print-best", stdin="Why?\n")
    assert (result.exit_code, result.stdout) == (0, "violet\n")
    assert verifier.batches[0][0].prompt.startswith("Problem: Why?\n\nAnswer A")


def test_settings_reach_the_ranking(verifier, problem, answers):
    arguments = ["--method", "knockout", "--one-order", "--samples", "3", "--seed", "4", "--max-new-tokens", "9"]
    found = json.loads(run(problem, answers, "--model", "scripted", "--json", *arguments).stdout)
    assert found["settings"] == {
        "method": "knockout",
        "rank_by": "score",
        "both_orders": False,
        "n_samples": 3,
        "rounds": None,
        "max_calls": 10_000,
        "seed": 4,
    }
    assert found["sampling"] == {"max_new_tokens": 9, "temperature": 1.0, "top_p": 1.0}
    assert found["n_calls"] == 2 * 3
    assert {sampling.temperature for sampling in verifier.sampled} == {1.0}
    assert verifier.asking == {"batch_size": 16, "concurrency": 16, "timeout": 120.0, "retries": 5}
    run(problem, answers, "--model", "scripted", "--batch-size", 3, "--concurrency", 4, "--timeout", 5, "--retries", 6)
    assert verifier.sampled[-1].temperature == 0.0
    assert verifier.asking == {"batch_size": 3, "concurrency": 4, "timeout": 5.0, "retries": 6}
    swiss = json.loads(
        run(
            problem, answers, "--model", "scripted", "--json", "--method", "swiss", "--rounds", 1, "--by", "wins"
        ).stdout
    )
    assert (swiss["settings"]["rounds"], swiss["settings"]["rank_by"], swiss["n_calls"]) == (1, "wins", 2)


def test_a_finished_ranking_is_printed_again_and_another_needs_force(verifier, problem, answers, tmp_path):
    out = tmp_path / "out"
    first = run(problem, answers, "--model", "scripted", "--out", out)
    assert first.exit_code == 0
    asked = verifier.n_calls
    document = json.loads((out / "ranking.json").read_text())
    assert document["answers"][0]["text"] == "violet"
    assert document["problem"] == "Name a colour."
    again = run(problem, answers, "--model", "scripted", "--out", out)
    assert (again.stdout, verifier.n_calls) == (first.stdout, asked)
    message = refused(UsageError, problem, answers, "--model", "scripted", "--out", out, "--seed", 1)
    assert message == f"--out {out}: expected a new folder, found another ranking; choose another or --force"
    assert run(problem, answers, "--model", "scripted", "--out", out, "--seed", 1, "--force").exit_code == 0
    assert verifier.n_calls == 2 * asked
    (out / "mine.txt").write_text("kept")
    run(problem, answers, "--model", "scripted", "--out", out, "--force")
    assert sorted(path.name for path in out.iterdir()) == ["calls.jsonl", "mine.txt", "ranking.json"]


def test_a_killed_ranking_goes_on(verifier, problem, answers, tmp_path):
    out = tmp_path / "out"
    run(problem, answers, "--model", "scripted", "--out", out)
    calls = (out / "calls.jsonl").read_text().splitlines(keepends=True)
    (out / "ranking.json").unlink()
    (out / "calls.jsonl").write_text("".join(calls[:4])[:-3])  # torn in its last line
    before = verifier.n_calls
    assert run(problem, answers, "--model", "scripted", "--out", out).exit_code == 0
    assert verifier.n_calls == before + 3


def test_every_field_of_the_files_is_described(verifier, problem, answers):
    described = set(re.findall(r"`(\w+)`", DOCS.read_text(encoding="utf-8").split("`ranking.json` (also")[1]))
    document = json.loads(run(problem, answers, "--model", "scripted", "--json").stdout)
    parts = (document, document["sampling"], document["settings"], document["answers"][0], document["comparisons"][0])
    assert {name for part in parts for name in part} - described == set()


def test_nothing_parsed_is_shown_and_is_an_error(monkeypatch, problem, answers):
    mute = Verifier(lambda a, b: "A nice question!")
    opening = SimpleNamespace(open_policy=lambda spec, **asking: SimpleNamespace(name=spec, stream=mute))
    monkeypatch.setitem(sys.modules, "corpo_rl.policies.opening", opening)
    result = run(problem, answers, "--model", "smollm2")
    assert isinstance(result.exception, DataError)
    assert str(result.exception) == (
        "smollm2: expected completions with two scores, found none among 6 (no_scores 6); the verifier has to be "
        "taught the form first"
    )
    assert "No answer could be ranked" in result.stdout
    assert run(problem, answers, "--model", "smollm2", "--print-best").stdout == ""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("red\n", "answers.txt: expected at least two different answers, found one"),
        ("red\nred\nred\n", "answers.txt: expected at least two different answers, found 3 that are all the same text"),
        ("\n\n", "answers.txt: expected an answer a line, found none"),
    ],
)
def test_too_few_answers(verifier, problem, tmp_path, content, message):
    path = tmp_path / "answers.txt"
    path.write_text(content)
    assert refused(DataError, problem, path, "--model", "scripted") == f"{tmp_path}/{message}"
    assert verifier.specs == [], "refused before any model is loaded"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('"a"\n{"text": "b"', ": line 2: expected a JSON object or text, found broken JSON ("),
        (
            '"a"\n{"code": "b", "id": 1}',
            ": line 2: expected one of the fields text, completion, answer, solution, response, output, found code, id",
        ),
        (
            '"a"\n{}',
            ": line 2: expected one of the fields text, completion, answer, solution, response, output, found none",
        ),
        ('"a"\n{"text": ["b"]}', ": line 2: expected the answer as text, found list"),
        ('"a"\n7', ": line 2: expected the answer as text, found int"),
        ('"a"\n" \\n"', ": line 2: expected an answer, found an empty text; remove it"),
        ("[" * 100_000, ": line 1: expected a JSON object or text, found broken JSON ("),
        (
            '{"text": "a", "task_id": "one"}\n{"text": "b", "task_id": "two"}',
            ": expected answers to one problem, found several (task_id 'one', task_id 'two', ...); keep one problem's",
        ),
    ],
)
def test_bad_json_lines(verifier, problem, tmp_path, content, message):
    path = tmp_path / "answers.jsonl"
    path.write_text(content)
    assert refused(DataError, problem, path, "--model", "scripted").startswith(f"{path}{message}")


def test_bad_folders_and_problems(verifier, problem, answers, tmp_path):
    (tmp_path / "none").mkdir()
    message = refused(DataError, problem, tmp_path / "none", "--model", "scripted")
    assert message == f"{tmp_path}/none: expected a text file for each answer, found none"
    (answers / "photo.png").write_bytes(b"\x89PNG")
    message = refused(DataError, problem, answers, "--model", "scripted")
    assert message == f"{answers}/photo.png: expected UTF-8 text, found byte 0x89; save it as UTF-8, or take it away"
    (answers / "photo.png").write_text(" \n")
    message = refused(DataError, problem, answers, "--model", "scripted")
    assert message == f"{answers}: photo.png: expected an answer, found an empty text; remove it"
    (answers / "photo.png").unlink()
    message = refused(DataError, "-", answers, "--model", "scripted", stdin=" \n")
    assert message == "-: expected the text of the problem, found nothing"


def test_wrong_settings(verifier, problem, answers, tmp_path):
    many = tmp_path / "many.txt"
    many.write_text("".join(f"{number}\n" for number in range(300)))
    message = refused(UsageError, problem, many, "--model", "scripted")
    assert message.startswith("round-robin of 300 different answers takes 89,700 calls to the verifier, over the limit")
    message = refused(UsageError, problem, answers, "--model", "scripted", "--samples", 2, "--temperature", 0)
    assert message == "--samples 2 at --temperature 0: all would be the same; take a temperature above 0"
    message = refused(UsageError, problem, answers, "--model", "scripted", "--json", "--print-best")
    assert message == "--print-best and --json: expected one of the two"
    assert verifier.specs == []


def test_what_click_refuses(verifier, tmp_path):
    result = subprocess.run(
        [sys.executable, "-m", "corpo_rl", "rank", "no-such-file", str(tmp_path), "--model", "x"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 2
    assert "'no-such-file' does not exist" in result.stderr


def test_the_embedded_policy_finds_the_right_sum(tmp_path):
    (tmp_path / "answers.txt").write_text("84\n83\n93\n73\n")
    command = [sys.executable, "-m", "corpo_rl", "rank", "-", "answers.txt", "--model", "mini", "--task", "mini"]
    result = subprocess.run(
        [*command, "--print-best"],
        input="37+46\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
    )
    assert (result.returncode, result.stdout) == (0, "83\n"), result.stderr
