"""Every format, round trip: what was simulated, written as a framework logs it, is what is read."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpo_rl.audit.document import audit_rollouts
from corpo_rl.demologs.simulate import SCENARIOS, simulate_run
from corpo_rl.demologs.write import DEMO_FORMATS, write_demo_log
from corpo_rl.report.audit_schema import check_audit
from corpo_rl.rollouts.read import read_rollouts, read_with_texts

STEPS = 10
WITHOUT_STEPS = {"verifiers", "nemo_gym", "atropos"}
FIRST_GROUPS_ONLY = {"verifiers", "nemo_gym"}
WITH_ADVANTAGES = {"trl", "trl-chat", "csv", "jsonl", "parquet", "open_instruct", "ms_swift", "prime_rl"}
WITHOUT_TEXTS = {"open_instruct", "tinker"}
READ_AS = {"trl-chat": "trl", "verl-legacy": "verl", "csv": "table", "jsonl": "table", "parquet": "table"}
FLOAT32 = {"trl", "trl-chat", "verl", "verl-legacy", "areal", "ms_swift"}


def written(tmp_path, form, scenario="graded-fault"):
    run = simulate_run(scenario, seed=3, n_steps=STEPS)
    return run, write_demo_log(tmp_path / "log", scenario=scenario, format=form, seed=3, n_steps=STEPS)


def multisets(group_N, *columns):
    """How often each multiset of rows occurs among the groups: equal when groups and rows are, in whatever order."""
    rows = np.round(np.stack(columns, axis=1), 5)
    groups = {}
    for group, row in zip(group_N.tolist(), rows.tolist(), strict=True):
        groups.setdefault(group, []).append(tuple(row))
    return Counter(tuple(sorted(members)) for members in groups.values())


def expected_rows(run, form):
    train = run.train
    if form not in FIRST_GROUPS_ONLY:
        return np.ones(len(train.group_N), dtype=bool)
    _, first = np.unique(train.prompt_N, return_index=True)
    return np.isin(train.group_N, train.group_N[first])


@pytest.mark.parametrize("form", DEMO_FORMATS)
def test_rewards_groups_steps_and_advantages_come_back(tmp_path, form):
    run, paths = written(tmp_path, form)
    log = read_rollouts(paths)
    kept = expected_rows(run, form)
    train = run.train
    assert log.format == READ_AS.get(form, form)
    assert len(log.rewards_N) == kept.sum()
    assert set(log.dropped) == ({"duplicate"} if form == "prime_rl" else set())  # its two subsets hold the same ones
    assert log.n_rows == kept.sum() + sum(log.dropped.values())
    assert not log.unscorable
    columns, simulated = [log.rewards_N], [train.rewards_N[kept]]
    if form in WITH_ADVANTAGES:
        columns.append(log.advantages_N)
        simulated.append(train.advantages_N[kept])
    else:
        assert log.advantages_N is None
    if form not in WITHOUT_STEPS:
        step_N = log.step_G[log.group_N]
        columns.append(step_N - step_N.min())
        simulated.append(train.step_N[kept] - 1)
    else:
        assert log.step_G is None
    if log.lengths_N is not None:
        assert log.length_unit == "tokens"
        columns.append(log.lengths_N)
        simulated.append(train.lengths_N[kept].astype(float))
    assert multisets(log.group_N, *columns) == multisets(train.group_N[kept], *simulated)
    assert log.float32 == (form in FLOAT32)
    if form not in WITHOUT_TEXTS and form != "atropos":
        assert len(np.unique(log.prompt_G)) == len(np.unique(train.prompt_N[kept]))


@pytest.mark.parametrize("form", DEMO_FORMATS)
def test_a_folder_and_its_files_in_another_order_give_the_same_audit(tmp_path, form):
    _, paths = written(tmp_path, form)
    floor = SCENARIOS["graded-fault"].min_correct
    audits = [
        audit_rollouts(read_rollouts(source), min_correct=floor, created="now")
        for source in ([tmp_path / "log"], list(reversed(paths)))
    ]
    for audit in audits:
        del audit["examples"], audit["log"]["sources"]
    assert audits[0] == audits[1] or len(paths) > 1
    for key in ("n_reinforced_failures", "n_groups", "group_classes", "reinforced_failure_share", "n_failed"):
        assert audits[0][key] == audits[1][key]


@pytest.mark.parametrize("form", DEMO_FORMATS)
def test_texts_of_the_examples_are_those_of_their_rows(tmp_path, form):
    run, paths = written(tmp_path, form)
    log, read_texts = read_with_texts(paths)
    rows = [0, 5, len(log.rewards_N) - 1]
    texts = read_texts(rows)
    if form in WITHOUT_TEXTS:
        assert [(text.prompt, text.completion) for text in texts] == [(None, None)] * 3
        return
    rewards_of = {}
    for completion, reward in zip(run.train.completions, run.train.rewards_N.tolist(), strict=True):
        rewards_of.setdefault(completion, set()).add(round(reward, 5))
    for row, text in zip(rows, texts, strict=True):
        spoken = next(completion for completion in rewards_of if completion in text.completion)
        assert round(float(log.rewards_N[row]), 5) in rewards_of[spoken]
        assert any(prompt in text.prompt for prompt in run.train.prompts)


@pytest.mark.parametrize("form", DEMO_FORMATS)
@pytest.mark.parametrize("scenario", ["dirty", "healthy-binary"])
def test_every_scenario_is_audited_in_every_format(tmp_path, form, scenario):
    run, paths = written(tmp_path, form, scenario)
    log = read_rollouts(paths)
    document = audit_rollouts(log, min_correct=SCENARIOS[scenario].min_correct)
    check_audit(document)
    warned = {one["id"] for one in document["findings"] if one["status"] == "WARN"}
    if scenario == "healthy-binary":
        assert not warned
        return
    assert "reinforced_failures" in warned
    assert document["n_unscorable"] > 0
    kept = expected_rows(run, form)
    assert len(log.rewards_N) <= kept.sum(), "no evaluation or repeated row is counted"
    assert len(log.rewards_N) >= kept.sum() - 72, "at most a torn line and a step whose file holds the evaluation lack"


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ("trl", "repeated under a later step"),
        ("verl", "duplicate"),
        ("open_instruct", "duplicate"),
        ("tinker", "duplicate"),
        ("areal", "duplicate"),
        ("prime_rl", "duplicate"),
    ],
)
def test_repeated_rows_are_dropped_and_counted(tmp_path, form, reason):
    run, paths = written(tmp_path, form, "dirty")
    assert run.repeated
    assert read_rollouts(paths).dropped[reason] >= len(run.repeated)


def test_a_table_that_names_its_groups_is_no_trl_log(tmp_path):
    columns = {"step": [1] * 4, "prompt": ["a"] * 4, "completion": ["b"] * 4, "group_id": [0, 0, 1, 1]}
    columns |= {"reward": [0.0, 1.0, 0.5, 0.5], "acc": [0, 1, 0, 1], "advantage": [-0.5, 0.5, 0.0, 0.0]}
    pq.write_table(pa.table(columns), tmp_path / "run.parquet")
    log = read_rollouts([tmp_path / "run.parquet"])
    assert (log.format, log.grouped_by) == ("table", "step and group_id")
