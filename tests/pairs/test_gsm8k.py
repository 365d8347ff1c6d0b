import json
from pathlib import Path

import numpy as np
import pytest

from corpo_rl.errors import DataError
from corpo_rl.pairs.build import build_pairs
from corpo_rl.pairs.files import normalised
from corpo_rl.pairs.gsm8k import read_gsm8k_answers
from corpo_rl.pairs.shortcuts import DIFFERENCE, FIRST, LONGER, SOURCE, find_shortcuts
from corpo_rl.pairs.splits import PairSizes

PUBLISHED = Path(__file__).parents[2].parent / "shared" / "data" / "gsm8k" / "example_model_solutions.jsonl"


def answer(solution, *, is_correct=True):
    return {"is_correct": is_correct, "solution": solution}


def written(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def question(**changes):
    return {
        "question": "A hen lays 3 eggs a day. How many in 2 days?",
        "ground_truth": "3*2=<<3*2=6>>6\nA: 6",
        "small": answer("3+2 = <<3+2=5>>5 eggs\nA: 5", is_correct=False),
        "large": answer("3*2 = <<3*2=6.0>>6 eggs\nA: 6"),
        **changes,
    }


def test_reads_answers_without_calculator_marks(tmp_path):
    answers = read_gsm8k_answers(written(tmp_path / "a.jsonl", question()))
    (problem,) = answers.problems
    assert problem.problem == "A hen lays 3 eggs a day. How many in 2 days?"
    assert [(one.source, one.text, one.correct) for one in problem.answers] == [
        ("small", "3+2 = 5 eggs\nA: 5", False),
        ("large", "3*2 = 6 eggs\nA: 6", True),
    ]
    assert (answers.n_marked, answers.n_unfinished) == (2, 0)


def test_drops_and_counts_answers_without_an_end(tmp_path):
    rows = question(small=answer("3+2 = 5 eggs, and A: 5"), large=answer("2 < 3 << 4\nA:6"), third=answer("So\nA:"))
    answers = read_gsm8k_answers(written(tmp_path / "a.jsonl", rows))
    assert [(one.source, one.text) for one in answers.problems[0].answers] == [("large", "2 < 3 << 4\nA:6")]
    assert (answers.n_marked, answers.n_unfinished) == (0, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"question": ""}, 'a.jsonl:2: question: expected text, found ""'),
        (
            {"large": "3*2"},
            r"a.jsonl:2: expected the answers of two models or more, .* found 1 \(fields: question, gro",
        ),
        ({"large": answer("A: 6", is_correct="yes")}, 'a.jsonl:2: large: is_correct: expected true or false, found "y'),
        ({"large": {"is_correct": True}}, r"a.jsonl:2: large: no field 'solution' \(fields: is_correct\)"),
        ({"large": answer(None)}, "a.jsonl:2: large: solution: expected text, found null"),
    ],
)
def test_broken_rows(tmp_path, changes, message):
    with pytest.raises(DataError, match=message):
        read_gsm8k_answers(written(tmp_path / "a.jsonl", question(), question(**changes)))


def test_another_file_of_gsm8k_is_told_apart(tmp_path):
    path = written(tmp_path / "test.jsonl", {"question": "How many?", "answer": "#### 6"})
    with pytest.raises(
        DataError, match=r"test.jsonl:1: expected the answers of two models .*\(fields: question, answer"
    ):
        read_gsm8k_answers(path)


def test_file_without_rows(tmp_path):
    (tmp_path / "a.jsonl").write_text("\n")
    with pytest.raises(DataError, match=r"a.jsonl: expected one question a line, found no row"):
        read_gsm8k_answers(tmp_path / "a.jsonl")


@pytest.mark.skipif(not PUBLISHED.is_file(), reason="the published GSM8K answers are not beside this checkout")
def test_published_answers_at_the_papers_sizes():
    answers = read_gsm8k_answers(PUBLISHED)
    assert (len(answers.problems), answers.n_unfinished) == (1319, 11)
    built = build_pairs(
        answers.problems,
        domain="gsm8k",
        sizes=PairSizes(train=None, in_domain=196, ood=98),
        pairs_per_problem=4,
        max_chars=None,
        rng=np.random.default_rng(0),
    )
    assert len(built.split("in_domain")) == 196
    assert len(built.split("ood")) == 98
    assert len(built.split("train")) > 400
    problems_of = [{normalised(item.problem) for item in built.split(name)} for name in ("train", "in_domain", "ood")]
    assert sum(len(one) for one in problems_of) == len(set().union(*problems_of))
    found = {one.rule: one.score for one in find_shortcuts(built.split("train"), rng=np.random.default_rng(0))}
    assert (found[LONGER], found[FIRST], found[SOURCE]) == (0.5, 0.5, 0.5)
    assert abs(found[DIFFERENCE] - 0.5) < 0.02
    assert not any("<<" in item.answer_a + item.answer_b for item in built.items)
