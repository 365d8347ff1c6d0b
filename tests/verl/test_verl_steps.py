"""The estimator of step rewards through verl's own `compute_advantage`, and that it is there."""

import inspect
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from verl import DataProto
from verl.experimental.reward_loop.reward_manager import get_reward_manager_cls
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.trainer.ppo.v1.utils import MetricsAggregator

from corpo_rl import corpo_advantages
from corpo_rl.core.steps import NO_STEP, spread_over_tokens, step_corpo_advantages
from corpo_rl.errors import DataError, FloorWarning, UsageError
from corpo_rl.training import verl as adapter
from corpo_rl.training.verl_step_carrier import NO_STEPS
from corpo_rl.training.verl_step_settings import STEP_NAME
from corpo_rl.training.verl_steps import StepRewardManager

from .test_registration import fresh_process
from .test_reward_and_data import tokenizer  # noqa: F401  # a fixture
from .test_trainer import started, transfer_queue  # noqa: F401  # fixtures

PAGE = Path(__file__).parents[2] / "docs" / "steps.md"
FLOOR, STEP_FLOOR = 0.5, 0.4


def settings(**more):
    given = {"adv_estimator": STEP_NAME, "corpo_min_correct": FLOOR, "corpo_step_min_correct": STEP_FLOOR}
    return OmegaConf.create({**given, **more})


def packed(n_tokens, *steps):
    return json.dumps({"n_tokens": n_tokens, "steps": steps})


def batch(scores, steps, mask_NT, uids):
    """Rollouts as verl's trainers hand them to `compute_advantage`, the reward at the last token."""
    rewards_NT = torch.zeros(len(scores), len(mask_NT[0]))
    rewards_NT[:, -1] = torch.tensor(scores, dtype=torch.float32)
    non_tensors = {"uid": np.array(uids, dtype=object)}
    if steps is not None:
        non_tensors[STEP_NAME] = np.array(steps)  # as verl's agent loop stacks what a reward returns
    return DataProto.from_dict(
        tensors={"token_level_rewards": rewards_NT, "response_mask": torch.tensor(mask_NT)}, non_tensors=non_tensors
    )


# The estimator


def ragged(seed):
    """Groups of 1 to 5 rollouts of 1 to 9 tokens and 0 to 4 steps, in random order; a few steps without a reward."""
    rng = np.random.default_rng(seed)
    uids = [f"prompt-{group}" for group in range(rng.integers(1, 5)) for _ in range(rng.integers(1, 6))]
    rng.shuffle(uids)
    n, width = len(uids), int(rng.integers(2, 10))
    mask_NT, step_NT = np.zeros((n, width), dtype=np.int64), np.full((n, width), NO_STEP)
    steps, rewards, rollouts = [], [], []
    for row in range(n):
        length = int(rng.integers(1, width + 1))
        mask_NT[row, :length] = rng.random(length) < 0.8
        edges = np.sort(rng.choice(length + 1, size=2 * int(rng.integers(0, 5)))).tolist()
        own = []
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            reward = None if rng.random() < 0.15 else float(rng.integers(0, 7)) / 6
            step_NT[row, start:end] = len(rewards)
            own.append((start, end, reward))
            rewards.append(np.nan if reward is None else reward)
            rollouts.append(row)
        steps.append(packed(length, *own))
    scores = rng.integers(0, 5, size=n) / 4
    return scores, steps, mask_NT, uids, np.array(rewards), np.array(rollouts, dtype=int), step_NT


@pytest.mark.parametrize("form", ["both", "steps", "outcome"])
@pytest.mark.parametrize("seed", range(20))
def test_equal_to_core_on_ragged_batches(form, seed):
    scores, steps, mask_NT, uids, rewards, rollouts, step_NT = ragged(seed)
    config = settings(corpo_step_form=form, corpo_outcome_weight=0.5, corpo_step_min_correct=[0.4, 0.2, 0.9, 0.5])
    out = compute_advantage(batch(scores, steps, mask_NT, uids), STEP_NAME, config=config).batch

    outcome_N = corpo_advantages(scores, uids, min_correct=FLOOR)
    if form == "outcome":
        expected = outcome_N[:, None] * mask_NT
    else:
        with_outcome = {"outcome_advantages": outcome_N, "outcome_weight": 0.5} if form == "both" else {}
        rule = {"min_correct": [0.4, 0.2, 0.9, 0.5], "unscorable": "exclude", **with_outcome}
        own = step_corpo_advantages(rewards, rollouts, uids, **rule)
        expected = spread_over_tokens(own, step_NT, outside=0.5 * outcome_N if form == "both" else 0.0) * mask_NT
    np.testing.assert_allclose(out["advantages"].numpy(), expected, atol=1e-6)
    assert out["advantages"].dtype == torch.float32
    assert torch.equal(out["advantages"], out["returns"])


