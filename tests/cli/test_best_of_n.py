import json
import math
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import click
import numpy as np
import pytest
from click.testing import CliRunner

from corpo_rl.cli.best_of_n import (
    best_of_n_options,
    final_answer_votes,
    read_answer_groups,
    run_best_of_n,
    show_best_of_n,
)
from corpo_rl.cli.main import cli
from corpo_rl.errors import DataError, UsageError
from corpo_rl.pairs.final_answers import FinalAnswerJudge
from corpo_rl.ranking.result import RankingSettings
from corpo_rl.records import SamplingSettings
from corpo_rl.tasks.mini import MiniTask, wrong_answers
from tests.ranking.verifiers import Verifier

DOCS = Path(__file__).parents[2] / "docs" / "ranking.md"
PUBLISHED = Path(__file__).parents[2].parent / "shared" / "data" / "gsm8k" / "example_model_solutions.jsonl"
GREEDY = SamplingSettings(max_new_tokens=64, temperature=0.0)
MODELS = ("six", "seven", "eight", "nine")


@pytest.fixture
def verifier(monkeypatch):
    """A scripted policy in the place of a real one, which knows that answers with "surely" are right."""
    scripted = Verifier(lambda a, b: (9 if "surely" in a else 1, 9 if "surely" in b else 1))
    scripted.specs = []

    def open_policy(spec, **asking):
        scripted.specs.append(spec)
        scripted.asking = asking
        return SimpleNamespace(name=spec, stream=scripted)

    monkeypatch.setitem(sys.modules, "corpo_rl.policies.opening", SimpleNamespace(open_policy=open_policy))
    return scripted


def written(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def solutions(tmp_path):
    """GSM8K's form: in problem k the models say k, k, k + 1 and k + 2, and k + k % 3 is right."""
    rows = []
    for number in range(6):
        said = [number, number, number + 1, number + 2]
        right = number + number % 3
        row = {"question": f"What is {number}?", "ground_truth": f"A: {right}"}
        for model, value in zip(MODELS, said, strict=True):
            how = "surely" if value == right else "hardly"
            row[model] = {"is_correct": value == right, "solution": f"It is {how} so, says {model}.\nA: {value}"}
        rows.append(row)
    return written(tmp_path / "solutions.jsonl", rows)


def tried(labels, problems=None, *, sizes=(4,), out=None, limit=None, **options):
    return run_best_of_n(
        "scripted",
        sizes=sizes,
        labels=labels,
        problems=problems,
        sampling=GREEDY,
        settings=RankingSettings(**options),
        out=out,
        limit=limit,
    )


def values(document):
    return {name: figure["value"] for name, figure in document["figures"].items()}


def test_published_gsm8k_answers(verifier, solutions, capsys):
    (document,) = tried(solutions)
    # random: two problems each with 2, 1, 1 of 4 right; the majority says k, right in problems 0 and 3
    assert values(document) == {
        "random": pytest.approx((2 + 1 + 1) / 12),
        "majority": pytest.approx(1 / 3),
        "verifier": 1.0,
        "oracle": 1.0,
        "gain": pytest.approx(2 / 3),
        "headroom": 1.0,
    }
    assert (document["model"], document["n"], document["n_problems"]) == ("scripted", 4, 6)
    assert document["sampling"]["max_new_tokens"] == 64
    assert verifier.specs == ["scripted"]
    assert "72/72" in capsys.readouterr().err  # 6 problems x 6 pairs x 2 orders


def test_several_sizes_share_their_calls_and_a_limit_takes_the_first_problems(verifier, solutions, tmp_path):
    documents = tried(solutions, sizes=(2, 4), out=tmp_path / "out", limit=3)
    assert [(document["n"], document["n_problems"]) for document in documents] == [(2, 3), (4, 3)]
    assert verifier.n_calls == 3 * 6 * 2, "what was asked for 2 is not asked again for 4"
    assert tried(solutions, sizes=(2, 4), out=tmp_path / "out", limit=3) == documents
    assert verifier.n_calls == 36


def test_figures_are_printed_and_written(verifier, solutions, tmp_path, capsys):
    documents = tried(solutions, sizes=(2, 4))
    capsys.readouterr()
    show_best_of_n(documents, out=tmp_path / "out", as_json=False)
    text = capsys.readouterr().out
    assert [line for line in text.splitlines() if line.startswith("Best of")] == [
        "Best of 2 answers to each of 6 problems",
        "Best of 4 answers to each of 6 problems",
    ]
    show_best_of_n(documents, out=None, as_json=True)
    printed = capsys.readouterr().out
    assert printed == (tmp_path / "out" / "best-of-n.json").read_text()
    whole = json.loads(printed)
    assert whole["schema"] == "corpo-rl.best-of-n/1"
    assert [result["n"] for result in whole["results"]] == [2, 4]
    assert whole["results"][1]["figures"]["verifier"]["value"] == 1.0


def test_options_of_a_command(verifier, solutions):
    @click.command()
    @click.argument("model")
    @best_of_n_options
    def judged(model, sizes, labels, problems, method):
        settings = RankingSettings(method=method)
        documents = run_best_of_n(
            model, sizes=sizes, labels=labels, problems=problems, sampling=GREEDY, settings=settings
        )
        show_best_of_n(documents, out=None, as_json=False)

    arguments = ["scripted", "--best-of-n", "2", "--best-of-n", "3", "--labels", str(solutions), "--method", "knockout"]
    result = CliRunner().invoke(judged, arguments)
    assert result.stdout.count("by the verifier") == 2
    assert "Knockout," in result.stdout
    result = CliRunner().invoke(judged, ["scripted", "--best-of-n", "2"])
    assert str(result.exception) == "--labels: expected the file of the labelled answers to pick from, found none"
    help_text = CliRunner().invoke(judged, ["--help"]).stdout
    assert all(len(line) <= 80 for line in help_text.splitlines())


def evaluated(*arguments):
    return CliRunner().invoke(cli, ["evaluate", *map(str, arguments)])


def test_evaluate_picks_the_best_of_n(verifier, solutions, tmp_path):
    out = tmp_path / "out"
    arguments = ["scripted", "--best-of-n", 2, "--labels", solutions, "--out", out, "--limit", 5, "--level", 0.5]
    first = evaluated(*arguments)
    assert first.exit_code == 0, first.exception
    assert "Best of 2 answers to each of 5 problems" in first.stdout
    assert "50 % interval" in first.stdout
    assert sorted(path.name for path in out.iterdir()) == ["best-of-n.json", "calls.jsonl"]
    asked = verifier.n_calls
    again = evaluated(*arguments, "--json")
    assert json.loads(again.stdout) == json.loads((out / "best-of-n.json").read_text())
    assert verifier.n_calls == asked
    assert evaluated(*arguments, "--force").stdout == first.stdout
    assert verifier.n_calls == 2 * asked


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["scripted", "--best-of-n", 2],
            "--labels: expected the file of the labelled answers to pick from, found none",
        ),
        (["one", "two", "--best-of-n", 2], "--best-of-n: expected one model and no pairs, found 'one', 'two'"),
    ],
)
def test_evaluate_refuses_before_anything_is_opened(verifier, tmp_path, arguments, message):
    result = evaluated(*arguments, "--out", tmp_path / "out")
    assert str(result.exception) == message
    assert verifier.specs == []


