"""Step rewards in verl's V1 trainer, from stored rollouts to stored advantages, and in verl's configuration."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.trainer.ppo.v1 import trainer_base
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from corpo_rl.errors import CorpoError, DataError, UsageError
from corpo_rl.training import verl as adapter
from corpo_rl.training.verl_step_carrier import NO_STEPS
from corpo_rl.training.verl_step_settings import STEP_NAME, check_step_run, step_warnings_about

from .test_trainer import started, transfer_queue  # noqa: F401  # fixtures
from .test_verl_steps import FLOOR, STEP_FLOOR, packed, settings

PAGE = Path(__file__).parents[2] / "docs" / "steps.md"
STEPS = (
    f"algorithm.adv_estimator={STEP_NAME}",
    f"+algorithm.corpo_min_correct={FLOOR}",
    f"+algorithm.corpo_step_min_correct={STEP_FLOOR}",
    f"reward.reward_manager.name={STEP_NAME}",
    "actor_rollout_ref.rollout.n=8",
)


def stored(queue, rows):
    """Rollouts as verl's agent loop stores them, of (key, tokens, score, reward_extra_info)."""
    from transfer_queue import KVBatchMeta
    from verl.utils.tensordict_utils import list_of_dict_to_tensordict

    fields = []
    for key, mask, score, info in rows:
        output = AgentLoopOutput(
            prompt_ids=[1, 1],
            response_ids=[1] * len(mask),
            response_mask=mask,
            response_logprobs=[0.0] * len(mask),
            reward_score=score,
            metrics=AgentLoopMetrics(),
            extra_fields={"reward_extra_info": info},
        )
        # what the steps before ours store
        fields.append({**output.as_dict(), "uid": key[0], "old_log_probs": torch.zeros(len(mask))})
    keys, tags = [key for key, *_ in rows], [{"is_prompt": False} for _ in rows]
    queue.kv_batch_put(keys=keys, partition_id="train", fields=list_of_dict_to_tensordict(fields), tags=tags)
    return KVBatchMeta(keys=keys, tags=tags, partition_id="train", fields=None, extra_info={})


@pytest.fixture
def trainer(composed):
    made = object.__new__(PPOTrainerSync)
    made.config = composed(*STEPS)
    return made


def test_verls_own_trainer_step_from_stored_rollouts_to_stored_advantages(transfer_queue, trainer):  # noqa: F811
    from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
    from verl.utils.tensordict_utils import list_of_dict_to_tensordict

    rows = [
        ("a_0_0", [1, 0, 1, 1], 1.0, {"acc": 1, STEP_NAME: packed(4, (0, 1, 0.0), (2, 4, 1.0))}),
        ("a_1_0", [1, 1], 0.0, {"acc": 0, STEP_NAME: packed(2, (0, 1, 1.0))}),
        ("b_0_0", [1], 0.0, {"acc": 0, STEP_NAME: NO_STEPS}),
    ]
    batch = upsample_batch_to_divisible_size(stored(transfer_queue, rows), 4, eos_token_id=1)
    assert len(batch) == 4, "filled up with a copy of the first row, of one masked token, and its steps with it"
    added = list_of_dict_to_tensordict([{"old_log_probs": torch.zeros(1)}])
    transfer_queue.kv_batch_put(keys=batch.keys[3:], partition_id="train", fields=added)
    metrics = {}
    trainer._compute_advantage(batch, metrics=metrics)

    found = transfer_queue.kv_batch_get(keys=batch.keys, partition_id="train", select_fields=["advantages"])
    # a as worked by hand above; b alone: 0 - 0.5 where no step is; and nothing
    expected = [[-0.5, 0.0, 0.5, 0.5], [0.0, -0.5], [-0.5], [0.0]]
    assert [row.tolist() for row in found["advantages"].unbind()] == expected
    assert metrics["corpo/steps/correct_share"] == pytest.approx(2 / 3)
    assert metrics["corpo/steps/per_rollout"] == 1.0, "three in three: what fills up is no rollout"
    assert metrics["corpo/steps/without"] == 1.0
    assert metrics["corpo/steps/token_share"] == pytest.approx(4 / 6)
    assert metrics["corpo/correct_share"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("c_0_0", [1], 1.0, {"acc": 1})], "corpo_steps, rollout 0: no steps came with its reward"),
        (
            [("d_0_0", [1], 1.0, {STEP_NAME: NO_STEPS}), ("d_0_1", [1], 1.0, {STEP_NAME: NO_STEPS})],
            "corpo_steps: an agent loop returned several outputs for one rollout, 2 for 1",
        ),
        ([("e_0_0", [1, 1], 1.0, {STEP_NAME: packed(1, (0, 1, 1.0))})], "for a completion of 1 tokens, its response"),
    ],
)
def test_what_the_trainer_cannot_do_is_refused(rows, message, transfer_queue, trainer):  # noqa: F811
    with pytest.raises(DataError, match=message):
        trainer._compute_advantage(stored(transfer_queue, rows), metrics={})


