import math

import pytest

from corpo_rl.errors import ParseFailure, Unscorable, UsageError
from corpo_rl.records import Graded, VerifierItem
from corpo_rl.tasks.mini import MiniTask
from corpo_rl.tasks.mini_steps import MiniStepsTask
from corpo_rl.tasks.pairs import PairsTask
from corpo_rl.tasks.proof import JUNK, prove
from corpo_rl.tasks.rubric import RubricItem, RubricTask


class Doubling:
    """A task that holds; each test below breaks one thing of it."""

    name, min_correct, unparsable_reward = "doubling", 1.0, -1.0

    def items(self, split):
        return {"train": [2, 3, 4], "in_domain": [5, 6]}.get(split, [])

    def prompt(self, item):
        return f"Twice {item} is"

    def parse(self, completion):
        if not (completion.isascii() and completion.isdecimal()):
            raise ParseFailure("no_number")
        return int(completion)

    def reward(self, item, answer):
        return max(-1.0, 1.0 - abs(answer - 2 * item) / 10)

    def measures(self, item, answer):
        return {"error": abs(answer - 2 * item)}

    def examples(self, item):
        return [(str(2 * item), True), (str(2 * item + 1), False), (f"{2 * item}.", False)]

    def hidden(self, item):
        return [str(2 * item)]


def test_a_task_that_holds():
    proof = prove(Doubling(), n_items=2)
    assert proof.holds
    assert proof.violations == proof.notes == ()
    assert proof.n_items == {"train": 3, "in_domain": 2, "ood": 0, "other_domain": 0}
    assert proof.n_proved == {"train": 2, "in_domain": 2, "ood": 0, "other_domain": 0}
    # four items: one right and two wrong each, and the junk with the prompt
    n_junk = 4 * (len(JUNK) + 1)
    assert (proof.n_right, proof.n_wrong, proof.n_junk) == (4, 8, n_junk)
    assert proof.rewards == {-1.0: 4 + n_junk, 0.9: 4, 1.0: 4}
    assert proof.failures == {"no_number": 4 + n_junk}
    assert prove(Doubling(), n_items=None).n_right == 5


def always(value):
    return lambda *_: value


def raising(error):
    def fail(*_):
        raise error

    return fail


@pytest.mark.parametrize(
    ("changes", "kind", "first", "count"),
    [
        (
            {"min_correct": 1.5},
            "a right example is not correct",
            "train 0: the example '4' got 1, min_correct is 1.5",
            5,
        ),
        (
            {"min_correct": 0.9},
            "a wrong example is correct",
            "train 0: the example '5' got 0.9, min_correct is 0.9",
            5,
        ),
        ({"unparsable_reward": 1.0}, "what does not parse is correct", "unparsable_reward 1.0 has to be below", 1),
        ({"min_correct": math.nan}, "a threshold is no finite number", "min_correct: found nan", 1),
        ({"unparsable_reward": None}, "a threshold is no finite number", "unparsable_reward: found None", 1),
        ({"parse": int}, "grading fails", "train 0: the example '4.' raised ValueError: \"invalid literal", 5 * 8),
        ({"reward": always(math.inf)}, "grading fails", "train 0: the example '4' raised DataError: ", 5 * 2),
        ({"reward": always(None)}, "grading fails", "train 0: the example '4' raised DataError: ", 5 * 2),
        (
            {"reward": raising(Unscorable("lost"))},
            "nothing is known of a completion",
            "train 0: the example '4' (lost)",
            10,
        ),
        (
            {"measures": always({"x": math.nan})},
            "a measure is no finite number",
            "train 0: the example '4': x: found nan",
            10,
        ),
        ({"measures": raising(KeyError("a\nb"))}, "grading fails", "train 0: the example '4' raised KeyError: ", 10),
        ({"items": always([])}, "a split is empty", "expected items in train and in one of in_domain, ood, ", 1),
        ({"items": lambda split: [1] if split == "train" else []}, "a split is empty", "expected items in train", 1),
        ({"items": raising(OSError("gone"))}, "the task fails", "items('train') raised OSError: 'gone'", 4),
        ({"items": always([2])}, "a prompt is in two splits", "in_domain 0 and train 0: 'Twice 2 is'", 3),
        ({"prompt": lambda item: " "}, "a prompt is no text", "train 0: found ' '", 5),
        ({"prompt": lambda item: 3 if item == 5 else "?"}, "a prompt is no text", "in_domain 0: found '3'", 1),
        ({"prompt": raising(ValueError("no"))}, "the task fails", "train 0: prompt raised ValueError: 'no'", 10),
        ({"prompt": lambda item: f"Say {2 * item}"}, "a prompt holds what it should hide", "train 0: '4'", 5),
        ({"examples": always([("4",)])}, "the task fails", "train 0: prompt, examples or hidden raised ValueError", 5),
        ({"examples": always(None)}, "the task fails", "train 0: prompt, examples or hidden raised TypeError", 5),
    ],
)  # fmt: skip
def test_each_kind_of_violation_is_found_and_named(changes, kind, first, count):
    task = Doubling()
    for name, value in changes.items():
        setattr(task, name, value)
    found = {violation.kind: violation for violation in prove(task).violations}
    assert kind in found
    assert found[kind].first.startswith(first)
    assert found[kind].count == count
    assert "\n" not in found[kind].first


