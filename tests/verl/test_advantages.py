"""Our estimators through verl's own `compute_advantage`, against plain loops and `corpo_rl.core`."""

import doctest
import inspect
import json

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from verl import DataProto
from verl.trainer.config import AlgoConfig
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.trainer.ppo.v1.utils import MetricsAggregator
from verl.workers.utils.losses import ppo_loss

from corpo_rl import estimate_advantages
from corpo_rl.errors import DataError, FloorWarning, UsageError
from corpo_rl.training import verl as adapter
from corpo_rl.training.verl_settings import VERL_NAMES

FLOOR = 0.5


def settings(**more):
    return OmegaConf.create({"adv_estimator": "corpo", "corpo_min_correct": FLOOR, **more})


def batch(rewards_NT, mask_NT, uids, **tensors):
    return DataProto.from_dict(
        tensors={"token_level_rewards": rewards_NT, "response_mask": mask_NT, **tensors},
        non_tensors={"uid": np.array(uids, dtype=object)},
    )


def of_scores(*scores, uids=None):
    """One rollout for each score, which stands at its last of two tokens."""
    rewards_NT = torch.tensor([[0.0, score] for score in scores])
    return batch(rewards_NT, torch.ones_like(rewards_NT), uids or ["a"] * len(scores))


def ragged(seed, *, dense):
    """Groups of 1 to 7 rollouts in random order, of 1 to 9 tokens; a reward in tenths at the end or over all tokens."""
    rng = np.random.default_rng(seed)
    uids = [f"prompt-{group}" for group in range(rng.integers(1, 9)) for _ in range(rng.integers(1, 8))]
    rng.shuffle(uids)
    n, width = len(uids), int(rng.integers(1, 10))
    rewards_NT, mask_NT = np.zeros((n, width)), np.zeros((n, width))
    for row in range(n):
        length = int(rng.integers(1, width + 1))
        mask_NT[row, :length] = 1
        mask_NT[row, : rng.integers(0, length)] = 0  # tool output in the middle of a response is masked too
        if dense:
            rewards_NT[row, :length] = rng.integers(-10, 11, size=length) / 10
        else:
            rewards_NT[row, length - 1] = rng.integers(-10, 11) / 10
    return rewards_NT, mask_NT, uids


def by_plain_loop(name, scores, uids):
    """Each estimator's formula, written out for one rollout after the other."""
    expected = []
    for row, score in enumerate(scores):
        group = [other for other, uid in zip(scores, uids, strict=True) if uid == uids[row]]
        others = [s for i, (s, uid) in enumerate(zip(scores, uids, strict=True)) if uid == uids[row] and i != row]
        mean = sum(group) / len(group)
        baseline = {
            "corpo": max(FLOOR, mean),
            "loo_corpo": max(FLOOR, sum(others) / len(others)) if others else FLOOR,
            "corpo_static": FLOOR,
            "dr_grpo": mean,
        }[name]
        expected.append(score - baseline)
    return np.array(expected)


@pytest.mark.parametrize("name", VERL_NAMES)
@pytest.mark.parametrize("seed", range(25))
def test_equal_to_core_and_to_a_plain_loop_on_ragged_batches(name, seed):
    rewards_NT, mask_NT, uids = ragged(seed, dense=seed % 2 == 1)
    scores = rewards_NT.sum(axis=1)
    data = batch(torch.tensor(rewards_NT, dtype=torch.float32), torch.tensor(mask_NT), uids)

    out = compute_advantage(data, name, config=settings()).batch

    looped = by_plain_loop(name, scores.tolist(), uids)[:, None] * mask_NT
    np.testing.assert_allclose(out["advantages"].numpy(), looped, atol=1e-5)
    core = estimate_advantages(VERL_NAMES[name], np.round(scores, 1), uids, min_correct=FLOOR)[:, None] * mask_NT
    np.testing.assert_allclose(out["advantages"].numpy(), core, atol=1e-6)
    assert out["advantages"].dtype == torch.float32
    assert torch.equal(out["advantages"], out["returns"])


def test_worked_by_hand():
    # a: mean (0 + 0.25) / 2 = 0.125, under the floor -> baseline 0.5; b: alone, over the floor -> its own reward
    out = compute_advantage(of_scores(0.0, 1.0, 0.25, uids=["a", "b", "a"]), "corpo", config=settings())
    np.testing.assert_allclose(out.batch["advantages"][:, 0], [-0.5, 0.0, -0.25], atol=1e-7)


def test_a_failure_is_never_reinforced_where_verls_grpo_does():
    data = of_scores(-1.0, 0.0, -1.0)
    grpo = compute_advantage(data, "grpo", config=settings()).batch["advantages"][:, 0]
    assert grpo[1] > 0, "the batch must hold a case the plain baseline gets wrong"
    assert (compute_advantage(data, "corpo", config=settings()).batch["advantages"] < 0).all()