def test_every_field_of_the_file_is_described(verifier, solutions):
    described = set(re.findall(r"`([\w-]+)`", DOCS.read_text(encoding="utf-8").split("## Files")[1]))
    (document,) = tried(solutions)
    parts = (document, document["figures"]["gain"], document["problems"][0])
    assert {name for part in parts for name in part} - described == set()


def test_votes_of_equal_answers_are_equal():
    texts = [
        "Half.\nA: 1/2",
        "So it is\n#### 0.50",
        "thus $\\boxed{\\frac{1}{2}}$",
        "neither mark nor number",
        "A: $1,200",
        "A: 1200.00",
        "A: 12",
        "A: seven",
    ]
    with FinalAnswerJudge() as judge:
        votes = final_answer_votes(texts, judge)
        assert votes[0] == votes[1] == votes[2]
        assert votes[3] is None
        assert votes[4] == votes[5]
        assert len({*votes[:2], *votes[3:]}) == 5  # 1/2, none, 1200, 12 and seven
        assert final_answer_votes([], judge) == []


def test_plain_numbers_need_no_judge():
    class Absent:
        def judge(self, tests, text):
            raise AssertionError("asked about plain numbers")

    texts = ["A: 7", "A: $7.00", "A: 8", "A: -7", "A: 7.", "3 and 4, so the answer is 7.", "1,007 eggs", "8"]
    assert final_answer_votes(texts, Absent()) == ["7", "7", "8", "-7", "7", "7", "1,007", "8"]


