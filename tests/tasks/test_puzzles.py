import itertools
import json
import subprocess
import sys

import numpy as np
import pytest

from corpo_rl.errors import MissingExtraError, ParseFailure, UsageError
from corpo_rl.tasks.base import grade
from corpo_rl.tasks.puzzle_list import PUZZLES, REFUSED
from corpo_rl.tasks.puzzles import NEARLY, PuzzleItem, PuzzlesTask

reasoning_gym = pytest.importorskip("reasoning_gym", reason="the puzzles are made by reasoning-gym (extra puzzles)")

SORTING = PuzzlesTask(["word_sorting"], size=12, evaluation_size=8)

JUNK = [
    "{}",
    "[]",
    "nan",
    "inf",
    "9" * 400 + " days",
    "00:00:" + "9" * 400 + ".1",
    "\0",
    "🙂",
    "[[",
    "A,B",
    "-1",
    "1e400",
]


def item_of(name, answer, **metadata):
    """A puzzle made by hand."""
    return PuzzleItem("x", name, "?", answer, "train", {"question": "?", "answer": answer, "metadata": metadata})


def test_every_puzzle_of_the_package_is_taken_or_refused_with_a_reason():
    from reasoning_gym.factory import DATASETS

    assert set(PUZZLES) | set(REFUSED) == set(DATASETS)
    assert not set(PUZZLES) & set(REFUSED)


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("<answer>a, b</answer>", "a, b"),
        ("I think.\n<answer>\n a, b \n</answer>\n\n", "a, b"),
        ("<answer>c</answer> No: <answer>a\nb</answer>", "a\nb"),
        ("</answer><answer>a</answer>", "a"),
    ],
)
def test_parses(completion, answer):
    assert SORTING.parse(completion) == answer


@pytest.mark.parametrize(
    ("completion", "kind"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("a, b", "no_answer"),
        ("a, b</answer>", "no_answer"),
        ("<Answer>a</Answer>", "no_answer"),
        ("<answer>a, b", "unclosed_answer"),
        ("<answer>a</answer> or <answer>b", "unclosed_answer"),
        ("<answer>a</answer> I hope so.", "text_after_answer"),
        ("<answer>a</answer></answer>", "text_after_answer"),
        ("<answer> \n </answer>", "empty_answer"),
        ("<answer></answer>", "empty_answer"),
    ],
)
def test_kinds_of_failure(completion, kind):
    with pytest.raises(ParseFailure) as raised:
        SORTING.parse(completion)
    assert raised.value.kind == kind
    assert grade(SORTING, SORTING.items("train")[0], completion).reward == -0.1


@pytest.mark.parametrize("name", PUZZLES)
def test_reference_is_right_near_misses_are_wrong_and_junk_never_fails(name):
    task = PuzzlesTask([name], size=6, evaluation_size=4)
    for split in ("train", "in_domain", "ood"):
        assert task.items(split), split
        for item in task.items(split):
            for completion, right in task.examples(item):
                graded = grade(task, item, completion)
                assert graded.correct == right, (completion, graded)
                assert (graded.reward == 1.0) == right
            for junk in JUNK:
                graded = grade(task, item, f"<answer>{junk}</answer>")
                assert -0.1 <= graded.reward <= 1  # a NaN is not


def test_scores_worked_by_hand():
    # the second and third of three words change places: one in three stays; the scorer's least for the right words, 0.2
    words = {"sorted_words": ["a", "b", "c"]}
    assert SORTING.reward(item_of("word_sorting", "a, b, c", **words), "a, c, b") == 1 / 3
    assert SORTING.reward(item_of("word_sorting", "a, b, c", **words), "c, a, b") == 0.2
    assert SORTING.reward(item_of("word_sorting", "a, b, c", **words), "x, y, z") == 0.0
    assert SORTING.reward(item_of("word_sorting", "a, b, c", **words), "a,b,c") == 1.0
    # two of four letters in their place
    assert SORTING.reward(item_of("spell_backward", "abcd"), "abxx") == 0.5
    # one of three rectangles too many: 0.8 * (1 - 1/5)
    assert SORTING.reward(item_of("rectangle_count", "3"), "4") == pytest.approx(0.64)
    # half a day of a day off
    interval = item_of("time_intervals", "13:00", task_type="time")
    assert SORTING.reward(interval, "01:00") == 0.5