def test_worked_by_hand():
    # outcomes 1 and 0, mean 0.5, the floor 0.5: +0.5 and -0.5. Step 0: rewards 0 and 1, mean 0.5, over the floor 0.4:
    # -0.5 and +0.5. Step 1 of rollout 0 alone: 1 - 1. Rollout 0: the failed step gets -0.5 + min(0.5, 0), the right one
    # 0 + 0.5. Rollout 1: 0.5 - 0.5, and its token of no step -0.5. Between them what a tool wrote, and padding.
    steps = [packed(4, (0, 1, 0.0), (2, 4, 1.0)), packed(2, (0, 1, 1.0))]
    data = batch([1.0, 0.0], steps, [[1, 0, 1, 1], [1, 1, 0, 0]], ["a", "a"])
    out = compute_advantage(data, STEP_NAME, config=settings()).batch["advantages"]
    assert out.tolist() == [[-0.5, 0.0, 0.5, 0.5], [0.0, -0.5, 0.0, 0.0]]
    figures = adapter._latest_figures
    assert figures["steps/reinforced_failure_share"] == 0.0
    assert figures["steps/reinforced_failure_share_outcome"] == 1.0
    assert figures["correct_share"] == 0.5
    assert figures["advantage_mean"] == pytest.approx((0.5 / 3 - 0.25) / 2), "of the means over each rollout's tokens"


def test_one_step_for_each_rollout_is_corpo():
    scores = [0.0, 1.0, 0.25, 0.75]
    data = batch(scores, [packed(2, (0, 2, score)) for score in scores], [[1, 1]] * 4, ["a", "a", "a", "b"])
    steps = compute_advantage(
        data, STEP_NAME, config=settings(corpo_step_form="steps", corpo_step_min_correct=FLOOR)
    ).batch["advantages"]
    plain = compute_advantage(data, "corpo", config=OmegaConf.create({"corpo_min_correct": FLOOR})).batch["advantages"]
    np.testing.assert_allclose(steps, plain, atol=1e-7)


def test_turns_by_the_gaps_of_verls_mask():
    steps = ['{"turns": [0.0, 1.0]}', '{"turns": [1.0, null]}']
    data = batch([1.0, 1.0], steps, [[1, 0, 1, 1], [1, 0, 0, 1]], ["a", "a"])
    config = settings(corpo_step_form="steps", corpo_step_unit="turns")
    out = compute_advantage(data, STEP_NAME, config=config).batch["advantages"]
    assert out.tolist() == [[-0.5, 0.0, 0.0, 0.0], [0.5, 0.0, 0.0, 0.0]], "the mean of 0 and 1; 1 alone, and nothing"


def test_an_outcome_that_nobody_could_give_leaves_the_steps():
    steps = [packed(1, (0, 1, 1.0)), packed(1, (0, 1, 0.0)), packed(1, (0, 1, 0.5))]
    data = batch([float("nan"), 1.0, 0.5], steps, [[1]] * 3, ["a"] * 3)
    out = compute_advantage(data, STEP_NAME, config=settings()).batch["advantages"]
    # outcomes: unknown, 1 - 0.75, 0.5 - 0.75. Steps: mean 0.5
    assert out[:, 0].tolist() == pytest.approx([0.5, -0.5 + min(0.25, 0), 0.0 - 0.25])


def test_rollouts_whose_steps_did_not_come_are_refused_and_never_read_as_zero():
    data = batch([1.0, 0.0], None, [[1], [1]], ["a", "a"])
    with pytest.raises(
        DataError, match=r"corpo_steps, rollout 0: no steps came with its reward; set reward\.reward_man"
    ):
        compute_advantage(data, STEP_NAME, config=settings())
    other = batch([1.0, 0.0], [NO_STEPS, NO_STEPS], [[1], [1]], ["a", "a"])
    compute_advantage(other, STEP_NAME, config=settings())
    with pytest.raises(DataError, match="no steps came"):  # those of the batch before are gone
        compute_advantage(data, STEP_NAME, config=settings())


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"corpo_step_min_correct": None}, UsageError, r"algorithm\.corpo_step_min_correct: .* found None"),
        ({"corpo_min_correct": None}, UsageError, r"algorithm\.corpo_min_correct: .* found None"),
        ({"use_kl_in_reward": True}, UsageError, r"algorithm\.use_kl_in_reward: it shifts rewards"),
        ({"corpo_step_frm": "steps"}, UsageError, r"algorithm\.corpo_step_frm: expected one of"),
        ({"corpo_step_min_correct": [0.5, 0.5]}, DataError, "a rollout has 3 steps, got thresholds for 2"),
    ],
)
def test_settings_are_checked_in_every_trainer(change, error, message):
    data = batch([1.0], [packed(3, (0, 1, 0.0), (1, 2, 0.0), (2, 3, 0.0))], [[1, 1, 1]], ["a"])
    with pytest.raises(error, match=message):
        compute_advantage(data, STEP_NAME, config=settings(**change))


