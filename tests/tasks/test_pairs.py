import numpy as np
import pytest

from corpo_rl.errors import DataError, ParseFailure
from corpo_rl.records import VerifierItem
from corpo_rl.tasks.base import grade
from corpo_rl.tasks.pairs import PairsTask
from corpo_rl.tasks.verifier import Scores

RIGHT_WRONG = VerifierItem("1", "3 eggs a day for 2 days?", "3*2 = 6\nA: 6", "3+2 = 5\nA: 5", 1, 0, "gsm8k", "train")
BOTH_WRONG = VerifierItem("1", "One and one?", "3", "4", 0, 0, "sums", "ood")
TASK = PairsTask([RIGHT_WRONG, BOTH_WRONG])


@pytest.mark.parametrize(
    ("completion", "scores"),
    [
        ("A: 8\nB: 2", Scores(8, 2)),
        ("A: 10\nB: 0", Scores(10, 0)),
        ("A:8\nB:2\n\n", Scores(8, 2)),
        ("  A: 8  \r\n\r\n  B: 2", Scores(8, 2)),
        ("A: 07\nB: 02", Scores(7, 2)),
        ("The first multiplies.\nSo it is right.\nA: 8\nB: 2", Scores(8, 2)),
        ("A: 6 is what the first one says.\nA: 8\nB: 2", Scores(8, 2)),
    ],
)
def test_parses(completion, scores):
    assert TASK.parse(completion) == scores


@pytest.mark.parametrize(
    ("completion", "kind"),
    [
        ("", "empty"),
        (" \n\t\n", "empty"),
        ("Both look right.", "no_scores"),
        ("8\n2", "no_scores"),
        ("a: 8\nb: 2", "no_scores"),
        ("So A: 8\nand B: 2", "no_scores"),
        ("A: 8", "missing_score"),
        ("B: 2", "missing_score"),
        ("B: 2\nA: 8", "missing_score"),
        ("A: 8\nthen\nB: 2", "missing_score"),
        ("A: 8 B: 2", "missing_score"),
        ("A: 8\nB: 2\nI hope this helps!", "text_after_scores"),
        ("A: 8\nB: 2\nA: 3", "text_after_scores"),
        ("A: 8\nB: 2\nA: 8\nB: 2", "repeated_scores"),
        ("A: 8/10\nB: 2", "malformed"),
        ("A: 8\nB: 2.5", "malformed"),
        ("A: eight\nB: two", "malformed"),
        ("A:\nB: 2", "malformed"),
        ("A: 8\nB: 2 B: 3", "malformed"),
        ("A: \u0668\nB: 2", "malformed"),  # an Arabic-Indic 8
        ("A: 1e1\nB: 2", "malformed"),
        ("A: " + "9" * 10_000 + "\nB: 2", "malformed"),
        ("A: 11\nB: 2", "out_of_range"),
        ("A: 8\nB: -1", "out_of_range"),
    ],
)
def test_kinds_of_failure(completion, kind):
    with pytest.raises(ParseFailure) as raised:
        TASK.parse(completion)
    assert raised.value.kind == kind


def test_reference_answer_scores_top_and_wrong_ones_fail():
    assert grade(TASK, RIGHT_WRONG, "A: 10\nB: 0").reward == 1.0
    for completion in ("A: 0\nB: 10", "A: 10\nB: 10", "A: 5\nB: 5", "A: 10", ""):
        assert not grade(TASK, RIGHT_WRONG, completion).correct
    assert grade(TASK, BOTH_WRONG, "A: 4\nB: 4").correct
    assert grade(TASK, BOTH_WRONG, "nonsense").reward == TASK.unparsable_reward


def test_prompt_holds_the_texts_and_gives_nothing_away():
    prompt = TASK.prompt(RIGHT_WRONG)
    for text in (RIGHT_WRONG.problem, RIGHT_WRONG.answer_a, RIGHT_WRONG.answer_b):
        assert text in prompt
    flipped = VerifierItem("2", *(RIGHT_WRONG.problem, RIGHT_WRONG.answer_a, RIGHT_WRONG.answer_b), 0, 1, "x", "ood")
    assert TASK.prompt(flipped) == prompt


def test_splits_keep_their_order():
    assert list(TASK.items("train")) == [RIGHT_WRONG]
    assert list(TASK.items("ood")) == [BOTH_WRONG]
    assert list(TASK.items("other_domain")) == []
    with pytest.raises(DataError, match="pairs: expected at least one pair, found none"):
        PairsTask([])


def test_format_examples_parse_and_lean_to_the_labels():
    rng = np.random.default_rng(0)
    scores = [TASK.parse(TASK.format_example(RIGHT_WRONG, rng)) for _ in range(2000)]
    sides = set(range(11)) - {5}
    assert {score.a for score in scores} == {score.b for score in scores} == sides
    # two in three; the standard error of a share of 2000 is sqrt(2/9 / 2000) = 0.011
    assert sum(score.a > 5 for score in scores) / 2000 == pytest.approx(2 / 3, abs=0.04)
    assert sum(score.b < 5 for score in scores) / 2000 == pytest.approx(2 / 3, abs=0.04)