def label(problem_id, number, text, correct):
    status = "not_judged" if correct is None else "ok" if correct else "wrong"
    return {
        "problem_id": problem_id,
        "candidate_id": str(number),
        "source": "model",
        "text": text,
        "correct": correct,
        "passed": int(correct is True),
        "total": 1,
        "status": status,
    }


@pytest.fixture
def labels(tmp_path):
    rows = [label("one", row, f"{how} {row}", how == "surely") for row, how in enumerate(["surely", "no", "no"])]
    rows += [label("two", row, f"no {row}", False) for row in range(3)]
    rows += [label("few", 0, "surely", True), label("few", 1, "?", None)]
    return written(tmp_path / "labels.jsonl", rows)


def problems_file(path, names, tests):
    return written(path, [{"problem_id": name, "text": f"Problem {name}?", "tests": tests} for name in names])


def test_a_labels_file_with_its_problems(verifier, labels, tmp_path):
    cases = {"cases": [{"input": "1", "output": "2"}]}
    problems = problems_file(tmp_path / "problems.jsonl", ["two", "few", "one", "unasked"], cases)
    (document,) = tried(labels, problems, sizes=(3,))
    found = values(document)
    assert (found["random"], found["verifier"], found["oracle"]) == (pytest.approx(1 / 6), 0.5, 0.5)
    assert math.isnan(found["majority"]), "programs have no final answer to vote for"
    assert (document["n_problems"], document["n_too_few"], document["n_not_judged"]) == (2, 1, 1)
    assert {request.prompt.split("\n")[0] for request in verifier.batches[0]} == {
        "Problem: Problem one?",
        "Problem: Problem two?",
    }


def test_math_labels_vote(verifier, tmp_path):
    rows = [label("one", row, f"so\n#### {said}", said == "0.5") for row, said in enumerate(["1/2", "0.5", "7"])]
    rows[0] |= {"correct": True, "status": "ok"}
    problems = problems_file(tmp_path / "problems.jsonl", ["one"], {"answer": "1/2"})
    (document,) = tried(written(tmp_path / "labels.jsonl", rows), problems, sizes=(3,))
    assert values(document)["majority"] == 1.0


def test_labels_of_other_problems_are_refused(verifier, labels, tmp_path):
    problems = problems_file(tmp_path / "problems.jsonl", ["two"], {"answer": "1"})
    message = (
        f"{labels}: expected answers to the problems of {problems}, found 2 others (the first is 'few'); give the file "
        "that was labelled with"
    )
    with pytest.raises(DataError, match=re.escape(message)):
        tried(labels, problems)
    assert verifier.specs == []


def test_labels_need_their_problems(verifier, tmp_path):
    path = written(tmp_path / "labels.jsonl", [{"problem_id": "a", "text": "x", "correct": True}])
    with pytest.raises(UsageError, match="--problems: expected the file of the problems that the labels are about"):
        tried(path)
    assert verifier.specs == []


def test_the_embedded_policy_gains_over_a_blind_pick(tmp_path):
    rng = np.random.default_rng(0)
    problems, rows = [], []
    for item in MiniTask().items("in_domain")[:80]:
        right = sum(map(int, item.problem.split("+")))
        problems.append({"problem_id": item.item_id, "text": item.problem, "tests": {"answer": str(right)}})
        slips = wrong_answers(rng, right)[:3]
        said = [right if rng.random() < 0.3 else slips[rng.integers(3)] for _ in range(4)]
        rows += [label(item.item_id, row, str(value), value == right) for row, value in enumerate(said)]
    (document,) = run_best_of_n(
        "mini",
        sizes=[4],
        labels=written(tmp_path / "labels.jsonl", rows),
        problems=written(tmp_path / "problems.jsonl", problems),
        sampling=SamplingSettings(max_new_tokens=12, temperature=0.0),
        settings=RankingSettings(),
        task="mini",
        batch_size=256,
    )
    found = values(document)
    assert found["random"] < found["verifier"] < found["oracle"]
    assert document["figures"]["gain"]["low"] > 0
    assert document["n_unranked"] == document["n_unvoted"] == 0
    assert found["random"] < found["majority"] < found["oracle"]


@pytest.mark.skipif(not PUBLISHED.exists(), reason="needs the published GSM8K answers beside the checkout")
def test_the_published_answers_can_be_read_whole():
    groups, is_math = read_answer_groups(PUBLISHED, None)
    assert is_math
    assert len(groups) == 1319
    answers = [answer for group in groups for answer in group.answers]
    # 286 + 515 + 458 + 742 right ones of 5,276, of which 11 have no final answer
    assert len(answers) == 5265
    assert sum(answer.correct for answer in answers) == 2001
