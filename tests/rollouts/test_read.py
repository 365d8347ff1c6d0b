"""Whole logs: what other tools broke on, dirty rows, folders, and that order and files do not matter."""

import json
import math
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corpo_rl.audit.document import audit_rollouts
from corpo_rl.errors import CorpoError, DataError, UsageError
from corpo_rl.rollouts.options import ReadOptions
from corpo_rl.rollouts.read import read_rollouts
from tests.rollouts.logs import REWARDS, groups_of, lines, read, sizes, table_rows, write, write_parquet

ROWS = table_rows()


def document(log):
    """The audit without what tells where a row stood and when."""
    audit = audit_rollouts(log, min_correct=0.9, created="now")
    for key in ("sources", "n_files", "said", "problems"):
        del audit["log"][key]
    for example in audit["examples"]:
        del example["where"], example["group"]
        example["siblings"].sort(key=lambda one: one["reward"])
    return audit


def test_a_plain_table(tmp_path):
    log = read(write(tmp_path / "a.jsonl", ROWS))
    assert log.format == "table"
    assert log.grouped_by == "step and group_id"
    assert log.group_N.tolist() == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4
    assert log.step_G.tolist() == [0, 0, 1, 1]
    np.testing.assert_array_equal(log.rewards_N, [row["reward"] for row in ROWS])
    assert log.columns_used["reward"] == "reward"
    assert log.columns_used["shown completion"] == "completion"
    assert log.columns_unused == ()
    assert (log.n_rows, log.dropped, log.unscorable, log.problems, log.warnings) == (16, {}, {}, (), ())
    assert log.advantages_N is None
    assert log.labels_N is None


def test_columns_nothing_looked_at_are_named(tmp_path):
    log = read(write(tmp_path / "a.jsonl", [row | {"seed": 1, "note": "x"} for row in ROWS]))
    assert log.columns_unused == ("seed", "note")


def test_an_empty_log(tmp_path):
    with pytest.raises(UsageError, match=r"empty\.jsonl: the log holds no row; nothing to audit"):
        read(write(tmp_path / "empty.jsonl", ""))


def test_a_log_without_reward_column_names_those_it_has(tmp_path):
    rows = [{"group_id": "a", "format_score": 0.5, "note": "x"}] * 2
    expected = (
        r"missing\.jsonl: no column 'reward' \(columns: group_id, format_score, note\); format_score may be; "
        "name yours with --reward-column"
    )
    with pytest.raises(DataError, match=expected):
        read(write(tmp_path / "missing.jsonl", rows))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("NaN", "NaN"), ("null", "null"), ('"0.5"', "text"), ("Infinity", "infinite"), ("-Infinity", "infinite"),
        ("1e999", "infinite"), ("[1]", "not a number"), ("{}", "not a number"), ("1" + "0" * 400, "beyond 1e100"),
    ],
)  # fmt: skip
def test_a_reward_that_is_none_is_counted_and_never_a_number(tmp_path, value, reason):
    text = lines(ROWS).replace('"reward": 0.25}', f'"reward": {value}}}')
    log = read(write(tmp_path / "a.jsonl", text))
    if value == "1e999" and "broken line" in log.dropped:  # beyond what the JSON reader takes
        assert len(log.rewards_N) == 15
        return
    assert dict(log.unscorable) == {reason: 1}
    assert np.isnan(log.rewards_N).tolist() == [row == 1 for row in range(16)]
    assert log.problems == (f"{tmp_path}/a.jsonl:2: reward 'reward' is {reason}",)
    with pytest.raises(DataError, match=rf"a\.jsonl:2: reward 'reward' is {reason}, and so are 0 more; pass --unsc"):
        read(tmp_path / "a.jsonl", unscorable="refuse")


def test_a_row_without_the_field(tmp_path):
    rows = [dict(row) for row in ROWS]
    del rows[1]["reward"], rows[2]["group_id"]
    log = read(write(tmp_path / "a.jsonl", rows))
    assert dict(log.unscorable) == {"no field": 1}
    assert dict(log.dropped) == {"no group id": 1}


