"""verl's dumps: groups out of uid, sessions with several outputs, the older form without uid, validation dumps."""

import random

import pytest

from corpo_rl.errors import DataError
from corpo_rl.rollouts.read import read_with_texts
from tests.rollouts.logs import groups_of, read, sizes, write, write_parquet

GROUPS, SESSIONS = 6, 4


def v1_rows(step, outputs=1):
    """6 groups of 4 sessions; the reward of a session is that of its last output."""
    return [
        {
            "input": f"p{group}",
            "output": f"{group}.{session}.{output}",
            "gts": "x",
            "score": (session + group / 10) * (output == outputs - 1),
            "step": step,
            "uid": f"prompt_{step}_{group}_{session}_{output}",
        }
        for group in range(GROUPS)
        for session in range(SESSIONS)
        for output in range(outputs)
    ]


def legacy_rows(step):
    rows = v1_rows(step)
    for row in rows:
        del row["uid"]
    return rows


def dumped(folder, rows_of):
    for step in (1, 2, 10):
        write(folder / f"{step}.jsonl", rows_of(step))
    return folder


def test_uid_is_the_key_of_a_row_and_not_of_a_group(tmp_path):
    log = read(write(tmp_path / "1.jsonl", v1_rows(1)))
    assert log.title == "verl V1 rollouts"
    assert log.grouped_by == "uid without session and index, and step"
    assert sizes(log) == {4: 6}, "6 groups, not 24"
    assert log.columns_used["step"] == "step"
    assert log.columns_unused == ("gts",) or set(log.columns_unused) == {"gts", "output"}


def test_the_last_output_of_a_session_is_its_rollout(tmp_path):
    log = read(dumped(tmp_path / "three", lambda step: v1_rows(step, outputs=3)))
    assert sizes(log) == {4: 18}
    assert dict(log.dropped) == {"earlier output of a session": 3 * 6 * 4 * 2}
    assert groups_of(log) == groups_of(read(dumped(tmp_path / "one", v1_rows)))


def test_outputs_are_in_order_of_their_number_and_not_of_their_text(tmp_path):
    rows = [
        {"input": "p", "output": "x", "score": float(output), "step": 1, "uid": f"u_{session}_{output}"}
        for session in range(2)
        for output in range(12)
    ]
    assert read(write(tmp_path / "1.jsonl", rows)).rewards_N.tolist() == [11.0, 11.0]


def test_a_row_dumped_twice_counts_once(tmp_path):
    rows = v1_rows(1)
    log = read(write(tmp_path / "1.jsonl", [*rows, *rows[:5]]))
    assert sizes(log) == {4: 6}
    assert dict(log.dropped) == {"duplicate": 5}


def test_a_uid_that_comes_back_at_another_step_is_another_group(tmp_path):
    rows = [row | {"uid": row["uid"].replace(f"prompt_{row['step']}", "prompt")} for s in (1, 2) for row in v1_rows(s)]
    log = read(write(tmp_path / "all.jsonl", rows))
    assert sizes(log) == {4: 12}
    assert len(set(log.prompt_G.tolist())) == 6


@pytest.mark.parametrize("uid", ["3f2a-11", "a_b_c", "_x", 7, None, "p_1_-2"])
def test_a_uid_of_another_form_is_refused(tmp_path, uid):
    rows = [row | {"uid": uid} for row in v1_rows(1)]
    with pytest.raises(DataError, match=r"1\.jsonl:1: uid is not of the form <prompt>_<session>_<output>, so groups "
                                        r"cannot be told; pass --group-columns"):  # fmt: skip
        read(write(tmp_path / "1.jsonl", rows))
    told = read(tmp_path / "1.jsonl", group_columns=("input",))
    assert (sizes(told), told.grouped_by) == ({4: 6}, "input")


def test_single_rows_without_uid_are_counted(tmp_path):
    rows = v1_rows(1)
    rows[3]["uid"] = None
    log = read(write(tmp_path / "1.jsonl", rows))
    assert sizes(log) == {4: 5, 3: 1}
    assert dict(log.dropped) == {"no group id": 1}