def test_an_unscorable_rollout_is_left_out_where_verls_grpo_spreads_it():
    data = of_scores(float("nan"), 1.0, 0.0, 1.0, uids=["a", "a", "a", "b"])
    assert torch.isnan(compute_advantage(data, "grpo", config=settings()).batch["advantages"][:3]).all()
    out = compute_advantage(data, "corpo", config=settings()).batch["advantages"]
    np.testing.assert_allclose(out[:, 0], [0.0, 0.5, -0.5, 0.0], atol=1e-7)  # mean of 1 and 0 is the floor


def test_only_unscorable_rollouts_get_nothing():
    out = compute_advantage(of_scores(float("nan"), float("nan")), "corpo", config=settings())
    assert torch.equal(out.batch["advantages"], torch.zeros(2, 2))


def test_a_fully_masked_rollout_counts_in_its_group_and_trains_nothing():
    rewards_NT = torch.tensor([[0.0, 2.0], [0.0, 1.0], [0.0, 0.0]])
    data = batch(rewards_NT, torch.tensor([[1, 1], [1, 0], [0, 0]]), ["a"] * 3)  # mean 1, over the floor
    out = compute_advantage(data, "corpo", config=settings()).batch["advantages"]
    assert torch.equal(out, torch.tensor([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]))


@pytest.mark.parametrize("mask_type", [torch.bool, torch.int64, torch.float32, torch.float64])
def test_masks_of_every_type_leave_the_type_of_the_rewards(mask_type):
    data = batch(torch.tensor([[1.0, 0.0], [0.0, 0.0]]), torch.tensor([[1, 1], [1, 0]]).to(mask_type), ["a", "a"])
    out = compute_advantage(data, "corpo", config=settings()).batch["advantages"]
    assert out.dtype == torch.float32
    assert torch.equal(out, torch.tensor([[0.5, 0.5], [-0.5, 0.0]]))


def test_the_mask_is_made_where_a_trainer_did_not():
    data = batch(torch.tensor([[0.0, 1.0], [0.0, 0.0]]), torch.ones(2, 2), ["a", "a"])
    data.batch.pop("response_mask")
    data.batch["responses"] = torch.ones(2, 2, dtype=torch.int64)
    data.batch["attention_mask"] = torch.tensor([[1, 1, 1], [1, 1, 0]])
    out = compute_advantage(data, "corpo", config=settings()).batch["advantages"]
    assert torch.equal(out, torch.tensor([[0.5, 0.5], [-0.5, 0.0]]))


def test_integer_prompts_and_rewards_that_carry_a_gradient():
    rewards_NT = torch.tensor([[1.0], [0.0], [0.0]], requires_grad=True)
    out, returns = core_algos.get_adv_estimator_fn("corpo")(
        token_level_rewards=rewards_NT,
        response_mask=torch.ones(3, 1),
        index=np.array([7, 7, 12], dtype=object),
        config=settings(),
    )
    assert torch.equal(out, torch.tensor([[0.5], [-0.5], [-0.5]]))
    assert not returns.requires_grad


def test_an_empty_batch_stays_empty():
    out, _ = core_algos.get_adv_estimator_fn("corpo")(
        token_level_rewards=torch.zeros(0, 3),
        response_mask=torch.zeros(0, 3),
        index=np.array([], dtype=object),
        config=settings(),
    )
    assert out.shape == (0, 3)


def test_thirds_and_tenths_do_not_get_a_sign_from_rounding():
    thirds = compute_advantage(of_scores(*[1 / 3] * 3), "dr_grpo", config=settings()).batch["advantages"]
    assert torch.equal(thirds, torch.zeros(3, 2))
    # 0.7 is 0.699999988 in float32, and reaches a floor of 0.7 all the same
    tenths = compute_advantage(of_scores(0.7, 0.7), "corpo", config=settings(corpo_min_correct=0.7))
    assert torch.equal(tenths.batch["advantages"], torch.zeros(2, 2))


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.int64])
def test_rewards_of_a_type_that_rounds_are_refused(kind):
    data = batch(torch.ones(2, 1).to(kind), torch.ones(2, 1), ["a", "a"])
    with pytest.raises(DataError, match=f"token_level_rewards: expected float32, as verl makes them, found {kind}"):
        compute_advantage(data, "corpo", config=settings())


def test_an_infinite_reward_is_refused():
    with pytest.raises(DataError, match="rewards: 1 of 2 values are not finite or NaN, the first: row 1 is inf"):
        compute_advantage(of_scores(0.0, float("inf")), "corpo", config=settings())


def test_a_batch_without_uid_is_refused():
    data = of_scores(0.0, 1.0)
    del data.non_tensor_batch["uid"]
    with pytest.raises(UsageError, match="corpo: verl gave no uid, so that groups cannot be told"):
        compute_advantage(data, "corpo", config=settings())


@pytest.mark.parametrize("config", [None, OmegaConf.create({"adv_estimator": "corpo"}), AlgoConfig()])
def test_a_missing_threshold_is_refused_in_every_form_of_settings(config):
    with pytest.raises(UsageError, match=r"algorithm\.corpo_min_correct: .* found None; add \+algorithm"):
        compute_advantage(of_scores(0.0, 1.0), "corpo", config=config)