def test_a_log_of_which_no_reward_is_a_number(tmp_path):
    rows = [row | {"reward": str(row["reward"])} for row in ROWS]
    with pytest.raises(DataError, match=r"a\.jsonl:1: no rollout has a reward: 'reward' is text here and no number"):
        read(write(tmp_path / "a.jsonl", rows))


def test_bool_rewards_are_1_and_0_and_said(tmp_path):
    log = read(write(tmp_path / "a.jsonl", [row | {"reward": row["reward"] > 0.4} for row in ROWS]))
    assert log.rewards_N.tolist() == [0.0, 0.0, 1.0, 1.0] * 4
    assert "true and false in 'reward' were read as 1 and 0" in log.notes


def test_groups_of_several_sizes_are_read_as_they_are(tmp_path):
    rows = [
        {"group_id": f"g{group}", "reward": place / 10} for group in range(6) for place in range(5 + 3 * (group % 2))
    ]
    assert sizes(read(write(tmp_path / "uneven.jsonl", rows))) == {5: 3, 8: 3}
    sixteen = [{"group_id": f"g{group}", "reward": place / 10} for group in range(3) for place in range(16)]
    assert sizes(read(write(tmp_path / "g16.jsonl", sixteen))) == {16: 3}


def test_lists_of_rewards_are_groups_of_their_lengths(tmp_path):
    rows = [{"prompt": f"p{n}", "step": n, "rewards": [0.1 * k for k in range(5 + 3 * (n % 2))]} for n in range(6)]
    assert sizes(read(write(tmp_path / "a.jsonl", rows))) == {5: 3, 8: 3}


def test_negative_and_large_rewards(tmp_path):
    log = read(write(tmp_path / "neg.jsonl", table_rows(4, [-1.0, 0.0, 2.5, 5.0])))
    assert log.rewards_N.min() == -1.0
    assert log.rewards_N.max() == 5.03


def test_a_torn_last_line_is_counted_with_its_place(tmp_path):
    text = lines(ROWS)
    log = read(write(tmp_path / "broken.jsonl", text[: len(text) - 20]))
    assert dict(log.dropped) == {"broken line": 1}
    assert log.problems[0].startswith(f"{tmp_path}/broken.jsonl:16: not a JSON object")
    assert sizes(log) == {4: 3, 3: 1}


def test_a_csv_row_for_each_completion(tmp_path):
    text = "prompt_id,reward\n" + "".join(f"{row['prompt'][-1]},{row['reward']}\n" for row in ROWS)
    log = read(write(tmp_path / "a.csv", text))
    assert sizes(log) == {4: 4}
    assert log.prompt_G.tolist() == [0, 1, 2, 3]


def test_prompts_that_are_messages_name_groups(tmp_path):
    rows = [{k: v for k, v in row.items() if k != "group_id"} for row in ROWS]
    for row in rows:
        row["prompt"] = [{"role": "system", "content": "x" * 300}, {"role": "user", "content": row["prompt"]}]
    log = read(write(tmp_path / "a.jsonl", rows))
    assert sizes(log) == {4: 4}
    assert groups_of(log) == groups_of(read(write_parquet(tmp_path / "a.parquet", rows)))


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([1.0, 1.0, 2.0, 2.0], [1, 1, 2, 2]),
        ([-1, -1, 0, 0], [-1, -1, 0, 0]),
        ([1.5, 1.5, -0.5, -0.5], [1, 1, -1, -1]),
        ([1, 1, None, None], None),
        ([1, 1, math.nan, math.nan], None),
        ([1, 1, "two", "two"], None),
        ([1, 1, 1e300, 1e300], None),
        ([None] * 4, None),
    ],
)
def test_steps(tmp_path, steps, expected):
    rows = [row | {"step": step} for row, step in zip(ROWS, [s for s in steps for _ in REWARDS], strict=True)]
    log = read(write(tmp_path / "a.jsonl", rows))
    assert (None if log.step_G is None else log.step_G.tolist()) == expected
    assert sizes(log) == {4: 4}
    told = any("groups have no step in column 'step'" in warning for warning in log.warnings)
    assert told == (expected is None and steps[0] is not None)


