"""verl's V1 trainer: sessions of several outputs, the check at the start, and the figures among its metrics."""

import types
import warnings

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from verl import DataProto
from verl.trainer.ppo.v1 import trainer_base, utils
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from corpo_rl.errors import CorpoError, UsageError
from corpo_rl.training import verl as adapter

CORPO = ("algorithm.adv_estimator=corpo", "+algorithm.corpo_min_correct=0.5", "actor_rollout_ref.rollout.n=2")


def sessions(name, rows, *, min_correct=0.5, **settings):
    """Advantage at the first token for rows of (key, score), through the function that verl's trainer calls."""
    rewards_NT = torch.tensor([[0.0, score] for _, score in rows])
    data = DataProto.from_dict(
        tensors={"token_level_rewards": rewards_NT, "response_mask": torch.ones(len(rows), 2)},
        non_tensors={"uid": np.array([key.rsplit("_", 2)[0] for key, _ in rows], dtype=object)},
    )
    config = OmegaConf.create({"adv_estimator": name, "corpo_min_correct": min_correct})
    out = trainer_base.compute_advantage_for_multi_trajectories(
        data, batch_keys=[key for key, _ in rows], adv_estimator=name, config=config, **settings
    )
    assert torch.equal(out.batch["advantages"], out.batch["returns"])
    return out.batch["advantages"][:, 0].tolist()


def test_a_session_of_two_outputs_counts_once():
    # session 0 wrote two outputs and got 4, session 1 one output and 0: the mean is 2, and not (4 + 4 + 0) / 3
    rows = [("a_0_0", 4.0), ("a_0_1", 4.0), ("a_1_0", 0.0)]
    assert sessions("corpo", rows) == [2.0, 2.0, -2.0]
    assert sessions("dr_grpo", rows) == [2.0, 2.0, -2.0]
    assert sessions("loo_corpo", rows) == [3.5, 3.5, -4.0]  # 4 - max(0.5, 0), 0 - max(0.5, 4)
    assert sessions("corpo_static", rows) == [3.5, 3.5, -0.5]


def test_sessions_equal_verls_own_for_grpo_in_any_order():
    rng = np.random.default_rng(0)
    for _ in range(20):
        rows = [
            (f"p_{uid}_{session}_{output}", score)
            for uid in range(3)
            for session in range(rng.integers(1, 5))
            for score in [float(rng.integers(0, 5))]
            for output in range(rng.integers(1, 4))
        ]
        rng.shuffle(rows)
        rows = [(str(key), float(score)) for key, score in rows]
        expected = sessions("grpo", rows, norm_adv_by_std_in_grpo=False)
        sizes = {uid: len({key.rsplit("_", 1)[0] for key, _ in rows if key.startswith(f"p_{uid}_")}) for uid in "012"}
        shown = [row for row, (key, _) in enumerate(rows) if sizes[key.split("_")[1]] > 1]  # verl: alone -> own reward
        actual = sessions("dr_grpo", rows)
        np.testing.assert_allclose(np.array(actual)[shown], np.array(expected)[shown], atol=1e-6)


def test_the_reward_of_a_session_is_its_last_outputs_whatever_the_rows_order():
    rows = [("a_0_10", 1.0), ("a_0_9", 9.0), ("a_1_0", 0.0)]
    assert sessions("corpo", rows) == [0.5, 0.5, -0.5]


def test_a_masked_last_output_does_not_take_the_advantage_from_the_others():
    data = DataProto.from_dict(
        tensors={
            "token_level_rewards": torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]),
            "response_mask": torch.tensor([[1, 1], [0, 0], [1, 1]]),
        },
        non_tensors={"uid": np.array(["a"] * 3, dtype=object)},
    )
    config = OmegaConf.create({"corpo_min_correct": 0.5})
    out = trainer_base.compute_advantage_for_multi_trajectories(
        data, batch_keys=["a_0_0", "a_0_1", "a_1_0"], adv_estimator="corpo", config=config
    )
    assert out.batch["advantages"].tolist() == [[0.5, 0.5], [0.0, 0.0], [-0.5, -0.5]]
    assert adapter._latest_figures["correct_share"] == 0.5, "a session counts when any of its outputs has a token"


