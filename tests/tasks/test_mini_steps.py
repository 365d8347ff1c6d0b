import hashlib

import numpy as np
import pytest

from corpo_rl.errors import ParseFailure, UsageError
from corpo_rl.policies.mini import CHARACTERS, MAX_POSITIONS
from corpo_rl.records import EVALUATION_SPLITS, TRAIN
from corpo_rl.tasks.base import grade
from corpo_rl.tasks.mini_steps import (
    SIZES,
    SLIP,
    MiniStepsTask,
    SumItem,
    held_out_problems,
    make_item,
    warm_start_examples,
)

TASK = MiniStepsTask()
TWO_LINES = SumItem("short", (12, 47, 25), TRAIN)  # 59;84
THREE_LINES = SumItem("long", (12, 47, 25, 10), TRAIN)  # 59;84;94


def reference(item):
    return ";".join(str(sum(item.operands[: n + 1])) for n in range(1, len(item.operands)))


def steps(item, completion):
    return [tuple(step) for step in TASK.step_rewards(item, completion)]


@pytest.mark.parametrize("split", SIZES)
def test_reference_scores_top_as_a_whole_and_in_every_step(split):
    for item in TASK.items(split):
        graded = grade(TASK, item, reference(item))
        assert graded.reward == 1.0
        assert graded.correct
        assert graded.measures == {"right_lines": 1.0, "wrong_number_of_lines": 0.0, "unsound": 0.0}
        assert [reward for _, _, reward in steps(item, reference(item))] == [1.0] * item.n_lines


@pytest.mark.parametrize("split", SIZES)
def test_known_wrong_answers_fall_short(split):
    for item in TASK.items(split)[:500]:
        right = reference(item)
        *lines, total = right.split(";")
        for wrong in ("", total, right + ";", f"{right};{total}", ";".join([*lines, str(int(total) + 1)])):
            graded = grade(TASK, item, wrong)
            assert graded.reward < TASK.min_correct
            assert not graded.correct
            assert min(reward for _, _, reward in steps(item, wrong)) < TASK.step_min_correct


def test_outcome_is_graded_by_how_far_the_total_is_off():
    # total 84: off by 1, 10, 84 and over 100
    found = [grade(TASK, TWO_LINES, f"59;{total}").reward for total in (85, 74, 0, 185)]
    assert found == [-0.01, -0.1, -0.84, -1.0]


@pytest.mark.parametrize(
    ("item", "completion", "expected"),
    [
        # right after a wrong line: 58 is off by 1, and 58 + 25 = 83 follows from it
        (TWO_LINES, "58;83", [(0, 3, -0.01), (3, 5, 1.0)]),
        # the true total after a wrong line does not follow from it: 58 + 25 = 83, off by 1
        (TWO_LINES, "58;84", [(0, 3, -0.01), (3, 5, -0.01)]),
        # a line that is no number, and one with nothing to judge it by
        (THREE_LINES, "59;8+;94", [(0, 3, 1.0), (3, 6, -1.0), (6, 8, None)]),
        (THREE_LINES, "+;99;109", [(0, 2, -1.0), (2, 5, None), (5, 8, 1.0)]),
        (THREE_LINES, "059;84;94", [(0, 4, -1.0), (4, 7, None), (7, 9, 1.0)]),
        # an empty line is no number either
        (THREE_LINES, ";84;94", [(0, 1, -1.0), (1, 4, None), (4, 6, 1.0)]),
        # too many: all that follows is one step, its separator included
        (TWO_LINES, "59;84;94;1", [(0, 3, 1.0), (3, 5, 1.0), (5, 10, -1.0)]),
        (TWO_LINES, "59;;", [(0, 3, 1.0), (3, 4, -1.0)]),
        (TWO_LINES, "59;84;", [(0, 3, 1.0), (3, 5, 1.0), (5, 6, -1.0)]),
        # too few: stopping is a step
        (TWO_LINES, "59", [(0, 2, 1.0), (2, 2, -1.0)]),
        (TWO_LINES, "59;", [(0, 3, 1.0), (3, 3, -1.0)]),
        (TWO_LINES, "", [(0, 0, -1.0)]),
    ],
)
def test_steps_worked_by_hand(item, completion, expected):
    assert steps(item, completion) == expected