def test_right_answer_with_more_behind_it_is_not_full_marks():
    from reasoning_gym import create_dataset

    words = {"sorted_words": ["a", "b"]}
    grid = "[[0,1],[1,0]]"
    cases = [
        (item_of("word_sorting", "a, b", **words), "a, b, a, b"),
        (item_of("spell_backward", "abcdefghi"), "abcdefghij"),  # nine ninths add up to more than 1
        (item_of("game_of_life", grid), "[[0,1,1],[1,0],[1,1]]"),
    ]
    for item, answer in cases:
        scorer = create_dataset(item.puzzle, seed=0, size=1)
        assert scorer.score_answer(answer, item.entry) >= 1, "the package gives full marks"
        assert SORTING.reward(item, answer) == NEARLY < SORTING.min_correct
        assert SORTING.reward(item, item.answer) == 1


def test_scorers_that_fail_are_counted():
    item = item_of("game_of_life", "[[0,1],[1,0]]")
    graded = grade(SORTING, item, '<answer>{"a": 1}</answer>')
    assert (graded.reward, graded.correct, graded.measures["scorer_error"]) == (-0.1, False, 1)
    assert grade(SORTING, item, "<answer>[[1]]</answer>").measures["scorer_error"] == 0
    late = item_of("time_intervals", "01:00:00.000", task_type="time_ms")
    assert SORTING.measures(late, "00:00:00." + "9" * 400)["scorer_error"] == 1


def test_credit_for_form_is_no_reward(monkeypatch):
    class Scorer:
        def score_answer(self, answer, entry):
            return float(answer)

    monkeypatch.setitem(SORTING._scorers, ("sudoku", False), Scorer())
    item = item_of("sudoku", "1")
    given = ["0.01", "0.05", "0.06", "0.9", "1", "1.5", "nan", "inf", "-1"]
    assert [SORTING.reward(item, score) for score in given] == [0, 0, 0.06, 0.9, 1, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("name", "guess", "mean", "correct"),
    [
        ("game_of_life", lambda item: json.dumps([[0] * 6] * 6), 0.60, 0.00),
        ("rectangle_count", lambda _: "2", 0.69, 0.24),
        ("shortest_path", lambda _: "infeasible", 0.13, 0.13),
        ("time_intervals", lambda item: "08:00:00" if ":" in item.answer else "40 days", 0.78, 0.01),
        ("word_sorting", lambda item: ", ".join(item.entry["metadata"]["transformed_words"]), 0.25, 0.01),
        ("polynomial_equations", lambda _: "0", 0.10, 0.00),
    ],
)
def test_what_a_guess_gets(name, guess, mean, correct):
    task = PuzzlesTask([name], size=80 if name == "polynomial_equations" else 300, evaluation_size=1)
    rewards = [task.reward(item, guess(item)) for item in task.items("train")]
    # standard error of a mean of 300 rewards with a deviation of 0.3: 0.02
    assert sum(rewards) / len(rewards) == pytest.approx(mean, abs=0.06)
    assert sum(reward >= 1 for reward in rewards) / len(rewards) == pytest.approx(correct, abs=0.06)
    if name != "polynomial_equations":
        assert f"{mean:.2f}, {correct:.0%}".replace("%", " %") in PUZZLES[name].score


def test_seeds_near_each_other_give_the_same_puzzles_in_the_package_but_not_here():
    from reasoning_gym import create_dataset

    near = [create_dataset("word_sorting", seed=seed, size=20) for seed in (3, 10)]
    assert near[0][7]["question"] == near[1][0]["question"], "the trap that the streams are for"
    tasks = [PuzzlesTask(["word_sorting"], size=40, evaluation_size=10, seed=seed) for seed in (0, 1)]
    prompts = [task.prompt(item) for task in tasks for split in ("train", "in_domain") for item in task.items(split)]
    assert len(set(prompts)) == len(prompts) == 100


def test_no_puzzle_is_in_two_splits_even_where_few_exist():
    # two to four rectangles on a small grid, and a word the same in another font, come up again and again
    task = PuzzlesTask(["figlet_font", "quantum_lock"], size=60, evaluation_size=30)
    splits = {split: task.items(split) for split in ("train", "in_domain", "ood", "other_domain")}
    assert [len(items) for items in splits.values()] == [60, 30, 30, 30]
    for one, other in itertools.combinations(splits, 2):
        assert not {item.question for item in splits[one]} & {item.question for item in splits[other]}
    words = [item.answer.lower() for split in ("train", "in_domain", "ood") for item in splits[split]]
    assert len(set(words)) == len(words)
    assert {item.puzzle for item in splits["other_domain"]} == {"quantum_lock"}
    assert {item.puzzle for item in splits["train"]} == {"figlet_font"}


