import hashlib

import numpy as np
import pytest

from corpo_rl.errors import ParseFailure, UsageError
from corpo_rl.records import EVALUATION_SPLITS, TRAIN
from corpo_rl.tasks.base import grade
from corpo_rl.tasks.mini import (
    DIFFERENCES,
    SIZES,
    SUMS,
    MiniTask,
    held_out_problems,
    make_item,
    wrong_answers,
)

TASK = MiniTask()


def solve(problem):
    if "+" in problem:
        return sum(int(operand) for operand in problem.split("+"))
    first, second = problem.split("-")
    return int(first) - int(second)


@pytest.mark.parametrize("split", SIZES)
def test_labels_say_which_candidates_equal_the_right_answer(split):
    assert len(TASK.items(split)) == SIZES[split]
    for item in TASK.items(split):
        labels = (int(item.answer_a) == solve(item.problem), int(item.answer_b) == solve(item.problem))
        assert (item.label_a, item.label_b) == labels, item


@pytest.mark.parametrize(
    ("split", "kinds"),
    [
        (TRAIN, {(1, 0): 2445, (0, 1): 2445}),
        ("in_domain", {(1, 0): 98, (0, 1): 98}),
        ("ood", {(1, 1): 49, (0, 0): 49}),
        ("other_domain", {(1, 0): 79, (0, 1): 78}),
    ],
)
def test_kinds_of_pair_are_balanced_over_order_and_difficulty(split, kinds):
    items = TASK.items(split)
    labels = [(item.label_a, item.label_b) for item in items]
    assert {kind: labels.count(kind) for kind in set(labels)} == kinds
    for kind, count in kinds.items():
        n_hard = sum(item.item_id.endswith("hard") for item, label in zip(items, labels, strict=True) if label == kind)
        assert abs(n_hard - count / 2) <= 1


def test_no_problem_occurs_twice_in_either_order():
    problems = [item.problem for split in SIZES for item in TASK.items(split)]
    unordered = {("+" in problem, frozenset(problem.replace("+", "-").split("-"))) for problem in problems}
    assert len(unordered) == len(problems) == sum(SIZES.values())


def test_held_out_problems_are_those_of_the_evaluation_splits():
    for split in EVALUATION_SPLITS:
        assert all(item.problem in held_out_problems() for item in TASK.items(split))
    assert not any(item.problem in held_out_problems() for item in TASK.items(TRAIN))


def test_item_ids_are_unique_within_their_split():
    for split in SIZES:
        assert len({item.item_id for item in TASK.items(split)}) == SIZES[split]


def test_items_never_change():
    # results of runs made on other machines and versions are compared by item: a new list needs a new task name
    text = "\n".join(f"{item.item_id} {TASK.prompt(item)}" for split in SIZES for item in TASK.items(split))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "ef38e985bf5a4fc1"


def test_ood_pairs_are_the_same_number_twice_or_two_wrong_ones():
    for item in TASK.items("ood"):
        assert (item.answer_a == item.answer_b) == (item.label_a == 1)


def test_reference_scores_top_and_known_wrong_ones_fall_short():
    for split in EVALUATION_SPLITS:
        for item in TASK.items(split):
            right = f"{solve(item.problem)};{10 * item.label_a},{10 * item.label_b}"
            swapped = f"{solve(item.problem)};{10 - 10 * item.label_a},{10 - 10 * item.label_b}"
            assert grade(TASK, item, right).reward == 1.0
            assert not any(grade(TASK, item, wrong).correct for wrong in (swapped, "0;5,5", "0;10,5", ""))


def test_own_answer_is_not_graded():
    item = TASK.items("in_domain")[0]  # A right, B wrong
    assert grade(TASK, item, "0;8,2") == grade(TASK, item, "99999;8,2")


@pytest.mark.parametrize(
    ("completion", "kind"),
    [
        ("", "empty"),
        ("83", "no_scores"),
        ("83;", "no_scores"),
        ("83;11,0", "out_of_range"),
        ("83;9,100", "out_of_range"),
        ("83;9", "malformed"),
        ("83;9,1,1", "malformed"),
        ("83;9,-1", "malformed"),
        ("83;9,1\n", "malformed"),
        (" 83;9,1", "malformed"),
        (";9,1", "malformed"),
        ("8٣;9,1", "malformed"),
    ],
)
def test_parse_is_strict_and_names_the_failure(completion, kind):
    with pytest.raises(ParseFailure) as caught:
        TASK.parse(completion)
    assert caught.value.kind == kind
    assert grade(TASK, TASK.items("in_domain")[0], completion).reward == -1.0


def test_wrong_answers_are_wrong_distinct_and_never_negative():
    rng = np.random.default_rng(0)
    for right in (0, 1, 9, 57, 1180):
        wrong = wrong_answers(rng, right)
        assert right not in wrong
        assert len(set(wrong)) == len(wrong) >= 6
        assert min(wrong) >= 0


def test_made_item_carries_the_labels_it_was_asked_for():
    rng = np.random.default_rng(0)
    settings = {"split": TRAIN, "item_id": "x"}
    difference = make_item(rng, 50, 8, domain=DIFFERENCES, labels=(0, 1), **settings)
    assert (difference.problem, difference.answer_b) == ("50-8", "42")
    assert difference.answer_a != "42"
    both = make_item(rng, 50, 8, domain=SUMS, labels=(1, 1), **settings)
    assert (both.problem, both.answer_a, both.answer_b) == ("50+8", "58", "58")


def test_unknown_split_is_named():
    with pytest.raises(UsageError, match="expected one of train, in_domain, ood, other_domain, got 'dev'"):
        TASK.items("dev")