def test_steps_cover_every_character_once_whatever_the_text():
    rng = np.random.default_rng(0)
    for _ in range(500):
        text = "".join(rng.choice(list("0123456789;;;+"), size=rng.integers(0, 14)))
        found = TASK.step_rewards(THREE_LINES, text)
        assert [character for step in found for character in range(step.start, step.end)] == list(range(len(text)))
        assert all(step.start < step.end for step in found[:-1])
        whole = grade(TASK, THREE_LINES, text)
        all_right = all(step.reward == 1.0 for step in found)
        assert not all_right or whole.correct, "right steps to the end make a right answer"


def test_a_right_total_can_be_unsound():
    graded = grade(TASK, TWO_LINES, "58;84")
    assert graded.correct
    assert graded.measures == {"right_lines": 0.0, "wrong_number_of_lines": 0.0, "unsound": 1.0}
    assert grade(TASK, TWO_LINES, "59").measures == {"right_lines": 0.5, "wrong_number_of_lines": 1.0, "unsound": 0.0}


@pytest.mark.parametrize(
    ("completion", "kind"),
    [("", "empty"), ("59;", "malformed"), ("59;+", "malformed"), ("05;9", "malformed"), ("12345", "malformed"),
     ("5٣", "malformed"), ("59;84\n", "malformed"), (" 59", "malformed")],
)  # fmt: skip
def test_parse_is_strict_and_names_the_failure(completion, kind):
    with pytest.raises(ParseFailure) as caught:
        TASK.parse(completion)
    assert caught.value.kind == kind
    assert grade(TASK, TWO_LINES, completion).reward == -1.0


def test_splits_have_their_sizes_and_halves_and_no_problem_twice():
    every = [item for split in SIZES for item in TASK.items(split)]
    assert len({tuple(sorted(item.operands)) for item in every}) == len(every) == sum(SIZES.values())
    assert len({item.item_id for item in every}) == len(every)
    for split, size in SIZES.items():
        items = TASK.items(split)
        assert sum(item.n_lines == 2 for item in items) == sum(item.n_lines == 3 for item in items) == size / 2
        assert {item.split for item in items} == {split}
        assert all(10 <= operand <= 99 for item in items for operand in item.operands)
    assert all(TASK.items(split) == () for split in EVALUATION_SPLITS if split != "in_domain")
    with pytest.raises(UsageError, match="expected one of train, in_domain, ood, other_domain, got 'dev'"):
        TASK.items("dev")


def test_items_never_change():
    text = "\n".join(f"{item.item_id} {TASK.prompt(item)}" for split in SIZES for item in TASK.items(split))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "0f6f8e8614d4b9be"


def test_the_embedded_policy_can_write_it():
    for item in (*TASK.items(TRAIN), *TASK.items("in_domain")):
        text = TASK.prompt(item) + reference(item)
        assert set(text) <= set(CHARACTERS)
        assert len(text) + 1 <= MAX_POSITIONS


def test_examples_slip_as_often_as_they_say_and_go_on_from_their_own_lines():
    examples = warm_start_examples(np.random.default_rng(1), 2000)
    right = []
    for prompt, completion in examples:
        operands = tuple(map(int, prompt.removesuffix(":").split("+")))
        assert tuple(sorted(operands)) not in held_out_problems()
        found = TASK.step_rewards(SumItem("x", operands, TRAIN), completion)
        assert len(found) == len(operands) - 1
        right += [step.reward == 1.0 for step in found]
    assert len(right) == 5000
    assert np.mean(right) == pytest.approx(1 - SLIP, abs=4 * (SLIP * (1 - SLIP) / 5000) ** 0.5)


def test_held_out_problems_are_those_of_the_evaluation_split():
    assert len(held_out_problems()) == SIZES["in_domain"]
    assert all(tuple(sorted(item.operands)) in held_out_problems() for item in TASK.items("in_domain"))


def test_made_items_depend_on_the_generator_alone():
    made = [make_item(np.random.default_rng(5), 4, split=TRAIN, item_id="x") for _ in range(2)]
    assert made[0] == made[1]
    assert made[0].n_lines == 3