def test_names_take_turns_and_ood_is_harder():
    task = PuzzlesTask(["word_sorting", "rectangle_count", "spell_backward"], size=10, evaluation_size=6)
    assert [item.puzzle for item in task.items("train")] == ["word_sorting", "rectangle_count"] * 5
    assert {item.puzzle for item in task.items("other_domain")} == {"spell_backward"}
    count = {split: list(task.items(split)) for split in ("in_domain", "ood")}
    n_words = {split: [len(item.answer.split(",")) for item in items[::2]] for split, items in count.items()}
    n_rectangles = {split: [int(item.answer) for item in items[1::2]] for split, items in count.items()}
    assert max(n_words["in_domain"]) <= 8 < 12 <= min(n_words["ood"])
    assert max(n_rectangles["in_domain"]) <= 4 < min(n_rectangles["ood"])
    assert PuzzlesTask(["sudoku"], size=1, evaluation_size=1).items("other_domain") == ()


def test_same_items_whoever_asks_and_in_whatever_order():
    first, second = (PuzzlesTask(["word_sorting"], size=12, evaluation_size=8) for _ in range(2))
    assert second.items("train") == first.items("train") == SORTING.items("train")
    assert first.items("in_domain") == second.items("in_domain")
    assert [item.item_id for item in first.items("train")[:2]] == ["word_sorting-00000", "word_sorting-00001"]


def test_prompts_do_not_depend_on_the_process():
    code = (
        "from corpo_rl.tasks.puzzles import PuzzlesTask, PUZZLES\n"
        "names = ['word_ladder', 'knights_knaves', 'time_intervals']\n"
        "task = PuzzlesTask(names, size=8, evaluation_size=3)\n"
        "print([task.prompt(item) for split in ('train', 'ood', 'other_domain') for item in task.items(split)])\n"
    )
    printed = [
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert printed[0] == printed[1]
    assert len(printed[0]) > 1000


def test_prompt_names_the_form():
    item = SORTING.items("train")[0]
    prompt = SORTING.prompt(item)
    assert item.question.strip() in prompt
    assert "between <answer> and </answer>" in prompt
    assert item.answer not in prompt
    assert grade(SORTING, item, SORTING.format_example(item, np.random.default_rng(0))).correct


@pytest.mark.parametrize(
    ("names", "settings", "message"),
    [
        ([], {}, r"^puzzles: expected at least one name, got none; take one of figlet_font, "),
        (["sudokku"], {}, r"^puzzles: expected names of figlet_font, .*, got 'sudokku'$"),
        (["gcd"], {}, r"^puzzles: gcd is not taken: its score is right or wrong, and .*; take one of figlet_font"),
        (["n_queens"], {}, r"^puzzles: n_queens is not taken: its scorer evaluates the answer as Python"),
        (["sudoku", "sudoku"], {}, r"^puzzles: expected each name once, got sudoku, sudoku$"),
        (["sudoku"], {"size": 0}, r"^puzzles: size: expected a number from 1 to 10,000, got 0$"),
        (["sudoku"], {"evaluation_size": 10_001}, r"^puzzles: evaluation_size: expected a number from 1 to 10,000"),
        (["sudoku"], {"seed": -1}, r"^puzzles: seed: expected a number from 0 to 999, got -1$"),
    ],
)
def test_bad_settings_are_refused(names, settings, message):
    with pytest.raises(UsageError, match=message):
        PuzzlesTask(names, **settings)


def test_unknown_split_is_named():
    with pytest.raises(UsageError, match="expected one of train, in_domain, ood, other_domain, got 'dev'"):
        SORTING.items("dev")


def test_missing_package_names_the_extra(monkeypatch):
    from corpo_rl.tasks import puzzles

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(puzzles, "import_module", missing)
    with pytest.raises(MissingExtraError, match=r"run: pip install 'corpo-rl\[puzzles\]'"):
        PuzzlesTask(["sudoku"])


@pytest.mark.parametrize(
    ("name", "answer", "full_marks"),
    [("complex_arithmetic", "nan", True), ("coin_flip", "0", True), ("prime_factorization", "?", False)],
)
def test_refusals_have_grounds(name, answer, full_marks):
    puzzles = reasoning_gym.create_dataset(name, seed=0, size=20)
    if full_marks:
        scores = [puzzles.score_answer(answer, puzzles[index]) for index in range(20)]
        assert sum(score == 1 for score in scores) >= 18
    else:
        with pytest.raises(ValueError, match="invalid literal"):
            puzzles.score_answer(answer, puzzles[0])


def test_refused_scorer_runs_code(tmp_path):
    puzzles = reasoning_gym.create_dataset("string_insertion", seed=0, size=1)
    marker = tmp_path / "ran"
    puzzles.score_answer(f"[open({str(marker)!r}, 'w').close()]", puzzles[0])
    assert marker.exists()
    assert "evaluates the answer" in REFUSED["string_insertion"]
