"""TRL completions: groups from runs of one prompt, rewards told or verified, repeated tables and evaluation rows."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpo_rl.errors import CorpoError, DataError
from corpo_rl.rollouts.read import read_with_texts
from tests.rollouts.logs import groups_of, read, sizes, write_parquet

SIZE = 4


def advantages(rewards, size=SIZE, scale=False):
    """TRL's: the distance from the group's mean, over its std plus 1e-4 where scaled."""
    groups = np.asarray(rewards, dtype=float).reshape(-1, size)
    centred = groups - groups.mean(axis=1, keepdims=True)
    if scale:
        centred /= groups.std(axis=1, ddof=1, keepdims=True) + 1e-4
    return centred.ravel().tolist()


def completions(step, prompts, *, seed=0, size=SIZE, chat=False, **columns):
    """Columns of the table of one step: `size` rows for each prompt."""
    n = len(prompts) * size
    rng = np.random.default_rng([seed, step])
    rewards = rng.choice([0.0, 0.3, 0.7, 1.0], n).tolist()
    said = [[{"role": "user", "content": prompt}] if chat else prompt for prompt in prompts for _ in range(size)]
    answers = [f"answer {seed}.{step}.{row}" for row in range(n)]
    return {
        "step": [step] * n,
        "prompt": said,
        "completion": [[{"role": "assistant", "content": one}] for one in answers] if chat else answers,
        "graded": rewards,
        "advantage": advantages(rewards, size),
    } | columns


def logged(folder, *tables):
    """The folder TRL writes them to."""
    for table in tables:
        write_parquet(folder / "completions" / f"completions_{table['step'][0]:05d}.parquet", table)
    return folder


def with_columns(table, **columns):
    """The table with further columns before the advantage, where TRL has its rewards."""
    advantage = table["advantage"]
    return {name: values for name, values in table.items() if name != "advantage"} | columns | {"advantage": advantage}


@pytest.mark.parametrize("chat", [False, True])
def test_groups_are_runs_of_one_prompt(tmp_path, chat):
    tables = [completions(step, ["a", "b", "c"], chat=chat) for step in (1, 2, 10)]
    log = read(logged(tmp_path, *tables))
    assert (log.format, log.title) == ("trl", "TRL completions")
    assert log.grouped_by == "consecutive rows of one prompt, 4 each"
    assert sizes(log) == {4: 9}
    assert log.step_G.tolist() == [1, 1, 1, 2, 2, 2, 10, 10, 10]
    assert log.prompt_G.tolist() == [0, 1, 2] * 3
    np.testing.assert_array_equal(log.rewards_N, np.concatenate([table["graded"] for table in tables]))
    np.testing.assert_array_equal(log.advantages_N, np.concatenate([table["advantage"] for table in tables]))
    assert log.columns_unused == ()
    assert log.warnings == ()


def test_a_prompt_sampled_twice_in_a_row_is_two_groups(tmp_path):
    log = read(logged(tmp_path, completions(1, ["a", "a", "b", "c"]), completions(2, ["d", "e", "e", "f"])))
    assert sizes(log) == {4: 8}


def test_every_prompt_twice_in_a_row_is_told_by_the_advantages(tmp_path):
    log = read(logged(tmp_path, completions(1, ["a", "a", "b", "b", "c", "c"])))
    assert sizes(log) == {4: 6}, "runs of 8, whose halves have advantages that add up to 0"
    assert read(tmp_path, group_size=8).grouped_by == "consecutive rows of one prompt, 8 each (as told)"


def test_groups_that_cannot_be_told_are_refused(tmp_path):
    table = completions(1, list("abcdefgh"), size=1)
    expected = (
        r"groups cannot be told: runs of one prompt have lengths 1 \(8 rows\); pass the run's num_generations as "
        "--group-size"
    )
    with pytest.raises(DataError, match=expected):
        read(logged(tmp_path / "one", table))
    ragged = completions(1, ["a"] * 3 + ["b"] * 5 + ["c"] * 7 + ["d"] * 11, size=1)
    with pytest.raises(DataError, match=r"groups cannot be told: runs of one prompt have lengths 11 \(11 rows\), 7 "):
        read(logged(tmp_path / "ragged", ragged))


def test_rows_that_make_no_whole_group_are_left_out_with_a_warning(tmp_path):
    trained = [completions(step, ["a", "b", "c", "d"]) for step in (1, 2)]
    evaluated = completions(3, list("efghi"), size=1)
    log = read(logged(tmp_path, *trained, evaluated))
    assert sizes(log) == {4: 8}
    assert dict(log.dropped) == {"evaluation row or part of a group": 5}
    (warning,) = log.warnings
    assert "5 rows in 1 file(s) (the first: " in warning
    assert "completions_00003.parquet) are not in groups of 4: evaluation rows" in warning


def test_no_whole_group_of_the_told_size(tmp_path):
    with pytest.raises(DataError, match="no whole group of 7 rows; pass the run's num_generations as --group-size"):
        read(logged(tmp_path, completions(1, ["a", "b"])), group_size=7)


def test_a_table_repeated_under_a_later_step_counts_once(tmp_path):
    first = completions(1, ["a", "b"])
    log = read(logged(tmp_path, first, first | {"step": [2] * 8}, completions(3, ["a", "b"])))
    assert sizes(log) == {4: 4}
    assert dict(log.dropped) == {"repeated under a later step": 8}
    assert log.step_G.tolist() == [1, 1, 3, 3]


def test_equal_rewards_with_other_completions_are_no_repetition(tmp_path):
    first = completions(1, ["a", "b"])
    log = read(logged(tmp_path, first, first | {"step": [2] * 8, "completion": [f"new {row}" for row in range(8)]}))
    assert sizes(log) == {4: 4}
    assert log.dropped == {}


def two_rewards(tmp_path, weights=(1.0, 1.0), scale=False):
    tables = []
    for step in (1, 2, 3):
        table = completions(step, ["a", "b", "c"])
        formatted = np.random.default_rng(step).integers(0, 2, 12).astype(float)
        total = weights[0] * np.array(table["graded"]) + weights[1] * formatted
        table["advantage"] = advantages(total, scale=scale)
        tables.append(with_columns(table, formatted=formatted.tolist()))
    return logged(tmp_path, *tables), tables


@pytest.mark.parametrize("scale", [False, True])
def test_rewards_that_the_advantages_confirm_are_added(tmp_path, scale):
    folder, tables = two_rewards(tmp_path, scale=scale)
    log = read(folder)
    assert list(log.components) == ["graded", "formatted"]
    assert log.weights == {"graded": 1.0, "formatted": 1.0}
    expected = [a + b for table in tables for a, b in zip(table["graded"], table["formatted"], strict=True)]
    np.testing.assert_allclose(log.rewards_N, expected)
    assert (
        "the logged advantages are those of graded + formatted with weights of 1, and of no other columns" in log.notes
    )


def test_rewards_with_unknown_weights_are_asked_for(tmp_path):
    folder, tables = two_rewards(tmp_path, weights=(1.0, 0.2))
    expected = (
        r"several columns may be rewards \(graded, formatted\); .* pass --reward-weights graded=1,formatted=1 or "
    )
    with pytest.raises(DataError, match=expected):
        read(folder)
    for told in ({"graded": 1.0, "formatted": 0.2}, (1.0, 0.2)):
        log = read(folder, reward_weights=told)
        expected = [a + 0.2 * b for table in tables for a, b in zip(table["graded"], table["formatted"], strict=True)]
        np.testing.assert_allclose(log.rewards_N, expected)
        assert log.weights == {"graded": 1.0, "formatted": 0.2}


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ((1.0,), r"--reward-weights: expected 2 weights \(graded, formatted\), got 1; name them: graded=1,"),
        (
            {"graded": 1.0, "style": 1.0},
            r"--reward-weights: no reward column 'style' \(reward columns: graded, formatted",
        ),
        ((1.0, float("nan")), r"--reward-weights: expected finite numbers of at most 1e\+100 in size, got nan"),
    ],
)
def test_wrong_weights(tmp_path, weights, message):
    folder, _ = two_rewards(tmp_path)
    with pytest.raises(CorpoError, match=message):
        read(folder, reward_weights=weights)


def test_an_extra_column_of_numbers_is_no_reward(tmp_path):
    tables = [
        with_columns(completions(step, ["a", "b"]), n_words=[float(row % 5) for row in range(8)], note=["x"] * 8)
        for step in (1, 2)
    ]
    log = read(logged(tmp_path, *tables))
    assert log.columns_used["reward"] == "graded"
    assert set(log.columns_unused) == {"n_words", "note"}
    assert read(tmp_path, reward_columns=("n_words",)).columns_used["reward"] == "n_words"


def test_many_columns_of_numbers_are_asked_about(tmp_path):
    extras = {f"x{place}": [0.5] * 8 for place in range(9)}
    with pytest.raises(DataError, match=r"several columns may be rewards \(graded, x0, x1"):
        read(logged(tmp_path, with_columns(completions(1, ["a", "b"]), **extras)))


def test_no_column_of_numbers(tmp_path):
    table = completions(1, ["a", "b"], graded=["x"] * 8)
    with pytest.raises(DataError, match="no column of numbers beside step and advantage; name yours with --reward-co"):
        read(logged(tmp_path, table))


def test_a_missing_reward_adds_nothing_unless_all_are_missing(tmp_path):
    table = with_columns(completions(1, ["a", "b"]), other=[0.5] * 8)
    table["graded"][0] = table["graded"][1] = table["other"][0] = None
    log = read(logged(tmp_path, table), reward_columns=("graded", "other"))
    assert np.isnan(log.rewards_N).tolist() == [True] + [False] * 7
    assert log.rewards_N[1] == 0.5
    assert dict(log.unscorable) == {"null": 1}
    assert any(note.startswith("1 rollouts lack some of their rewards; a missing one adds 0") for note in log.notes)


def ours(step, groups, *, split="train"):
    table = completions(step, [f"p{group}" for group in groups])
    return with_columns(
        table,
        corpo_group=[f"{split} {group}" for group in groups for _ in range(SIZE)],
        corpo_reward=[2.0 * one for one in table["graded"]],
        corpo_split=[split] * len(groups) * SIZE,
    )


def test_our_own_columns_name_groups_rewards_and_split(tmp_path):
    both = {name: values + ours(1, [7, 8], split="eval")[name] for name, values in ours(1, [0, 1]).items()}
    log = read(logged(tmp_path, both, ours(2, [2, 3])))
    assert (sizes(log), log.grouped_by) == ({4: 4}, "corpo_group")
    assert dict(log.dropped) == {"row of another split than 'train'": 8}
    assert log.rewards_N.max() == 2.0
    assert sizes(read(tmp_path, split="eval")) == {4: 2}


def test_our_groups_repeated_under_a_later_step_are_kept_where_they_are_whole(tmp_path):
    cut = {name: values[6:] for name, values in ours(1, [0, 1]).items()}
    whole = {name: values + ours(2, [2])[name] for name, values in (ours(1, [0, 1]) | {"step": [2] * 8}).items()}
    log = read(logged(tmp_path, cut, whole))
    assert sizes(log) == {4: 3}
    assert dict(log.dropped) == {"repeated under a later step": 2}


def test_told_groups_are_taken_at_their_word(tmp_path):
    table = with_columns(completions(1, ["a"] * 2), mine=["x", "y"] * 4)
    log = read(logged(tmp_path, table), group_columns=("mine",), reward_columns=("graded",))
    assert (log.group_N.tolist(), log.grouped_by) == ([0, 1] * 4, "mine")


def test_tables_without_rows_are_passed_over(tmp_path):
    empty = pa.Table.from_pylist([], schema=pa.table(completions(2, ["a"])).schema)
    folder = logged(tmp_path, completions(1, ["a", "b"]), completions(3, ["a", "b"]))
    pq.write_table(empty, folder / "completions" / "completions_00002.parquet")
    assert sizes(read(folder)) == {4: 4}


def test_advantages_that_are_missing_throughout(tmp_path):
    table = completions(1, ["a", "b"], advantage=pa.array([None] * 8, pa.float64()))
    log = read(logged(tmp_path, table))
    assert log.advantages_N is None
    assert sizes(log) == {4: 2}


def test_two_runs_in_one_folder_are_refused(tmp_path):
    logged(tmp_path / "one", completions(1, ["a", "b"]))
    logged(tmp_path / "two", completions(1, ["a", "b"], seed=1))
    with pytest.raises(DataError, match=r"is the same step, so these are two runs; name the folder of one"):
        read(tmp_path)


def test_files_in_another_order_are_the_same_groups(tmp_path):
    folder = logged(tmp_path, *(completions(step, ["a", "b"]) for step in range(1, 6)))
    paths = sorted((folder / "completions").iterdir(), reverse=True)
    log, _ = read_with_texts(paths)
    assert groups_of(log) == groups_of(read(folder))


@pytest.mark.parametrize("chat", [False, True])
def test_texts(tmp_path, chat):
    log, read_texts = read_with_texts([logged(tmp_path, *(completions(s, ["a", "b"], chat=chat) for s in (1, 2)))])
    (last, first) = read_texts([len(log.rewards_N) - 1, 0])
    assert last.prompt == ("user: b" if chat else "b")
    assert last.completion == ("assistant: " if chat else "") + "answer 0.2.7"
    assert first.completion.endswith("answer 0.1.0")


def mixed(tmp_path, n_train, n_evaluation, evaluation_size):
    """What TRL writes when an evaluation runs between two logs: its rows in the same table."""
    train = completions(1, [f"q{n}" for n in range(n_train)], seed=1)
    evaluation = completions(1, [f"e{n}" for n in range(n_evaluation)], seed=2, size=evaluation_size)
    return logged(tmp_path, {name: [*train[name], *evaluation[name]] for name in train})


@pytest.mark.parametrize("evaluation_size", [2, 3, 2 * SIZE])
def test_a_few_evaluation_rows_of_another_group_size_are_left_out(tmp_path, evaluation_size):
    log = read(mixed(tmp_path, 20, 2, evaluation_size))
    assert np.bincount(log.group_N).tolist() == [SIZE] * 20
    assert log.dropped == {"evaluation row or part of a group": 2 * evaluation_size}
    assert "evaluation rows" in log.warnings[0]


@pytest.mark.parametrize("evaluation_size", [2, 2 * SIZE])
def test_many_rows_in_groups_of_another_size_are_asked_about(tmp_path, evaluation_size):
    folder = mixed(tmp_path, 4, 6, evaluation_size)
    with pytest.raises(DataError, match=r"groups have different sizes, as where evaluation rows .* --group-size"):
        read(folder)


def test_one_group_whose_halves_add_up_to_zero_is_one_group(tmp_path):
    table = completions(1, ["a", "b", "c"])
    table["graded"] = [1.0, 0.0, 1.0, 0.0] + [0.3] * 8
    table["advantage"] = advantages(table["graded"])
    assert np.bincount(read(logged(tmp_path, table)).group_N).tolist() == [SIZE] * 3