def test_an_id_that_comes_back_at_another_step_is_another_group(tmp_path):
    rows = [row | {"group_id": "same"} for row in ROWS]
    assert sizes(read(write(tmp_path / "a.jsonl", rows))) == {8: 2}
    told = read(tmp_path / "a.jsonl", group_columns=("prompt",))
    assert (sizes(told), told.grouped_by) == ({4: 4}, "prompt")


@pytest.mark.parametrize("steps", [[3, 7], [0.5, 0.25], [1, None], [1e60, -1e60]])
def test_steps_of_any_kind_tell_groups_apart(tmp_path, steps):
    rows = [{"step": step, "uid": "u", "reward": reward} for step in steps * 2 for reward in REWARDS]
    assert sizes(read(write(tmp_path / "a.jsonl", rows))) == {8: 2}


def test_several_group_columns(tmp_path):
    rows = [row | {"a": row["group_id"] < "g2", "b": row["group_id"] in ("g0", "g2")} for row in ROWS]
    assert sizes(read(write(tmp_path / "a.jsonl", rows), group_columns=("a", "b"))) == {4: 4}


def test_groups_of_different_prompts_are_warned_about(tmp_path):
    rows = [row | {"prompt": f"p{n % 2}"} for n, row in enumerate(ROWS)]
    log = read(write(tmp_path / "a.jsonl", rows))
    assert any("4 of 4 groups hold rollouts of different prompts by column 'prompt'" in one for one in log.warnings)


def test_consecutive_rows_as_groups(tmp_path):
    rows = [{"reward": reward} for reward in REWARDS * 3]
    path = write(tmp_path / "a.jsonl", rows)
    with pytest.raises(DataError, match=r"nothing tells which rollouts belong together \(columns: reward\); pass --gr"):
        read(path)
    log = read(path, group_size=4)
    assert (sizes(log), log.grouped_by) == ({4: 3}, "consecutive rows in pieces of 4 (as told)")
    with pytest.raises(DataError, match=r"a\.jsonl: 12 rows are no whole number of groups of 5; check --group-size"):
        read(path, group_size=5)


def test_consecutive_rows_with_a_torn_line_are_not_moved_into_the_group_before(tmp_path):
    text = lines([{"reward": reward} for reward in REWARDS * 3])
    path = write(tmp_path / "a.jsonl", text.replace('{"reward": 0.25}', '{"reward": 0.2', 1))
    with pytest.raises(DataError, match=r"11 rows are no whole number of groups of 4"):
        read(path, group_size=4)


def test_a_broken_line_among_consecutive_rows_is_refused_even_where_the_count_fits(tmp_path):
    row = json.dumps({"reward": 0.5})
    path = write(tmp_path / "a.jsonl", "\n".join([*[row] * 4, "{torn", *[row] * 4]) + "\n")
    with pytest.raises(DataError, match=r"a\.jsonl:5: a broken line among the rows, so counting them tells no groups"):
        read(path, group_size=4)
    path = write(tmp_path / "b.jsonl", "\n".join([*[row] * 8, "{torn"]) + "\n")
    assert sizes(read(path, group_size=4)) == {4: 2}  # nothing comes after it


def test_consecutive_rows_do_not_cross_from_file_to_file(tmp_path):
    rows = [{"reward": reward} for reward in REWARDS * 2]
    write(tmp_path / "1.jsonl", rows[:3])
    write(tmp_path / "2.jsonl", rows[3:])
    with pytest.raises(DataError, match=r"1\.jsonl: 3 rows are no whole number of groups of 4"):
        read(tmp_path, group_size=4)


@pytest.mark.parametrize("size", [0, -1])
def test_a_group_of_no_size(tmp_path, size):
    path = write(tmp_path / "a.jsonl", ROWS)
    with pytest.raises(UsageError, match=rf"--group-size: expected at least 1, got {size}"):
        read(path, group_size=size)


