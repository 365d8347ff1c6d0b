import pytest

from corpo_rl.errors import DataError
from corpo_rl.training.verl_reward import compute_score

LABELS = {"label_a": 1, "label_b": 0}


def scored(text, labels=LABELS, **more):
    return compute_score(data_source="pairs/train", solution_str=text, ground_truth=labels, extra_info={}, **more)


def test_worked_by_hand():
    # A is right: (9 - 5) / 5 = 0.8; B is wrong: (5 - 4) / 5 = 0.2; the worse counts, and it reaches 0.2
    # brier ((0.9 - 1)^2 + (0.4 - 0)^2) / 2 = (0.01 + 0.16) / 2 = 0.085
    assert scored("A forgot nothing.\nA: 9\nB: 4") == pytest.approx(
        {"score": 0.2, "acc": 1.0, "unparsable": 0.0, "failure": "none", "brier": 0.085}
        | {"score_accuracy": 1.0, "hedge": 0.0}
    )


@pytest.mark.parametrize(
    ("text", "labels", "score", "acc"),
    [
        ("A: 10\nB: 0", LABELS, 1.0, 1.0),
        ("A: 5\nB: 5", LABELS, 0.0, 0.0),  # a hedge is a failure, better than a wrong side
        ("A: 9\nB: 9", LABELS, -0.8, 0.0),
        ("A: 9\nB: 7", {"label_a": 1, "label_b": 1}, 0.4, 1.0),
        ("A: 0\nB: 1", {"label_a": 0, "label_b": 0}, 0.8, 1.0),
    ],
)
def test_score_and_accuracy(text, labels, score, acc):
    row = scored(text, labels)
    assert (row["score"], row["acc"]) == (pytest.approx(score), acc)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "empty"),
        ("Both are fine.", "no_scores"),
        ("A: 9\nB: 2\nDone.", "text_after_scores"),
        ("A: 9\nB: 2\nA: 9\nB: 2", "repeated_scores"),
        ("A: 9", "missing_score"),
        ("A: nine\nB: 2", "malformed"),
        ("A: 11\nB: 2", "out_of_range"),
    ],
)
def test_what_cannot_be_parsed_gets_the_least_reward_and_its_kind(text, kind):
    row = scored(text)
    assert (row["score"], row["acc"], row["unparsable"], row["failure"]) == (-1.0, 0.0, 1.0, kind)
    assert row["brier"] is row["score_accuracy"] is row["hedge"] is None


def test_keys_are_always_the_same():
    assert list(scored("A: 1\nB: 2")) == list(scored("nothing"))


def test_further_arguments_of_verl_are_taken():
    assert scored("A: 9\nB: 4", reward_router_address=None, reward_model_tokenizer=None)["acc"] == 1.0


@pytest.mark.parametrize("labels", [None, "1", {}, {"label_a": 1}, {"label_a": 1, "label_b": 2}])
def test_a_ground_truth_without_labels_is_refused(labels):
    with pytest.raises(DataError, match=r"reward_model\.ground_truth: expected label_a and label_b, each 0 or 1"):
        scored("A: 9\nB: 4", labels)