def test_keys_of_an_unknown_form_are_refused():
    with pytest.raises(CorpoError, match="row key 'a-0-0' is not of the form uid_session_output"):
        sessions("corpo", [("a-0-0", 1.0)])


def test_settings_are_refused_on_this_way_too():
    with pytest.raises(UsageError, match="corpo_min_correct"):
        sessions("corpo", [("a_0_0", 1.0)], min_correct=None)


def test_both_names_of_verls_function_are_wrapped():
    assert trainer_base.compute_advantage_for_multi_trajectories.counts_sessions_once
    assert utils.compute_advantage_for_multi_trajectories.counts_sessions_once


@pytest.mark.parametrize("changed", [lambda batch, estimator: None, None])
def test_a_function_of_another_signature_makes_our_estimators_refuse(changed, monkeypatch):
    module = types.SimpleNamespace(compute_advantage_for_multi_trajectories=changed)
    adapter.count_sessions_once(module)
    assert module.compute_advantage_for_multi_trajectories is changed, "what is not known is left alone"

    monkeypatch.setattr(trainer_base, "compute_advantage_for_multi_trajectories", changed)
    with pytest.raises(CorpoError, match=r"not as in 0\.9\.1, so that a session .* install verl==0\.9\.1 or set train"):
        adapter.advantages_for_verl("corpo", torch.ones(1, 1), torch.ones(1, 1), np.array(["a"]), None)


def test_a_trainer_of_another_signature_is_left_alone():
    class PPOTrainer:
        def __init__(self, config, extra): ...

        def _compute_advantage(self, batch, metrics): ...

    before = PPOTrainer.__init__
    adapter.prepare_trainer(types.SimpleNamespace(PPOTrainer=PPOTrainer))
    assert PPOTrainer.__init__ is before


def test_figures_are_of_this_batch_and_what_is_not_defined_is_not_logged():
    class PPOTrainer:
        def __init__(self, config): ...

        def _compute_advantage(self, batch, metrics):
            for name, score in batch:
                sessions(name, [("a_0_0", score), ("a_1_0", score)])
            return "the batch"

    adapter.prepare_trainer(types.SimpleNamespace(PPOTrainer=PPOTrainer))
    ours, other = {"mine": 1}, {}
    assert object.__new__(PPOTrainer)._compute_advantage([("corpo", 1.0)], metrics=ours) == "the batch"
    assert ours["mine"] == ours["corpo/correct_share"] == 1
    assert "corpo/reinforced_failure_share" not in ours, "nothing failed"
    object.__new__(PPOTrainer)._compute_advantage([("grpo", 1.0)], metrics=other)
    assert other == {}, "verl's own estimator has none, and those of the batch before are not its"


@pytest.fixture
def started(monkeypatch, composed):
    """Starts verl's trainer as far as its own first statement, which would need a cluster."""

    class Started(Exception):
        pass

    def reached(config):
        raise Started

    monkeypatch.setattr(trainer_base, "build_checkpoint_callback", reached)

    def start(*overrides):
        with pytest.raises(Started):
            PPOTrainerSync(composed(*overrides))

    return start


def test_a_right_configuration_starts_in_silence(started):
    started(*CORPO)


def test_a_threshold_that_was_forgotten_ends_the_run_before_a_model_is_loaded(composed):
    with pytest.raises(UsageError, match=r"add \+algorithm\.corpo_min_correct=0\.2"):
        PPOTrainerSync(composed("algorithm.adv_estimator=corpo"))


