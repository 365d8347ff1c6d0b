"""Plain tables: which column plays which part, under a telling or a told name."""

import pytest

from corpo_rl.errors import DataError
from corpo_rl.rollouts.options import ReadOptions
from corpo_rl.rollouts.plan import Sample
from corpo_rl.rollouts.table import TABLE, check_columns, reward_weights


def sample(*names, numeric=None):
    return Sample(
        kind="json",
        name="run.jsonl",
        columns=dict.fromkeys(names),
        numeric=frozenset(names if numeric is None else numeric),
    )


def plan(*names, numeric=None, **options):
    return TABLE.plan(sample(*names, numeric=numeric), ReadOptions(**options))


def test_telling_names():
    made = plan("step", "group_id", "prompt", "completion", "reward", "advantage", "length")
    assert (made.rewards, made.group, made.step, made.advantage, made.length) == (
        ("reward",), ("group_id",), "step", "advantage", "length",
    )  # fmt: skip
    assert (made.prompt, made.texts, made.label) == ("prompt", ("prompt", "completion"), None)
    assert made.step_in_group


def test_a_name_is_preferred_in_the_order_of_the_lists():
    assert plan("score", "reward", "uid").rewards == ("reward",)
    assert plan("reward", "prompt_id", "group").group == ("group",)
    assert plan("reward", "problem").group == ("problem",), "the prompt where there is no id"
    assert plan("reward", "question", "question_id").prompt == "question_id"


def test_a_text_under_the_name_of_a_number_is_none():
    made = plan("reward", "uid", "advantage", "length", numeric=("reward",))
    assert (made.advantage, made.length) == (None, None)


def test_told_columns_go_before_telling_names():
    told = {
        "reward_columns": ("a", "b"), "group_columns": ("step", "x"), "step_column": "x", "correct_column": "c",
        "advantage_column": "d", "length_column": "e", "prompt_column": "f", "completion_column": "g",
        "split_column": "h",
    }  # fmt: skip
    made = plan("reward", "uid", "step", *"abcdefghx", **told)
    assert (made.rewards, made.group, made.step, made.label) == (("a", "b"), ("step", "x"), "x", "c")
    assert (made.advantage, made.length, made.prompt, made.texts, made.split) == ("d", "e", "f", ("f", "g"), "h")
    assert not made.step_in_group


def test_no_group_is_asked_for_unless_the_size_is_told():
    expected = r"run\.jsonl: nothing tells which rollouts belong together \(columns: reward\); pass --group-columns, or"
    with pytest.raises(DataError, match=expected):
        plan("reward")
    assert plan("reward", group_size=4).group == ()


def test_many_and_long_names_are_cut():
    with pytest.raises(DataError) as caught:
        plan("x" * 10_000, *(f"c{place}" for place in range(1000)))
    assert len(str(caught.value)) < 400
    assert ", ..." in str(caught.value)


def test_every_told_column_is_checked():
    for option, field in (
        ("--reward-column", {"reward_columns": ("z",)}),
        ("--group-columns", {"group_columns": ("z",)}),
    ):
        with pytest.raises(DataError, match=rf"run\.jsonl: no column 'z' for {option} \(columns: reward\)"):
            check_columns(sample("reward"), ReadOptions(**field))


@pytest.mark.parametrize(
    ("told", "expected"),
    [(None, {}), ((1.0, 0.2), {"a": 1.0, "b": 0.2}), ({"b": 0.5}, {"b": 0.5}), ((0.0, -1.0), {"a": 0.0, "b": -1.0})],
)
def test_weights(told, expected):
    assert reward_weights(("a", "b"), ReadOptions(reward_weights=told)) == expected


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ((1.0,), r"--reward-weights: expected 2 weights \(a, b\), got 1; name them: a=1,\.\.\."),
        ({"c": 1.0}, r"--reward-weights: no reward column 'c' \(reward columns: a, b\)"),
        ({"a": float("inf")}, r"--reward-weights: expected finite numbers of at most 1e\+100 in size, got inf"),
    ],
)
def test_wrong_weights(told, message):
    with pytest.raises(DataError, match=message):
        reward_weights(("a", "b"), ReadOptions(reward_weights=told))
