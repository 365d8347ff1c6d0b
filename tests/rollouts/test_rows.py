"""Formats of one rollout a line, on records written by hand."""

import pytest

from corpo_rl.errors import DataError
from corpo_rl.rollouts.options import ReadOptions
from corpo_rl.rollouts.read import read_rollouts
from tests.rollouts.logs import REWARDS, read, sizes, write


def areal(task, sample, version, *, prompt="q"):
    return {
        "task_id": task,
        "sample_idx": sample,
        "seqlen": 9 + sample,
        "prompt_len": 4,
        "head_version": 0,
        "tail_version": version,
        "reward": REWARDS[sample],
        "prompt": f"{prompt}{task}",
        "completion": f"answer {sample}",
    }


def areal_folder(tmp_path, rows, kind="rollout"):
    for number in {(row["tail_version"], row["task_id"]) for row in rows}:
        path = tmp_path / "run" / kind / str(number[0]) / f"{number[1]}.jsonl"
        write(path, [row for row in rows if (row["tail_version"], row["task_id"]) == number])
    return tmp_path / "run"


def test_areal_groups_are_version_and_task_and_lengths_lack_the_prompt(tmp_path):
    folder = areal_folder(tmp_path, [areal(task, sample, 3 + task) for task in range(2) for sample in range(4)])
    areal_folder(tmp_path, [areal(9, 0, 3)], kind="eval-rollout")
    log = read(folder)
    assert (log.format, log.grouped_by, sizes(log)) == ("areal", "tail_version and task_id", {4: 2})
    assert log.dropped == {"evaluation row": 1}
    assert log.lengths_N.tolist() == [5, 6, 7, 8] * 2
    assert log.step_G.tolist() == [3, 4]


def test_areal_processes_that_count_their_tasks_alike_are_told_apart_or_refused(tmp_path):
    rows = [areal(task, sample, 5, prompt=rank) for rank in "ab" for task in range(2) for sample in range(4)]
    folder = areal_folder(tmp_path, rows)
    with pytest.raises(DataError, match=r"has another prompt than in .*pass --group-columns task_id,prompt"):
        read(folder)
    log = read(folder, group_columns=("task_id", "prompt"))
    assert (sizes(log), log.dropped) == ({4: 4}, {})


def test_areal_groups_that_ended_under_several_versions_are_put_together_or_refused(tmp_path):
    rows = [areal(task, sample, 5 + sample % 2) for task in range(3) for sample in range(4)]
    folder = areal_folder(tmp_path, rows)
    with pytest.raises(DataError, match=r"those of 3 of 3 tasks.*pass --group-columns task_id"):
        read(folder)
    assert sizes(read(folder, group_columns=("task_id",))) == {4: 3}


def test_areal_runs_started_again_count_their_tasks_once_more(tmp_path):
    rows = [areal(task, sample, version) for version in (5, 8) for task in range(2) for sample in range(4)]
    assert sizes(read(areal_folder(tmp_path, rows))) == {4: 4}


def open_instruct(step, sample):
    return {
        "step": step,
        "sample_idx": sample,
        "prompt_idx": sample // 4,
        "response_tokens": list(range(sample + 1)),
        "reward": REWARDS[sample % 4],
        "advantage": REWARDS[sample % 4] - 0.4375,
        "dataset": "ab"[sample // 4],
    }


def test_open_instruct_groups_are_step_and_prompt(tmp_path):
    rows = [open_instruct(step, sample) for step in (1, 2) for sample in range(8)]
    path = write(tmp_path / "run_rollouts_000000.jsonl", rows)
    log = read(path)
    assert (log.format, log.grouped_by, sizes(log)) == ("open_instruct", "step and prompt_idx", {4: 4})
    assert log.advantages_N.tolist() == [reward - 0.4375 for reward in REWARDS] * 4
    assert log.lengths_N.tolist() == list(range(1, 9)) * 2
    told = read(path, group_columns=("step", "dataset"))
    assert (told.grouped_by, sizes(told)) == ("step and dataset", {4: 4})


def tinker(iteration, group, place, split="train"):
    return {
        "split": split,
        "iteration": iteration,
        "group_idx": group,
        "traj_idx": place,
        "total_reward": REWARDS[place],
        "steps": [{"ac_len": 3}, {"ac_len": place}],
    }


def test_tinker_groups_are_iteration_and_group_and_other_splits_are_dropped(tmp_path):
    rows = [tinker(iteration, group, place) for iteration in (0, 1) for group in (0, 1) for place in range(4)]
    log = read(write(tmp_path / "train_rollout_summaries.jsonl", [*rows, tinker(1, 0, 0, split="eval/test")]))
    assert (log.format, log.grouped_by, sizes(log)) == ("tinker", "iteration and group_idx", {4: 4})
    assert log.dropped == {"row of another split than 'train'": 1}
    assert log.lengths_N.tolist() == [3, 4, 5, 6] * 4


@pytest.mark.parametrize("key", ["id", "example_id"])
def test_verifiers_results_are_grouped_by_example_and_groups_of_one_are_warned_of(tmp_path, key):
    shared = {"prompt": [{"role": "user", "content": "q"}], "completion": [], "task": "t", "generation_ms": 1.0}
    rows = [{key: example, "reward": reward, **shared} for example in (7, 8) for reward in REWARDS]
    log = read(write(tmp_path / "results.jsonl", rows))
    assert (log.format, log.grouped_by, sizes(log)) == ("verifiers", key, {4: 2})
    alone = read(write(tmp_path / "alone.jsonl", rows[::4]))
    assert alone.warnings == (
        "every group has one rollout, so nothing is compared with anything; check --group-columns",
    )


def nemo_gym(task, place):
    return {
        "responses_create_params": {"input": [{"role": "user", "content": f"q{task}"}]},
        "response": {"output": [], "usage": {"output_tokens": 10 + place}},
        "reward": REWARDS[place],
        "_ng_task_index": task,
        "_ng_rollout_index": place,
    }


def test_nemo_gym_groups_are_tasks_and_without_them_it_is_refused(tmp_path):
    rows = [nemo_gym(task, place) for task in (0, 1) for place in range(4)]
    log = read(write(tmp_path / "rollouts.jsonl", rows))
    assert (log.format, log.grouped_by, sizes(log)) == ("nemo_gym", "_ng_task_index", {4: 2})
    assert log.lengths_N.tolist() == [10, 11, 12, 13] * 2
    bare = [{name: value for name, value in row.items() if not name.startswith("_ng")} for row in rows]
    path = write(tmp_path / "bare.jsonl", bare)
    with pytest.raises(DataError, match="nothing tells which rollouts answer one task"):
        read_rollouts([path])
    assert sizes(read_rollouts([path], ReadOptions(group_size=4))) == {4: 2}