@pytest.mark.parametrize("rows_of", [v1_rows, legacy_rows])
def test_shuffled_rows_are_the_same_groups(tmp_path, rows_of):
    def shuffled(step):
        rows = rows_of(step)
        random.Random(step).shuffle(rows)
        return rows

    in_order, mixed = read(dumped(tmp_path / "a", rows_of)), read(dumped(tmp_path / "b", shuffled))
    assert sizes(in_order) == {4: 18}
    assert groups_of(mixed) == groups_of(in_order)
    assert mixed.step_G.tolist() == in_order.step_G.tolist() == [1] * 6 + [2] * 6 + [10] * 6


def test_the_older_form_groups_by_step_and_input(tmp_path):
    log = read(dumped(tmp_path, legacy_rows))
    assert log.title == "verl legacy rollouts"
    assert log.grouped_by == "step and input (this dump has no uid)"


def test_a_prompt_drawn_twice_in_a_step_of_the_older_form_is_warned_about(tmp_path):
    rows = [row for step in range(3) for row in legacy_rows(step)]
    twice = [row | {"output": "again"} for row in rows[:4]]
    log = read(write(tmp_path / "all.jsonl", [*rows, *twice]))
    assert sizes(log) == {4: 17, 8: 1}
    assert any("1 of 18 groups has 8 rollouts, 2 times the usual 4" in warning for warning in log.warnings)


@pytest.mark.parametrize("rows_of", [v1_rows, legacy_rows])
def test_the_step_is_in_the_name_of_the_file_where_no_row_has_it(tmp_path, rows_of):
    def without_step(step):
        return [{name: value for name, value in row.items() if name != "step"} for row in rows_of(step)]

    log = read(dumped(tmp_path, without_step))
    assert log.step_G.tolist() == [1] * 6 + [2] * 6 + [10] * 6
    log = read(write(tmp_path / "other" / "dump.jsonl", without_step(1)))
    assert (log.step_G, sizes(log)) == (None, {4: 6})


def test_validation_dumps_are_said_to_be_ones(tmp_path):
    rows = [row | {"reward": row["score"], "acc": row["score"] > 2} for row in legacy_rows(1)]
    path = write(tmp_path / "1.jsonl", rows)
    log = read(path)
    assert log.title == "verl validation dumps"
    assert any("nothing was trained on them" in warning for warning in log.warnings)
    assert any("--correct-column acc" in note for note in log.notes)
    labelled = read(path, correct_column="acc")
    assert labelled.labels_N.sum() == sum(row["acc"] for row in rows)


def test_another_reward_column(tmp_path):
    rows = [row | {"shaped": -row["score"]} for row in v1_rows(1)]
    log = read(write(tmp_path / "1.jsonl", rows), reward_columns=("shaped",))
    assert log.rewards_N.min() == -3.5
    both = read(tmp_path / "1.jsonl", reward_columns=("score", "shaped"))
    assert set(both.rewards_N.tolist()) == {0.0}
    assert list(both.components) == ["score", "shaped"]


def test_two_runs_in_one_folder_are_refused(tmp_path):
    dumped(tmp_path / "a", v1_rows)
    dumped(tmp_path / "b", v1_rows)
    with pytest.raises(DataError, match="is the same step, so these are two runs"):
        read(tmp_path)


@pytest.mark.parametrize("outputs", [1, 2])
def test_texts(tmp_path, outputs):
    log, read_texts = read_with_texts([dumped(tmp_path, lambda step: v1_rows(step, outputs))])
    rows = [71, 0, 25]
    texts = read_texts(rows)
    assert [text.completion for text in texts] == [f"{g}.{s}.{outputs - 1}" for g, s in ((5, 3), (0, 0), (0, 1))]
    assert [text.prompt for text in texts] == ["p5", "p0", "p0"]
    assert log.row_N[rows].tolist() == [24 * outputs, outputs, 2 * outputs]


def test_a_dump_turned_into_parquet_has_the_same_groups(tmp_path):
    log = read(write_parquet(tmp_path / "1.parquet", v1_rows(1, outputs=2)))
    assert (sizes(log), log.title) == ({4: 6}, "verl V1 rollouts")
    assert groups_of(log) == groups_of(read(write(tmp_path / "1.jsonl", v1_rows(1, outputs=2))))
