"""The advantages that reach TRL's loss and its completion log, in every mode of training TRL has."""

import numpy as np
import pytest
import torch
from peft import LoraConfig

from corpo_rl.core.advantages import (
    ESTIMATORS,
    corpo_advantages,
    dr_grpo_advantages,
    grpo_advantages,
    loo_corpo_advantages,
    rloo_advantages,
    static_advantages,
)
from corpo_rl.policies.mini import build_tokenizer

from .support import (
    GROUP_SIZE,
    MIN_CORRECT,
    RecordedGRPO,
    completion_log,
    graded,
    logged,
    prompts,
    tenths,
    train,
)

pytestmark = [
    # transformers 5.24 renames its own setting, which TRL still sets
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*is deprecated:FutureWarning"),
]

CORE = {
    "grpo": grpo_advantages,
    "dr_grpo": dr_grpo_advantages,
    "rloo": rloo_advantages,
    "static": lambda rewards, groups: static_advantages(rewards, groups, min_correct=MIN_CORRECT),
    "corpo": lambda rewards, groups: corpo_advantages(rewards, groups, min_correct=MIN_CORRECT),
    "loo_corpo": lambda rewards, groups: loo_corpo_advantages(rewards, groups, min_correct=MIN_CORRECT),
}


def corpo_of(rewards, *, group_size=GROUP_SIZE):
    """CoRPO's advantages of rows in groups one after the other, those without a reward left out and given 0."""
    rewards = np.asarray(rewards, dtype=float)
    groups, known = np.arange(len(rewards)) // group_size, ~np.isnan(rewards)
    advantages = np.zeros(len(rewards))
    advantages[known] = corpo_advantages(rewards[known], groups[known], min_correct=MIN_CORRECT)
    return advantages


def rewards_of(batch):
    """Rewards of a recorded batch by the reward function itself, without TRL."""
    return graded(build_tokenizer().batch_decode(batch.completion_ids, skip_special_tokens=True))


def by_rollout(batch):
    return {
        (tuple(prompt), tuple(completion)): advantage
        for prompt, completion, advantage in zip(batch.prompt_ids, batch.completion_ids, batch.advantages, strict=True)
    }