def test_rewards_of_a_type_that_rounds_and_batches_without_uid_are_refused():
    data = batch([1.0], [NO_STEPS], [[1]], ["a"])
    data.batch["token_level_rewards"] = data.batch["token_level_rewards"].bfloat16()
    with pytest.raises(DataError, match="token_level_rewards: expected float32"):
        compute_advantage(data, STEP_NAME, config=settings())
    del data.non_tensor_batch["uid"]
    with pytest.raises(UsageError, match="corpo_steps: verl gave no uid"):
        compute_advantage(data, STEP_NAME, config=settings())


def test_figures_go_to_the_file_and_are_averaged_by_verl(tmp_path):
    path = tmp_path / "dynamics.jsonl"
    data = batch([1.0, 0.0], [packed(1, (0, 1, 1.0)), packed(1, (0, 1, None))], [[1], [1]], ["a", "a"])
    compute_advantage(data, STEP_NAME, config=settings(corpo_dynamics_file=str(path)))
    row = json.loads(path.read_text())
    assert (row["estimator"], row["steps/unscorable"], row["steps/correct_share"]) == (STEP_NAME, 1.0, 1.0)
    assert row["steps/reinforced_failure_share"] is None, "no step is known to have failed"
    aggregator = MetricsAggregator()
    for name in adapter._latest_figures:
        assert aggregator._get_aggregation_type(f"corpo/{name}") == "weighted_avg", name


def test_an_inert_floor_of_steps_is_told_after_twenty_batches():
    data = batch([0.0, 0.75], [packed(1, (0, 1, 0.75))] * 2, [[1], [1]], ["a", "a"])
    for _ in range(adapter.FLOOR_CHECK_STEPS - 1):
        compute_advantage(data, STEP_NAME, config=settings())
    with pytest.warns(FloorWarning, match=r"corpo_steps, steps: floor is inert: min_correct 0\.4 was at or under"):
        compute_advantage(data, STEP_NAME, config=settings())


def test_other_estimators_get_what_they_got():
    data = batch([1.0, 0.0], [NO_STEPS, NO_STEPS], [[1], [1]], ["a", "a"])
    out = compute_advantage(data, "grpo", config=settings(), norm_adv_by_std_in_grpo=False).batch["advantages"]
    assert out.tolist() == [[0.5], [-0.5]]


def test_geo_mean_is_the_one_loss_that_averages_over_a_rollout():
    averaging = [
        name
        for name, loss in core_algos.POLICY_LOSS_REGISTRY.items()
        if re.search(r"advantages \* response_mask\)\.sum\(dim=-1\)|advantages\.mean\(", inspect.getsource(loss))
    ]
    assert averaging == ["geo_mean"]


# Registration


def test_importing_verl_is_enough_and_makes_no_reward_manager():
    out, _ = fresh_process(
        """
        import sys, verl
        from verl.trainer.ppo import core_algos
        print("THERE", core_algos.get_adv_estimator_fn("corpo_steps").__module__)
        print("EARLY", "corpo_rl.training.verl_steps" in sys.modules)
        from verl.experimental.reward_loop.reward_manager import get_reward_manager_cls
        print("MANAGER", get_reward_manager_cls("corpo_steps").__module__)
        from verl.trainer.ppo.ray_trainer import compute_advantage
        print("WRAPPED", compute_advantage.hands_on_steps)
        """
    )
    expected = "THERE corpo_rl.training.verl\nEARLY False\nMANAGER corpo_rl.training.verl_steps\nWRAPPED True\n"
    assert out.endswith(expected), out


def test_registering_twice_changes_nothing():
    from verl.trainer.ppo import ray_trainer

    before = core_algos.get_adv_estimator_fn(STEP_NAME), ray_trainer.compute_advantage
    adapter.register()
    assert (core_algos.get_adv_estimator_fn(STEP_NAME), ray_trainer.compute_advantage) == before
    assert get_reward_manager_cls(STEP_NAME) is StepRewardManager


def test_a_verl_without_such_a_manager_is_told_and_works_on(monkeypatch):
    def fails(name):
        raise ImportError("no naive manager")

    monkeypatch.setattr(adapter.importlib, "import_module", fails)
    with pytest.warns(UserWarning, match=r"reward_manager\.name=corpo_steps is not there: no naive manager; install"):
        adapter.add_reward_manager(None)
