"""Prompts of every format by id and text, and the training set they came from."""

import json

import numpy as np
import pytest

from corpo_rl.curation.matching import match_rows
from corpo_rl.curation.prompts import prompt_names
from corpo_rl.curation.rates import prompt_rates
from corpo_rl.demologs.simulate import simulate_run
from corpo_rl.demologs.write import DEMO_FORMATS, write_demo_log
from corpo_rl.errors import DataError
from corpo_rl.rollouts.options import ReadOptions
from corpo_rl.rollouts.read import read_rollouts

STEPS = 10
WITHOUT_PROMPTS = {"open_instruct", "tinker", "atropos"}
WITH_IDS = {"verifiers": "example_id", "nemo_gym": "_ng_task_index", "prime_rl": "task"}
PLAIN_TEXT = {"trl", "csv", "jsonl", "parquet", "ms_swift", "areal"}
"""Formats that hold the prompt as text; the others hold messages, or the text with a chat template."""
FIRST_GROUPS_ONLY = {"verifiers", "nemo_gym"}
"""Formats of evaluations: the writer gives each prompt its first group."""


def named(paths, **options):
    reading = ReadOptions(**options)
    log = read_rollouts(paths, reading)
    rates = prompt_rates(log, min_correct=0.8)
    return prompt_names(paths, reading, log, rates.first_row_P.tolist()), rates


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("form", [form for form in DEMO_FORMATS if form not in WITHOUT_PROMPTS])
def test_the_rate_of_each_row_of_the_training_set_is_that_of_the_run(tmp_path, form):
    train = simulate_run("graded-fault", seed=3, n_steps=STEPS).train
    folder = tmp_path / "log"
    write_demo_log(folder, scenario="graded-fault", format=form, seed=3, n_steps=STEPS)
    names, rates = named([folder])
    assert names.id_column == WITH_IDS.get(form)

    # the training set: every prompt of the run and one more, in another order, as messages
    order = np.random.default_rng(0).permutation(len(train.prompts)).tolist()
    texts = [train.prompts[place] for place in order] + ["never sampled"]
    values = texts if form in PLAIN_TEXT else [[{"role": "user", "content": text}] for text in texts]
    match = match_rows(names, values, column="prompt")

    used_N = np.ones(len(train.group_N), dtype=bool)
    if form in FIRST_GROUPS_ONLY:
        used_N = np.isin(train.group_N, train.group_N[np.unique(train.prompt_N, return_index=True)[1]])
    for place, number in zip([*order, None], match.prompt_of_row, strict=True):
        own_N = used_N & (train.prompt_N == place) if place is not None else np.zeros(len(used_N), dtype=bool)
        if not own_N.any():
            assert number is None
            continue
        assert rates.rollouts_P[number] == own_N.sum()
        assert rates.correct_P[number] == (train.rewards_N[own_N] >= 0.8).sum()
        assert rates.reward_P[number] == pytest.approx(train.rewards_N[own_N].mean(), abs=1e-6)
    assert match.n_prompts_unmatched == 0
    assert sum(number is not None for number in match.prompt_of_row) == len(rates.rate_P) > 20


@pytest.mark.parametrize("form", sorted(WITHOUT_PROMPTS))
def test_logs_that_tell_no_prompt_are_refused(tmp_path, form):
    write_demo_log(tmp_path / "log", scenario="graded-fault", format=form, seed=3, n_steps=2)
    with pytest.raises(DataError, match="the log does not tell its prompts, as not every group has an id or a text"):
        named([tmp_path / "log"])


def test_long_prompts_are_whole_and_ids_keep_their_kind(tmp_path):
    text = "long " * 9000
    rows = [{"prompt_id": number, "prompt": f"{number} {text}", "reward": 0.0} for number in (7, 3)]
    names, _ = named([lines(tmp_path / "run.jsonl", rows)])
    assert names.id_column == "prompt_id"
    assert names.ids == [7, 3]
    assert names.texts == [f"7 {text}", f"3 {text}"]


def test_prompts_of_a_file_that_is_read_in_pieces(tmp_path):
    rows = [{"prompt": f"{number} {'long ' * 9000}", "reward": 0.0} for number in range(200)]
    names, _ = named([lines(tmp_path / "run.jsonl", rows)])
    assert names.texts == [row["prompt"] for row in rows]


def test_prompts_of_several_files_and_of_files_left_out(tmp_path):
    lines(tmp_path / "1.jsonl", [{"prompt": "a", "step": 1, "group_id": "x", "reward": 0.0}])
    lines(tmp_path / "2.jsonl", [{"prompt": "b", "step": 2, "group_id": "y", "reward": 0.0}])
    names, _ = named([tmp_path])
    assert (names.id_column, names.texts) == (None, ["a", "b"])


def test_a_named_column_is_the_prompt(tmp_path):
    rows = [{"prompt_id": "p", "task": task, "group_id": task, "reward": 0.0} for task in ("t1", "t2")]
    names, _ = named([lines(tmp_path / "run.jsonl", rows)], prompt_column="task")
    assert (names.id_column, names.texts) == (None, ["t1", "t2"])


def test_a_log_that_changes_meanwhile_is_refused(tmp_path):
    path = lines(tmp_path / "run.jsonl", [{"prompt": "a", "group_id": "x", "reward": 0.0}])
    log = read_rollouts([path])
    path.write_text("")
    with pytest.raises(DataError, match="have changed while they were read; start again"):
        prompt_names([path], ReadOptions(), log, [0])