def test_named_weights_name_the_rewards(tmp_path):
    path = write(tmp_path / "a.jsonl", [{"id": 1, "right": 1.0, "form": 0.5}] * 2)
    log = read(path, group_columns=("id",), reward_weights={"right": 1.0, "form": 0.2})
    assert log.rewards_N.tolist() == [1.1, 1.1]  # 1.0 * 1 + 0.2 * 0.5
    with pytest.raises(DataError, match=r"no column 'from' for --reward-weights \(columns: id, right, form\)"):
        read(path, group_columns=("id",), reward_weights={"right": 1.0, "from": 0.2})


def test_a_split_is_kept_and_the_rest_counted(tmp_path):
    rows = [row | {"split": "eval" if row["step"] else "train"} for row in ROWS]
    path = write(tmp_path / "a.jsonl", rows)
    log = read(path, split_column="split")
    assert (sizes(log), dict(log.dropped)) == ({4: 2}, {"row of another split than 'train'": 8})
    assert len(read(path, split_column="split", split="eval").rewards_N) == 8
    with pytest.raises(
        DataError, match=r"no row of split 'dev' in column 'split' \(it holds 'train', 'eval'\); pass --s"
    ):
        read(path, split_column="split", split="dev")


def test_labels_advantages_and_lengths(tmp_path):
    rows = [row | {"acc": row["reward"] > 0.9, "advantage": row["reward"] - 0.5, "n_tokens": 3 + n}
            for n, row in enumerate(ROWS)]  # fmt: skip
    rows[0]["acc"] = rows[1]["advantage"] = None
    log = read(write(tmp_path / "a.jsonl", rows), correct_column="acc")
    np.testing.assert_array_equal(log.labels_N[:4], [np.nan, 0, 0, 1])
    assert log.label_column == "acc"
    np.testing.assert_array_equal(log.advantages_N[:4], [-0.5, np.nan, 0.0, 0.5])
    assert log.lengths_N.tolist() == list(range(3, 19))
    with pytest.raises(DataError, match=r"a\.jsonl:2: column 'reward' should say 0 or 1, true or false, found 0\.25"):
        read(tmp_path / "a.jsonl", correct_column="reward")


@pytest.mark.parametrize("option", ["step", "correct", "advantage", "length", "prompt", "completion", "split"])
def test_a_told_column_that_is_not_there(tmp_path, option):
    path = write(tmp_path / "a.jsonl", ROWS)
    with pytest.raises(DataError, match=rf"a\.jsonl: no column 'x' for --{option}-column \(columns: step, group_id, "):
        read(path, **{f"{option}_column": "x"})


def test_two_schemas_in_one_folder_are_refused(tmp_path):
    write(tmp_path / "run" / "1.jsonl", ROWS)
    write(tmp_path / "run" / "2.jsonl", [{"group_id": "a", "score": 1.0}] * 2)
    expected = r"2\.jsonl: no column 'reward', which .*1\.jsonl has \(columns: group_id, score\); name the files of one"
    with pytest.raises(DataError, match=expected):
        read(tmp_path / "run")


def test_two_formats_are_refused_unless_one_is_other_tables_in_the_folder(tmp_path):
    verl = [{"input": f"p{n // 4}", "output": "x", "score": n % 4} for n in range(8)]
    write(tmp_path / "run" / "1.jsonl", verl)
    metrics = write(tmp_path / "run" / "metrics.csv", "step,loss\n1,0.5\n")
    log = read(tmp_path / "run")
    assert log.format == "verl"
    assert any("1 other tables in the folder were left out" in note for note in log.notes)
    with pytest.raises(DataError, match="files of different formats"):
        read_rollouts([tmp_path / "run" / "1.jsonl", metrics])


def test_a_told_format(tmp_path):
    path = write(tmp_path / "a.jsonl", [{"input": f"p{n // 4}", "output": "x", "score": n % 4} for n in range(8)])
    assert read(path).format == "verl"
    assert read(path, format="table").format == "table"
    with pytest.raises(UsageError, match=r"format: expected one of trl, verl, .*, got 'vrl'"):
        read(path, format="vrl")


