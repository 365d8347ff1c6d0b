"""What `watch` adds to a TRL trainer: figures equal to core's on the rewards seen, and nothing else."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from trl import RLOOConfig, RLOOTrainer

from corpo_rl.audit.document import audit_rollouts
from corpo_rl.core.dynamics import floored_group_share, group_class_counts, r_count, reinforced_failure_share
from corpo_rl.errors import UsageError
from corpo_rl.policies.mini import build_tokenizer, new_model
from corpo_rl.rollouts.read import read_rollouts
from corpo_rl.training.audit_callback import AuditCallback, watch

from .support import (
    GROUP_SIZE,
    MIN_CORRECT,
    RecordedCorpo,
    RecordedGRPO,
    completion_log,
    graded,
    logged,
    prompts,
    settings,
    tenths,
    train,
)

pytestmark = [
    # transformers 5.24 renames its own setting, which TRL still sets
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*is deprecated:FutureWarning"),
]


def audited(run, step):
    return {
        name.removeprefix("audit/"): value for name, value in logged(run, step).items() if name.startswith("audit/")
    }


def seen_rewards(reward, calls):
    """The reward function, which also keeps what it gave out, call by call."""

    def kept(completions, **columns):
        rewards = reward(completions, **columns)
        calls.append(np.array(rewards, dtype=float))
        return rewards

    return kept


def core_figures(rewards, advantages):
    """Figures of core on the rewards as the reward function gave them."""
    group_N = np.arange(len(rewards)) // GROUP_SIZE
    known = rewards[~np.isnan(rewards)]
    return {
        "reinforced_failure_share": reinforced_failure_share(rewards, advantages, min_correct=MIN_CORRECT),
        "r_count": r_count(advantages),
        "floored_group_share": floored_group_share(rewards, group_N, min_correct=MIN_CORRECT),
        "correct_share": np.mean(known >= MIN_CORRECT),
        "exceeding_share": np.mean(known > MIN_CORRECT),
        "unscorable": np.isnan(rewards).sum(),
        "advantage_mean": advantages.mean(),
        "advantage_abs_mean": np.abs(advantages).mean(),
    } | {
        f"groups/{name}": count / (len(rewards) / GROUP_SIZE)
        for name, count in group_class_counts(rewards, group_N, min_correct=MIN_CORRECT).items()
    }


def grpo_in_float64(rewards, *, scale_rewards):
    """Advantages as TRL's formula has them, without float32: the signs that its logged ones stand for."""
    grouped = rewards.reshape(-1, GROUP_SIZE)
    centred = grouped - np.nanmean(grouped, axis=1, keepdims=True)
    centred[np.abs(centred) < 1e-9] = 0.0
    if scale_rewards == "group":
        centred = centred / (np.nanstd(grouped, axis=1, ddof=1, keepdims=True) + 1e-4)
    return np.nan_to_num(centred).ravel()


@pytest.mark.parametrize("scale_rewards", ["group", "none"])
def test_figures_are_those_of_core_on_the_rewards_seen(tmp_path, scale_rewards):
    calls = []

    def reward(completions, **_):
        return [None if len(text) == 7 else value for text, value in zip(completions, graded(completions), strict=True)]

    run = train(
        tmp_path,
        reward=seen_rewards(reward, calls),
        trainer=RecordedGRPO,
        scale_rewards=scale_rewards,
        gradient_accumulation_steps=4,
        watched=MIN_CORRECT,
    )
    assert len(calls) == 2
    shares = []
    for step, rewards in enumerate(calls, start=1):
        assert np.isnan(rewards).any()
        advantages = grpo_in_float64(rewards, scale_rewards=scale_rewards)
        np.testing.assert_allclose(completion_log(tmp_path, step)["advantage"], advantages, atol=1e-3)
        expected = core_figures(rewards, advantages)
        shares.append(expected["reinforced_failure_share"])
        found = audited(run, step)
        assert found.pop("reinforced_failure_share_grpo") == expected["reinforced_failure_share"]
        assert found == pytest.approx(expected, abs=1e-3 if scale_rewards == "group" else 1e-6)
    assert any(shares), "a failure must be reinforced"


