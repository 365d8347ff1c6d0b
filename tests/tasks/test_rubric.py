import numpy as np
import pytest

from corpo_rl.errors import DataError, ParseFailure
from corpo_rl.tasks.base import grade
from corpo_rl.tasks.rubric import RubricItem, RubricTask

FOUR = RubricItem("1", "Name a prime.", "Nine, I think.", "Is it a prime? 1: no. 5: yes.", 4, "train")
MEAN = RubricItem("2", "Name a fruit.", "An apple.", "Is it a fruit?", 3.5, "in_domain", reference_answer="A pear.")
TASK = RubricTask([FOUR, MEAN])


@pytest.mark.parametrize(
    ("completion", "score"),
    [
        ("Score: 4", 4),
        ("Score:4\n\n", 4),
        ("  Score: 1  \r\n", 1),
        ("Score: 05", 5),
        ("Score 5: says the rubric, but no.\nScore: 2", 2),
        ("It is not a prime.\n\nSo I give Score: 5, or less.\nScore: 2", 2),
    ],
)
def test_parses(completion, score):
    assert TASK.parse(completion) == score


@pytest.mark.parametrize(
    ("completion", "kind"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        ("4", "no_score"),
        ("score: 4", "no_score"),
        ("My Score: 4", "no_score"),
        ("Score 4", "no_score"),
        ("Score: 4\nThat is all.", "text_after_score"),
        ("Score: 4\nScore: 4", "repeated_score"),
        ("Score: 2?\nno\nScore: 4", "repeated_score"),
        ("Score:", "malformed"),
        ("Score: four", "malformed"),
        ("Score: 4.0", "malformed"),
        ("Score: 4/5", "malformed"),
        ("Score: \u0664", "malformed"),  # an Arabic-Indic 4
        ("Score: 4 Score: 4", "malformed"),
        ("Score: " + "9" * 10_000, "malformed"),
        ("Score: 0", "out_of_range"),
        ("Score: 6", "out_of_range"),
        ("Score: -4", "out_of_range"),
    ],
)
def test_kinds_of_failure(completion, kind):
    with pytest.raises(ParseFailure) as raised:
        TASK.parse(completion)
    assert raised.value.kind == kind
    assert grade(TASK, FOUR, completion).reward == -1.0


def test_reward_and_correct_by_hand():
    # reference 4: 1 is three off, 1 - 3/2 = -0.5; then 0, 0.5, 1, 0.5. Reference 3.5: 1 - 2.5/2 = -0.25, ...
    graded = [[grade(TASK, item, f"Score: {score}") for score in range(1, 6)] for item in (FOUR, MEAN)]
    assert [one.reward for one in graded[0]] == [-0.5, 0.0, 0.5, 1.0, 0.5]
    assert [one.reward for one in graded[1]] == [-0.25, 0.25, 0.75, 0.75, 0.25]
    assert [one.correct for one in graded[0]] == [False, False, False, True, False]
    assert [one.correct for one in graded[1]] == [False, False, True, True, False]


@pytest.mark.parametrize("n_raters", [1, 2, 3, 4, 7])
def test_every_mean_of_raters_has_a_correct_score_and_never_more_than_two(n_raters):
    for total in range(n_raters, 5 * n_raters + 1):
        item = RubricItem("1", "i", "r", "rubric", total / n_raters, "train")
        n_correct = sum(grade(TASK, item, f"Score: {score}").correct for score in range(1, 6))
        assert n_correct == (2 if (2 * total) % n_raters == 0 and (2 * total // n_raters) % 2 else 1), total


def test_measures_by_hand():
    assert grade(TASK, FOUR, "Score: 2").measures == {
        "absolute_error": 2, "exact": 0, "within_one": 0, "bias": -2,
    }  # fmt: skip
    assert grade(TASK, FOUR, "Score: 4").measures == {"absolute_error": 0, "exact": 1, "within_one": 1, "bias": 0}
    assert grade(TASK, MEAN, "Score: 4").measures == {"absolute_error": 0.5, "exact": 0, "within_one": 1, "bias": 0.5}


def test_prompt_holds_the_texts_and_not_the_score():
    prompt = TASK.prompt(MEAN)
    for text in (MEAN.instruction, MEAN.response, MEAN.rubric, MEAN.reference_answer):
        assert text in prompt
    other = RubricItem("9", MEAN.instruction, MEAN.response, MEAN.rubric, 1, "ood", MEAN.reference_answer)
    assert TASK.prompt(other) == prompt
    assert "deserves a 5" not in TASK.prompt(FOUR)


def test_splits_keep_their_order():
    assert list(TASK.items("train")) == [FOUR]
    assert list(TASK.items("ood")) == []
    with pytest.raises(DataError, match="rubric: expected at least one item, found none"):
        RubricTask([])


def test_examples_are_what_they_say():
    for item in (FOUR, MEAN):
        examples = TASK.examples(item)
        assert [grade(TASK, item, text).correct for text, _ in examples] == [right for _, right in examples]
        assert {right for _, right in examples} == {True, False}


def test_format_examples_lean_to_the_reference():
    rng = np.random.default_rng(0)
    scores = [TASK.parse(TASK.format_example(FOUR, rng)) for _ in range(2000)]
    # 4 in one half, and in a fifth of the other: 0.6, with a standard error of sqrt(.24 / 2000) = 0.011
    assert scores.count(4) / 2000 == pytest.approx(0.6, abs=0.04)
    assert scores.count(1) / 2000 == pytest.approx(0.1, abs=0.03)