def test_mixed_types_in_every_column(tmp_path):
    strange = [None, True, 7, 2.5, "text", [1], {"a": 1}, 10**30, -(10**400), math.nan]
    rows = [
        dict(zip(("step", "group_id", "prompt", "reward"), draw, strict=True))
        for draw in (random.Random(seed).choices(strange, k=4) for seed in range(300))
    ]
    log = read(write(tmp_path / "a.jsonl", rows), group_columns=("group_id",))
    known = [row for row in rows if row["group_id"] is not None and row["group_id"] == row["group_id"]]
    assert len(log.rewards_N) == len(known)
    assert log.n_rows == 300
    scored = [row for row in known if isinstance(row["reward"], int | float) and abs(row["reward"]) <= 1e100]
    assert np.isfinite(log.rewards_N).sum() == len(scored)


def test_float32_is_noticed(tmp_path):
    plain = table_rows(20)
    single = [row | {"reward": float(np.float32(row["reward"]))} for row in plain]
    assert not read(write(tmp_path / "a.jsonl", plain)).float32
    assert read(write(tmp_path / "b.jsonl", single)).float32
    assert not read(write(tmp_path / "c.jsonl", table_rows(1))).float32, "quarters are no sign of float32"


def test_progress_ends_at_the_size_of_all_files(tmp_path):
    paths = [write(tmp_path / f"{n}.jsonl", ROWS) for n in range(3)]
    calls = []
    read_rollouts(paths, ReadOptions(progress=lambda done, total: calls.append((done, total))))
    assert calls == sorted(calls)
    assert calls[-1] == (sum(path.stat().st_size for path in paths),) * 2


def graded_rows(seed, n_groups=24):
    rng = np.random.default_rng(seed)
    return [
        {"step": group // 6, "group_id": group, "prompt": f"p{group % 9}", "completion": f"{group}.{place}",
         "reward": round(float(rng.beta(0.5, 1.0)), 2), "advantage": float(rng.normal()),
         "length": int(rng.integers(99))}
        for group in range(n_groups) for place in range(int(rng.integers(1, 9)))
    ]  # fmt: skip


UNORDERED = ("n_rollouts", "n_groups", "n_prompts", "table", "r_count", "group_classes", "estimators", "threshold",
             "zero_variance_groups", "curves", "n_failed", "n_reinforced_failures", "length_unit")  # fmt: skip


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), n_files=st.integers(1, 7), suffix=st.sampled_from(["jsonl", "parquet"]))
def test_splitting_a_log_into_files_changes_nothing(tmp_path_factory, seed, n_files, suffix):
    folder, rows = tmp_path_factory.mktemp("split"), graded_rows(seed)
    cuts = sorted(random.Random(seed).choices(range(len(rows) + 1), k=n_files - 1))
    pieces = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    for number, piece in enumerate(pieces):
        (write if suffix == "jsonl" or not piece else write_parquet)(
            folder / "many" / f"{number}.{suffix if piece else 'jsonl'}", piece
        )
    one = write(folder / "one.jsonl", rows)
    assert document(read(folder / "many")) == document(read(one))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6))
def test_shuffling_a_log_with_ids_changes_nothing_but_the_order(tmp_path_factory, seed):
    folder, rows = tmp_path_factory.mktemp("shuffled"), graded_rows(seed)
    ordered = read(write(folder / "a.jsonl", rows))
    random.Random(seed).shuffle(rows)
    shuffled = read(write(folder / "b.jsonl", rows))
    assert groups_of(shuffled) == groups_of(ordered)
    one, other = document(ordered), document(shuffled)
    for key in UNORDERED:
        assert almost(one[key], other[key]), key


def almost(one, other):
    """Whether two parts of a document are equal up to rounding."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(almost(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(almost, one, other))
    return one == pytest.approx(other, rel=1e-9, abs=1e-9) if isinstance(one, float) else one == other


def test_no_log_left_after_all_was_dropped(tmp_path):
    rows = [{k: v for k, v in row.items() if k != "group_id"} | {"group_id": None} for row in ROWS]
    with pytest.raises(CorpoError, match=r"a\.jsonl: no rollout is left of 16 rows \(16 no group id\)"):
        read(write(tmp_path / "a.jsonl", rows))