def test_kl_in_the_reward_is_refused():
    with pytest.raises(UsageError, match=r"algorithm\.use_kl_in_reward: it shifts rewards"):
        compute_advantage(of_scores(0.0, 1.0), "corpo", config=settings(use_kl_in_reward=True))


def test_settings_of_other_estimators_change_nothing():
    plain = compute_advantage(of_scores(0.0, 1.0), "corpo", config=settings()).batch["advantages"]
    for more in ({"norm_adv_by_std_in_grpo": True}, {"gamma": 0.5, "lam": 0.5, "num_repeat": 4}):
        other = compute_advantage(of_scores(0.0, 1.0), "corpo", config=settings(), **more).batch["advantages"]
        assert torch.equal(plain, other)


def test_no_loss_of_verls_whitens_or_centres_the_advantages_it_gets():
    losses = {**core_algos.POLICY_LOSS_REGISTRY, "the worker's": ppo_loss}
    assert {"vanilla", "gspo", "gpg", "clip_cov"} <= set(losses)
    for name, loss in losses.items():
        source = inspect.getsource(loss)
        assert "whiten" not in source, name
        assert "advantages = " not in source.replace('advantages = data["advantages"]', ""), name


def test_dynamics_go_to_the_file_that_is_named(tmp_path):
    path = tmp_path / "new" / "dynamics.jsonl"
    config = settings(corpo_dynamics_file=str(path))
    data = of_scores(0.0, 0.25, 1.0, float("nan"), uids=["a", "a", "b", "b"])
    compute_advantage(data, "dr_grpo", config=config)
    compute_advantage(data, "corpo", config=config)
    plain, ours = map(json.loads, path.read_text().splitlines())
    assert (plain["estimator"], ours["estimator"], ours["min_correct"], ours["n"]) == ("dr_grpo", "corpo", FLOOR, 4)
    # of the two failures, 0.25 is over its group's mean
    assert (plain["reinforced_failure_share"], ours["reinforced_failure_share"]) == (0.5, 0.0)
    assert (ours["correct_share"], ours["unscorable"]) == (pytest.approx(1 / 3), 1)
    assert ours["r_count"] == 0.0, "two below zero in a; the one of b that was scored is alone"


def test_a_share_that_is_not_defined_is_null(tmp_path):
    path = tmp_path / "dynamics.jsonl"
    compute_advantage(of_scores(1.0, 2.0), "corpo", config=settings(corpo_dynamics_file=str(path)))
    assert json.loads(path.read_text())["reinforced_failure_share"] is None, "nothing failed"


def test_a_full_disk_does_not_end_a_run(tmp_path):
    (tmp_path / "file").write_text("")
    config = settings(corpo_dynamics_file=str(tmp_path / "file" / "dynamics.jsonl"))
    with pytest.warns(UserWarning, match=r"algorithm\.corpo_dynamics_file: .* could not be written"):
        compute_advantage(of_scores(0.0, 1.0), "corpo", config=config)
    compute_advantage(of_scores(0.0, 1.0), "corpo", config=config)  # told once: a second warning would fail


def test_rows_without_a_token_are_in_no_figure():
    rewards_NT = torch.tensor([[0.0, 0.0], [0.25, 0.0], [0.0, 0.0], [0.0, 0.0]])
    mask_NT = torch.tensor([[1, 1], [1, 0], [0, 0], [0, 0]])  # two of a, and two to fill the batch up
    compute_advantage(batch(rewards_NT, mask_NT, ["a", "a", "pad", "pad"]), "corpo", config=settings())
    assert adapter._latest_figures["groups/all_failed_graded"] == 1.0
    assert adapter._latest_figures["advantage_mean"] == pytest.approx((-0.5 - 0.25) / 2)
    adapter._latest_figures.clear()
    compute_advantage(batch(torch.zeros(2, 2), torch.zeros(2, 2), ["a", "a"]), "corpo", config=settings())
    assert adapter._latest_figures == {}, "nothing to tell of a batch without a token"


def test_an_inert_floor_is_told_after_twenty_batches():
    data = of_scores(1.0, 2.0)
    for _ in range(adapter.FLOOR_CHECK_STEPS - 1):
        compute_advantage(data, "corpo", config=settings())
    with pytest.warns(FloorWarning, match=r"corpo: floor is inert: min_correct 0\.5 was at or under every group's"):
        compute_advantage(data, "corpo", config=settings())


def test_verl_averages_our_figures_over_the_iterations_of_a_step():
    compute_advantage(of_scores(0.0, 1.0), "corpo", config=settings())
    aggregator = MetricsAggregator()
    for name in adapter._latest_figures:  # it goes by parts of a name, such as "min" or "sum"
        assert aggregator._get_aggregation_type(f"corpo/{name}") == "weighted_avg", name


def test_examples_in_the_docstrings():
    assert doctest.testmod(adapter).attempted > 0
    assert doctest.testmod(adapter).failed == 0