@pytest.mark.parametrize("scale_rewards", ["group", "none"])
def test_the_audit_of_the_log_says_the_same_afterwards(tmp_path, scale_rewards):
    """Of a plain GRPOTrainer's completions, which hold no group and no total reward."""
    run = train(
        tmp_path,
        reward=graded,
        trainer=RecordedGRPO,
        scale_rewards=scale_rewards,
        gradient_accumulation_steps=4,
        watched=MIN_CORRECT,
    )
    log = read_rollouts([tmp_path / "completions"])
    document = audit_rollouts(log, min_correct=MIN_CORRECT)
    assert document["logged_estimator"]["name"] == ("grpo" if scale_rewards == "group" else "dr_grpo")
    assert document["log"]["group_sizes"] == {str(GROUP_SIZE): document["n_groups"]}
    curves = document["curves"]
    for place, step in enumerate(curves["step"]):
        figures = audited(run, step)
        for name in ("reinforced_failure_share", "r_count", "floored_group_share", "correct_share", "unscorable"):
            assert curves[name][place] == figures.get(name), (step, name)
        for name in ("all_failed_equal", "all_failed_graded", "mixed", "all_correct_graded", "all_correct_equal"):
            assert curves[f"class_{name}"][place] == figures[f"groups/{name}"], (step, name)
    assert min(document["n_failed"], document["n_correct"], document["group_classes"]["mixed"]) > 0


def test_training_is_the_same_bit_by_bit(tmp_path):
    both = {"trainer": RecordedGRPO, "num_iterations": 2, "gradient_accumulation_steps": 2, "max_steps": 3}
    alone = train(tmp_path / "alone", **both)
    watched = train(tmp_path / "watched", watched=MIN_CORRECT, **both)
    for name, weight in alone.model.named_parameters():
        assert torch.equal(weight, watched.model.get_parameter(name)), name
    assert any(
        not torch.equal(weight, watched.model.get_parameter(name)) for name, weight in new_model(0).named_parameters()
    ), "training must have moved the weights"
    for step in (1, 2, 3):
        timed = {name for name in logged(alone, step) if "time" in name or "per_second" in name}
        plain = {name: value for name, value in logged(alone, step).items() if name not in timed}
        assert {name: logged(watched, step)[name] for name in plain} == plain


def test_it_agrees_with_the_trainer_of_ours(tmp_path):
    run = train(tmp_path, trainer=RecordedCorpo, gradient_accumulation_steps=2, max_steps=3, watched=MIN_CORRECT)
    for step in (1, 2, 3):
        ours = {
            name.removeprefix("corpo/"): value for name, value in logged(run, step).items() if name.startswith("corpo/")
        }
        assert ours.pop("r_loss") < 0
        assert audited(run, step) == pytest.approx(ours, abs=1e-6)


@pytest.mark.parametrize(
    ("changes", "batches_of_step"),
    [
        # Steps 1 and 2 train on one batch, 3 and 4 on the next.
        ({"num_iterations": 2, "gradient_accumulation_steps": 2}, {1: [0], 2: [], 3: [1], 4: []}),
        ({"steps_per_generation": 2, "gradient_accumulation_steps": 1}, {1: [0], 2: [], 3: [1], 4: []}),
        # A step of four micro-batches generates twice.
        ({"steps_per_generation": 2, "gradient_accumulation_steps": 4}, {1: [0, 1], 2: [2, 3], 3: [4, 5], 4: [6, 7]}),
    ],
)
def test_each_generated_batch_counts_once(tmp_path, changes, batches_of_step):
    calls = []
    run = train(
        tmp_path,
        reward=seen_rewards(graded, calls),
        trainer=RecordedGRPO,
        max_steps=4,
        watched=MIN_CORRECT,
        n_prompts=32,
        **changes,
    )
    assert len({float(np.mean(rewards >= MIN_CORRECT)) for rewards in calls}) > 1, "the batches must differ"
    for step, batches in batches_of_step.items():
        if batches:
            shares = [np.mean(calls[batch] >= MIN_CORRECT) for batch in batches]
            assert audited(run, step)["correct_share"] == pytest.approx(np.mean(shares))
        else:
            assert audited(run, step) == {}


def test_a_log_of_several_steps_is_the_mean_of_their_batches(tmp_path):
    calls = []
    run = train(
        tmp_path,
        reward=seen_rewards(graded, calls),
        trainer=RecordedGRPO,
        max_steps=4,
        logging_steps=3,
        num_iterations=2,
        gradient_accumulation_steps=1,
        watched=MIN_CORRECT,
    )
    shares = [np.mean(rewards >= MIN_CORRECT) for rewards in calls]
    assert len(shares) == 2
    assert shares[0] != shares[1]
    assert audited(run, 3)["correct_share"] == pytest.approx(np.mean(shares))


def test_evaluation_is_left_out(tmp_path):
    calls = []
    run = train(
        tmp_path,
        reward=seen_rewards(graded, calls),
        trainer=RecordedGRPO,
        gradient_accumulation_steps=2,
        extra={"eval_dataset": prompts(6, first=50)},
        eval_strategy="steps",
        eval_steps=1,
        num_generations_eval=2,
        per_device_eval_batch_size=4,
        watched=MIN_CORRECT,
    )
    assert [len(rewards) for rewards in calls] == [16, 4, 4, 4] * 2
    for step, rewards in ((1, calls[0]), (2, calls[4])):
        assert audited(run, step)["correct_share"] == pytest.approx(np.mean(rewards >= MIN_CORRECT))
        assert not any("audit/" in name for name in logged(run, step, "eval_"))