def test_a_core_function_is_named_here_for_every_estimator():
    assert tuple(CORE) == ESTIMATORS


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_advantages_that_reach_the_loss_and_the_log_are_those_of_core(tmp_path, estimator):
    run = train(tmp_path, advantage_estimator=estimator, gradient_accumulation_steps=2)

    for step, batch in enumerate(run.generations, start=1):
        table = completion_log(tmp_path, step)
        rewards = [tenths(text) / 10 for text in table["completion"]]
        expected = CORE[estimator](rewards, np.arange(16) // GROUP_SIZE)
        assert len(set(expected.round(6))) > 4, "the batch must tell estimators apart"

        np.testing.assert_allclose(batch.advantages, expected, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(table["advantage"], expected, rtol=1e-6, atol=1e-7)
        np.testing.assert_array_equal(table["corpo_reward"], rewards)
        assert table["corpo_group"].tolist() == [f"train-{step - 1}-0-{row // GROUP_SIZE}" for row in range(16)]
        assert table.groupby("corpo_group")["prompt"].nunique().tolist() == [1, 1, 1, 1]
        assert set(table["corpo_split"]) == {"train"}

        # TRL shuffles and splits the batch on its way to the loss: every rollout must bring its own advantage along.
        wanted = by_rollout(batch)
        micro_batches = [part for part in run.losses if part.step == step - 1]
        assert [len(part.advantages) for part in micro_batches] == [8, 8]
        for part in micro_batches:
            assert all(wanted[rollout] == advantage for rollout, advantage in by_rollout(part).items())
        assert sorted(np.concatenate([part.advantages for part in micro_batches])) == sorted(batch.advantages)


@pytest.mark.parametrize(("estimator", "scale_rewards"), [("grpo", "group"), ("dr_grpo", "none")])
def test_the_two_of_trl_are_those_of_trl(tmp_path, estimator, scale_rewards):
    trl = train(tmp_path / "trl", trainer=RecordedGRPO, scale_rewards=scale_rewards)
    ours = train(tmp_path / "ours", advantage_estimator=estimator)

    for step in (1, 2):
        expected, actual = completion_log(tmp_path / "trl", step), completion_log(tmp_path / "ours", step)
        assert actual["completion"].tolist() == expected["completion"].tolist()
        np.testing.assert_allclose(actual["advantage"], expected["advantage"], rtol=1e-6, atol=1e-6)
        assert logged(ours, step)["loss"] == pytest.approx(logged(trl, step)["loss"], rel=1e-5)


def test_a_reward_of_exactly_min_correct_is_correct(tmp_path):
    # As float32, 0.7 is 0.699999988 and 5/6 is 0.833333313: both under the threshold as Python has it.
    for threshold in (0.7, 5 / 6):
        run = train(
            tmp_path / f"{threshold:.1f}",
            reward=lambda completions, value=threshold, **_: [value] * len(completions),
            min_correct=threshold,
            max_steps=1,
        )
        assert logged(run, 1)["corpo/correct_share"] == 1.0
        assert logged(run, 1)["corpo/exceeding_share"] == 0.0
        assert logged(run, 1)["corpo/groups/all_correct_equal"] == 1.0
        np.testing.assert_array_equal(run.generations[0].advantages, np.zeros(8))


def test_a_rollout_at_its_groups_mean_has_no_sign(tmp_path):
    # (0.1 + 0.2 + 0.2 + 0.3) / 4 = 0.2 in decimals; in float32 the two in the middle differ from the mean by 2e-9.
    run = train(
        tmp_path,
        reward=lambda completions, **_: [0.1, 0.2, 0.2, 0.3] * (len(completions) // 4),
        advantage_estimator="dr_grpo",
        min_correct=0.7,
        max_steps=1,
    )
    assert logged(run, 1)["corpo/r_count"] == 1.0  # one above for one below
    assert logged(run, 1)["corpo/reinforced_failure_share"] == 0.25


def test_unscorable_rollouts_are_left_out(tmp_path):
    def reward(completions, prompts, **_):
        """None for the first prompt of the batch, whose group is then unscorable, and for texts of even length."""
        return [
            None if prompt == prompts[0] or len(text) % 2 == 0 else tenths(text) / 10
            for prompt, text in zip(prompts, completions, strict=True)
        ]

    run = train(tmp_path, reward=reward, gradient_accumulation_steps=2)
    for step, batch in enumerate(run.generations, start=1):
        table = completion_log(tmp_path, step)
        rewards = np.array(reward(table["completion"].tolist(), table["prompt"].tolist()), dtype=float)
        assert np.isnan(rewards[:4]).all()
        assert 0 < np.isnan(rewards[4:]).sum() < 12
        np.testing.assert_allclose(batch.advantages, corpo_of(rewards), rtol=1e-6, atol=1e-7)
        np.testing.assert_array_equal(table["corpo_reward"], rewards)
        assert logged(run, step)["corpo/unscorable"] == np.isnan(rewards).sum()
        assert logged(run, step)["corpo/groups/unscorable"] >= 0.25
        assert np.isfinite(logged(run, step)["loss"])


def test_a_batch_of_nothing_but_none_moves_nothing(tmp_path):
    run = train(tmp_path, reward=lambda completions, **_: [None] * len(completions), max_steps=1)
    np.testing.assert_array_equal(run.generations[0].advantages, np.zeros(8))
    assert logged(run, 1)["corpo/unscorable"] == 8.0
    for name in ("r_count", "r_loss", "reinforced_failure_share", "floored_group_share", "correct_share"):
        assert logged(run, 1)[f"corpo/{name}"] is None


def test_several_weighted_rewards_sum_and_none_adds_nothing(tmp_path):
    def length(completions, **_):
        return [None if len(text) == 8 else len(text) / 10 for text in completions]

    run = train(tmp_path, reward=[graded, length], reward_weights=[0.5, 2.0], gradient_accumulation_steps=2)
    for step, batch in enumerate(run.generations, start=1):
        table = completion_log(tmp_path, step)
        texts = table["completion"]
        totals = [0.5 * tenths(text) / 10 + (0.0 if len(text) == 8 else 2.0 * len(text) / 10) for text in texts]
        assert table["length"].isna().any()
        np.testing.assert_allclose(table["corpo_reward"], totals, atol=1e-12)
        np.testing.assert_allclose(batch.advantages, corpo_of(totals), rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(table["advantage"], corpo_of(totals), rtol=1e-6, atol=1e-7)


def test_conversations(tmp_path):
    tokenizer = build_tokenizer()
    tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    dataset = prompts(8).map(lambda row: {"prompt": [{"role": "user", "content": row["prompt"]}]})
    run = train(tmp_path, extra={"train_dataset": dataset, "processing_class": tokenizer}, max_steps=1)
    expected = corpo_of(rewards_of(run.generations[0]))
    assert expected.any()
    np.testing.assert_allclose(run.generations[0].advantages, expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(completion_log(tmp_path, 1)["advantage"], expected, rtol=1e-6, atol=1e-7)


def test_lora(tmp_path):
    peft_config = LoraConfig(r=2, target_modules="all-linear")
    run = train(tmp_path, extra={"peft_config": peft_config}, beta=0.1)
    for batch in run.generations:
        np.testing.assert_allclose(batch.advantages, corpo_of(rewards_of(batch)), rtol=1e-6, atol=1e-7)
    assert logged(run, 2)["corpo/r_loss"] < 0
    trained = {name for name, weight in run.model.named_parameters() if weight.requires_grad}
    assert trained
    assert all("lora_" in name for name in trained)


@pytest.mark.parametrize(
    ("changes", "steps_of_generation"),
    [
        ({"gradient_accumulation_steps": 2, "num_iterations": 2}, [0, 2]),
        ({"gradient_accumulation_steps": 1, "steps_per_generation": 2}, [0, 2]),
        ({"gradient_accumulation_steps": 2, "steps_per_generation": 1}, [0, 0, 1, 1, 2, 2, 3, 3]),
    ],
)
def test_reused_and_repeated_generations(tmp_path, changes, steps_of_generation):
    run = train(tmp_path, max_steps=4, **changes)
    assert [batch.step for batch in run.generations] == steps_of_generation
    for batch in run.generations:
        np.testing.assert_allclose(batch.advantages, corpo_of(rewards_of(batch)), rtol=1e-6, atol=1e-7)

    wanted = {key: value for batch in run.generations for key, value in by_rollout(batch).items()}
    for part in run.losses:
        assert all(wanted[rollout] == advantage for rollout, advantage in by_rollout(part).items())
    assert [part.step for part in run.losses] == [
        step for step in range(4) for _ in range(changes["gradient_accumulation_steps"])
    ]
    for step in range(1, 5):
        table = completion_log(tmp_path, step)
        assert table["corpo_group"].value_counts().unique().tolist() == [GROUP_SIZE]
        np.testing.assert_allclose(table["advantage"], corpo_of(table["corpo_reward"]), rtol=1e-6, atol=1e-7)


def test_evaluation_has_its_own_group_size_and_leaves_training_alone(tmp_path):
    # The second step trains on the first one's completions: whatever an evaluation between them spoils, it spoils here.
    both = {"num_iterations": 2, "gradient_accumulation_steps": 2, "max_steps": 2}
    alone = train(tmp_path / "alone", **both)
    run = train(
        tmp_path / "evaluated",
        extra={"eval_dataset": prompts(6, first=50)},
        eval_strategy="steps",
        eval_steps=1,
        num_generations_eval=2,
        per_device_eval_batch_size=4,
        **both,
    )

    for step in (1, 2):
        ours = {name: value for name, value in logged(alone, step).items() if name.startswith(("corpo/", "loss"))}
        assert ours["corpo/r_loss"] < 0
        assert {name: logged(run, step)[name] for name in ours} == ours

        evaluated = [batch for batch in run.generations if (batch.mode, batch.step) == ("eval", step)]
        assert [len(batch.advantages) for batch in evaluated] == [4, 4, 4]
        for batch in evaluated:
            expected = corpo_of(rewards_of(batch), group_size=2)
            np.testing.assert_allclose(batch.advantages, expected, rtol=1e-6, atol=1e-7)

        means = np.concatenate([np.reshape(rewards_of(batch), (2, 2)).mean(axis=1) for batch in evaluated])
        entry = logged(run, step, "eval_")
        assert entry["eval_corpo/floored_group_share"] == pytest.approx((means < MIN_CORRECT - 1e-9).mean())
        assert entry["eval_corpo/r_loss"] <= 0

    # TRL writes evaluation over the table of the step; before its 12 rows there is room for 4 of the last evaluation.
    table = completion_log(tmp_path / "evaluated", 2)
    assert table["corpo_group"].str.rpartition("-")[0].value_counts().to_dict() == {
        "eval-1-2": 4,
        "eval-2-0": 4,
        "eval-2-1": 4,
        "eval-2-2": 4,
    }
    assert set(table["corpo_split"]) == {"eval"}
    np.testing.assert_array_equal(table["corpo_reward"], [tenths(text) / 10 for text in table["completion"]])
    expected = corpo_of(table["corpo_reward"], group_size=2)
    np.testing.assert_allclose(table["advantage"], expected, rtol=1e-6, atol=1e-7)


def test_resumed_from_a_checkpoint_it_goes_on_as_if_never_stopped(tmp_path):
    settings_ = {"max_steps": 3, "save_strategy": "steps", "save_steps": 1}
    whole = train(tmp_path, **settings_)
    resumed = train(tmp_path, resume=str(tmp_path / "checkpoint-2"), **settings_)

    assert [batch.step for batch in resumed.generations] == [2]
    expected = {name: value for name, value in logged(whole, 3).items() if name != "step_time"}
    assert {name: logged(resumed, 3)[name] for name in expected} == expected
    for name, weight in whole.model.named_parameters():
        assert torch.equal(weight, resumed.model.get_parameter(name)), name