def test_kl_in_the_reward_ends_the_run_before_a_model_is_loaded(composed):
    with pytest.raises(UsageError, match=r"algorithm\.use_kl_in_reward"):
        PPOTrainerSync(composed(*CORPO, "algorithm.use_kl_in_reward=True"))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("algorithm.filter_groups.enable=True", r"algorithm\.filter_groups drops groups of equal rewards"),
        ("actor_rollout_ref.rollout.n=1", r"actor_rollout_ref\.rollout\.n=1 makes groups of one"),
        ("custom_reward_function.path=/x.py", r"custom_reward_function\.path=/x\.py is ignored by verl's main_ppo"),
    ],
)
def test_what_weakens_the_estimator_is_warned_of_once(override, message, started):
    with pytest.warns(UserWarning, match=message):
        started(*CORPO, override)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        started(*CORPO, override)


def test_other_estimators_start_as_before(started):
    started("algorithm.adv_estimator=grpo", "algorithm.filter_groups.enable=True", "algorithm.use_kl_in_reward=True")


@pytest.fixture(scope="module")
def transfer_queue(local_ray, composed):
    """verl's store of rollouts, in Ray actors as in a real run."""
    import transfer_queue

    config = composed("transfer_queue.enable=True", "transfer_queue.backend.SimpleStorage.num_data_storage_units=1")
    transfer_queue.init(config.transfer_queue)
    try:
        yield transfer_queue
    finally:
        transfer_queue.close()


def test_verls_own_trainer_step_from_stored_rollouts_to_stored_advantages(transfer_queue, composed):
    from transfer_queue import KVBatchMeta
    from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
    from verl.utils.tensordict_utils import list_of_dict_to_tensordict

    # b's rollouts both fail; the batch of 5 rows is filled up to 8, as verl does for 8 processes
    keys, scores = ["a_0_0", "a_0_1", "a_1_0", "b_0_0", "b_1_0"], [4.0, 4.0, 0.0, 0.0, 0.25]
    fields = [
        {
            "uid": key[0],
            "prompts": torch.ones(4, dtype=torch.int64),
            "responses": torch.ones(length, dtype=torch.int64),
            "response_mask": torch.ones(length, dtype=torch.int64),
            "rm_scores": torch.tensor([0.0] * (length - 1) + [score]),
            "rollout_log_probs": torch.zeros(length),
            "old_log_probs": torch.zeros(length),
        }
        for length, (key, score) in enumerate(zip(keys, scores, strict=True), start=2)
    ]
    tags = [{"is_prompt": False} for _ in keys]
    transfer_queue.kv_batch_put(keys=keys, partition_id="train", fields=list_of_dict_to_tensordict(fields), tags=tags)
    batch = KVBatchMeta(keys=keys, tags=tags, partition_id="train", fields=None, extra_info={})
    batch = upsample_batch_to_divisible_size(batch, 8, eos_token_id=1)
    # what the step before ours stores for every row, these three too
    added = list_of_dict_to_tensordict([{"old_log_probs": torch.zeros(1)} for _ in range(3)])
    transfer_queue.kv_batch_put(keys=batch.keys[5:], partition_id="train", fields=added)

    trainer = object.__new__(PPOTrainerSync)
    trainer.config = composed(*CORPO)
    metrics = {}
    trainer._compute_advantage(batch, metrics=metrics)

    stored = transfer_queue.kv_batch_get(keys=batch.keys, partition_id="train", select_fields=["advantages"])
    advantages = [row.tolist() for row in stored["advantages"].unbind()]
    expected = [2.0, 2.0, -2.0, -0.5, -0.25]
    assert advantages[:5] == [[value] * length for length, value in enumerate(expected, start=2)]
    assert advantages[5:] == [[0.0]] * 3
    ours = {name: value for name, value in metrics.items() if name.startswith("corpo/")}
    assert ours["corpo/groups/mixed"] == ours["corpo/groups/all_failed_graded"] == 0.5, "filling rows are no group"
    assert ours["corpo/correct_share"] == 0.25, "one session of four"
    assert ours["corpo/floored_group_share"] == 0.5
    assert ours["corpo/reinforced_failure_share"] == 0.0
    assert ours["corpo/reinforced_failure_share_grpo"] == pytest.approx(1 / 3)
    assert ours["corpo/advantage_mean"] == pytest.approx((2.0 - 2.0 - 0.5 - 0.25) / 4)
    assert all(np.isfinite(value) for value in ours.values())