def test_a_function_for_sessions_that_is_not_as_tested_makes_ours_refuse(monkeypatch):
    monkeypatch.setattr(trainer_base, "compute_advantage_for_multi_trajectories", lambda batch: None)
    with pytest.raises(CorpoError, match=r"not as in 0\.9\.1, so that a session of several outputs"):
        adapter.step_advantages_for_verl(torch.ones(1, 1), torch.ones(1, 1), np.array(["a"]), settings())


# Settings


def command():
    """Overrides of the command of the page, a list of words."""
    text = PAGE.read_text(encoding="utf-8").replace("\\\n", " ")
    (line,) = re.findall(r"^    python -m verl\.trainer\.main_ppo (.*)$", text, flags=re.MULTILINE)
    return [word for word in shlex.split(line) if word != "..."]


@pytest.mark.parametrize("file", ["ppo_trainer", "ppo_megatron_trainer"])
def test_the_command_of_the_page_composes(file, composed):
    config = composed(*command(), name=file)
    found = check_step_run(config)
    assert (found.min_correct, found.step_min_correct, found.form) == (1.0, (1.0,), "both")
    assert step_warnings_about(config) == []
    assert (need_critic(config), need_reference_policy(config)) == (False, False)


def test_every_setting_of_the_page_composes_and_is_the_default(composed):
    given = re.findall(r"^\| `(\+algorithm\.corpo_\S+)` \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(given) == 6
    base = [word for word in command() if not word.startswith("+algorithm")]
    assert check_step_run(composed(*base, *given)) == check_step_run(composed(*command()))
    several = composed(*command()[:-2], "+algorithm.corpo_step_min_correct=[0.5,1]", "+algorithm.corpo_step_form=steps")
    assert check_step_run(several).threshold == (0.5, 1.0)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["~algorithm.corpo_step_min_correct"], r"algorithm\.corpo_step_min_correct: expected"),
        (["algorithm.use_kl_in_reward=True"], r"algorithm\.use_kl_in_reward: it shifts rewards"),
        (["+algorithm.corpo_step_forms=steps"], r"algorithm\.corpo_step_forms: expected one of"),
        (["actor_rollout_ref.actor.policy_loss.loss_mode=geo_mean"], "policy_loss.loss_mode: 'geo_mean' averages"),
        (
            ["+algorithm.corpo_step_unit=turns", "algorithm.rollout_correction.rollout_rs=token_k1"],
            r"algorithm\.rollout_correction\.rollout_rs: it takes tokens out",
        ),
    ],
)
def test_what_is_refused_ends_the_run_before_a_model_is_loaded(overrides, message, composed):
    with pytest.raises(UsageError, match=message):
        PPOTrainerSync(composed(*STEPS, *overrides))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["reward.reward_manager.name=naive"], r"reward\.reward_manager\.name=naive hands no steps on"),
        (["actor_rollout_ref.rollout.n=1"], r"actor_rollout_ref\.rollout\.n=1 makes groups of one"),
        (["algorithm.filter_groups.enable=True"], r"algorithm\.filter_groups drops groups of equal rewards"),
        (["algorithm.adv_estimator=corpo"], r"corpo_step_min_correct, reward\S+ does nothing under corpo; set"),
    ],
)
def test_what_weakens_it_is_warned_of(overrides, message, started, composed):  # noqa: F811
    with pytest.warns(UserWarning, match=message):
        started(*STEPS, *overrides)


def test_a_right_configuration_starts_in_silence(started):  # noqa: F811
    started(*STEPS)