def test_weighted_rewards_are_summed(tmp_path):
    def length(completions, **_):
        return [None if len(text) == 8 else len(text) / 10 for text in completions]

    run = train(
        tmp_path,
        reward=[graded, length],
        trainer=RecordedGRPO,
        reward_weights=[0.5, 2.0],
        gradient_accumulation_steps=2,
        max_steps=1,
        watched=1.7,
    )
    texts = completion_log(tmp_path, 1)["completion"]
    totals = [
        0.5 * tenths(text) / 10 + (0 if len(text) == 8 else 2 * len(text) / 10) for text in texts
    ]  # whole twentieths
    expected = np.mean([round(20 * total) >= 34 for total in totals])
    assert 0 < expected < 1
    assert audited(run, 1)["correct_share"] == pytest.approx(expected)


def test_rloo_too(tmp_path):
    changes = {name: value for name, value in settings(tmp_path, beta=0.0).items() if name != "loss_type"}
    run = RLOOTrainer(
        model=new_model(0),
        reward_funcs=lambda completions, **_: [0.0, 0.1, 0.3, 1.0] * (len(completions) // 4),
        args=RLOOConfig(**changes),
        train_dataset=prompts(16),
        processing_class=build_tokenizer(),
    )
    assert watch(run, min_correct=0.5) is run
    run.train()
    # Baselines without oneself: 1.4/3, 1.3/3, 1.1/3, 0.4/3; only the last rollout is over its own.
    assert audited(run, 2)["reinforced_failure_share"] == 0.0
    assert audited(run, 2)["r_count"] == pytest.approx(1 / 3)


def trainer_like(**changes):
    """As much of a trainer as the callback looks at."""
    parts = {
        "_metrics": {"train": {}, "eval": {}},
        "_logs": {"rewards": {}, "advantages": []},
        "add_callback": lambda callback: None,
        "reward_func_names": ["graded"],
        "reward_weights": torch.ones(1),
        "num_generations": 4,
        "args": SimpleNamespace(generation_batch_size=8),
    } | changes
    return SimpleNamespace(**{name: value for name, value in parts.items() if value is not None})


@pytest.mark.parametrize("min_correct", [float("nan"), float("inf")])
def test_min_correct_is_a_number(min_correct):
    with pytest.raises(UsageError, match=r"min_correct: expected the least total reward .* got (nan|inf); pass watch"):
        watch(trainer_like(), min_correct=min_correct)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"_metrics": None}, r"no _metrics\['train'\]"),
        ({"_metrics": {"eval": {}}}, r"no _metrics\['train'\]"),
        ({"_logs": None}, "no _logs of rewards and advantages"),
        ({"_logs": {"rewards": {}}}, "no _logs of rewards and advantages"),
        ({"add_callback": None}, "no add_callback"),
        ({"reward_func_names": None}, "no reward_func_names"),
        ({"reward_weights": None}, "no reward_weights"),
        ({"num_generations": None}, "no num_generations"),
        ({"args": SimpleNamespace()}, "no generation_batch_size"),
    ],
)
def test_a_trainer_that_is_not_known_is_refused(changes, found):
    with pytest.raises(UsageError, match=f"trainer: expected a GRPOTrainer .* got a SimpleNamespace with {found}"):
        watch(trainer_like(**changes), min_correct=0.5)


def test_reward_functions_of_one_name_are_refused():
    with pytest.raises(
        UsageError, match=r"reward functions: expected a name of its own for each, got f, f: .*__name__"
    ):
        watch(trainer_like(reward_func_names=["f", "f"]), min_correct=0.5)


@pytest.mark.parametrize(
    ("metrics", "rows", "found"),
    [
        ({}, 8, "0 values of frac_reward_zero_std after 0 generated batches"),
        ({"frac_reward_zero_std": [0.0, 0.0]}, 8, "2 values of frac_reward_zero_std after 0 generated batches"),
        ({"frac_reward_zero_std": [0.0]}, 6, "logs of 6, 6 rows where a generated batch has 8"),
    ],
)
def test_a_trainer_that_turns_out_otherwise_is_refused(metrics, rows, found):
    trainer = trainer_like(
        _metrics={"train": metrics}, _logs={"rewards": {"graded": [0.0] * rows}, "advantages": [0.0] * rows}
    )
    callback = AuditCallback(trainer, min_correct=0.5)
    with pytest.raises(UsageError, match=f"with {found}; without watch"):
        callback.on_step_end(None, None, None)