def test_junk_that_pays_is_found():
    task = Doubling()
    task.parse = len
    task.reward = lambda item, answer: min(answer, 100) / 100  # the longer the better
    (violation,) = [one for one in prove(task).violations if one.kind == "junk is correct"]
    assert violation.first == "train 0: 100,000 letters got 1, min_correct is 1"
    assert violation.count == 5
    task.parse = lambda text: text
    task.reward = lambda item, answer: float(answer == task.prompt(item))
    task.measures = lambda item, answer: {}
    (violation,) = [one for one in prove(task).violations if one.kind == "junk is correct"]
    assert violation.first.startswith("train 0: the prompt itself got 1")


def test_prompts_that_change_are_found():
    task, asked = Doubling(), iter(range(100))
    task.prompt = lambda item: f"{next(asked)}: twice {item} is"
    task.hidden = lambda item: []
    assert [one.kind for one in prove(task).violations] == ["a prompt changes when asked again"]


def test_a_failing_batch_is_graded_one_by_one():
    class Batched(Doubling):
        def grade_many(self, items, completions):
            return [Graded(1.0, True, None) for _ in completions][1:]

    proof = prove(Batched())
    assert proof.holds, "each by itself grades well"
    assert proof.n_right == 5


def test_notes_say_what_was_not_checked():
    task = Doubling()
    task.examples = lambda item: [("1", False)]
    assert any("whether anything reaches min_correct is not known" in note for note in prove(task).notes)
    task.examples = lambda item: [(str(2 * item), True)]
    (unproved, equal) = prove(task).notes
    assert "whether wrong answers stay below min_correct is not known" in unproved
    assert "not graded" in equal
    task = Doubling()
    task.items = lambda split: [2, 2] if split == "train" else [5]
    assert prove(task).notes == ("1 items have the prompt of another item of their split.",)


@pytest.mark.parametrize("reward", ["min_margin", "brier"])
def test_the_verifier_tasks_prove_themselves(reward):
    pairs = [
        VerifierItem(str(n), f"What is {n}?", "so", "not so", *labels, domain="x", split=split)
        for n, (labels, split) in enumerate([((1, 0), "train"), ((0, 1), "train"), ((1, 1), "ood"), ((0, 0), "ood")])
    ]
    for task in (MiniTask(reward=reward), PairsTask(pairs, reward=reward)):
        proof = prove(task)
        assert proof.holds, proof.violations
        assert proof.notes == ()
        assert proof.n_right >= 8


def test_the_rubric_task_proves_itself():
    items = [
        RubricItem(str(n), f"Write {n}.", "Done.", "Is it done?", score, "train" if n % 2 else "ood")
        for n, score in enumerate([1, 1.5, 2, 7 / 3, 3, 3.5, 4, 14 / 3, 5])
    ]
    proof = prove(RubricTask(items))
    assert proof.holds, proof.violations
    assert set(proof.failures) == {
        "empty",
        "no_score",
        "malformed",
        "text_after_score",
        "repeated_score",
        "out_of_range",
    }


def test_puzzles_prove_themselves():
    pytest.importorskip("reasoning_gym", reason="the puzzles are made by reasoning-gym (extra puzzles)")
    from corpo_rl.tasks.puzzles import PuzzlesTask

    proof = prove(PuzzlesTask(["mini_sudoku", "word_sorting", "shortest_path"], size=20, evaluation_size=10), n_items=8)
    assert proof.holds, proof.violations
    assert proof.n_right == 2 * 4 * 8
    assert len(proof.rewards) > 8


def test_a_task_without_examples_is_proved_as_far_as_it_goes():
    proof = prove(MiniStepsTask(), n_items=3)
    assert proof.holds
    assert "no method examples(item)" in proof.notes[0]
    assert (proof.n_right, proof.n_wrong) == (0, 0)


def test_number_of_items():
    with pytest.raises(UsageError, match="items: expected a number of at least 1, got 0"):
        prove(Doubling(), n_items=0)
