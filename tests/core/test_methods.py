"""Names of compositions: what each guarantees, what it equals, what is refused."""

import numpy as np
import pytest

from corpo_rl.core.advantages import ESTIMATORS, estimate_advantages
from corpo_rl.core.groups import index_groups
from corpo_rl.core.methods import BASES, method_advantages, parse_method
from corpo_rl.errors import CorpoError, EstimatorError, UsageError

from .test_kin import MIN_CORRECT, ragged

BARE = [name if name != "ngrpo" else "ngrpo=1" for name in BASES]
FLOORED = ["dr_grpo+floor", "rloo+floor", "qae=0.3+floor", "opo+floor", "ema+floor"]
GATED = [f"{name}+gate" for name in BARE]
SCALES = ["batch_std", "fixed=0.5", "phase"]
SCALED = [
    f"{name}+{scale}"
    for name in ("corpo", "loo_corpo", "static", "qae+floor", "nsr", "rloo+gate", "w_reinforce", "opo+gate")
    for scale in SCALES
]


def advantages(name, seed=0, **changes):
    rewards, groups, lengths = ragged(seed)
    history = np.where(np.random.default_rng(seed).random(len(rewards)) < 0.5, np.nan, -0.7)
    settings = {"min_correct": MIN_CORRECT, "lengths": lengths, "history": history, "unscorable": "exclude", **changes}
    return rewards, groups, method_advantages(name, rewards, groups, **settings)


@pytest.mark.parametrize("name", [*BARE, *FLOORED, *GATED, *SCALED])
def test_a_method_keeps_the_promise_it_makes(name):
    rewards, _, actual = advantages(name)
    failed = rewards < MIN_CORRECT
    assert np.isfinite(actual).all()
    assert (actual[np.isnan(rewards)] == 0).all()
    if parse_method(name).never_reinforces_failure:
        assert not (actual[failed] > 0).any()
    else:
        assert (actual[failed] > 1e-9).any(), f"{name} promises nothing, and the batch must show why"
    if parse_method(name).floored:
        assert (actual[failed] < 0).all()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_named_estimators_are_themselves(name):
    rewards, groups, actual = advantages(name)
    expected = estimate_advantages(name, rewards, groups, min_correct=MIN_CORRECT, unscorable="exclude")
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(("spelled", "same"), [("dr_grpo+floor", "corpo"), ("rloo+floor", "loo_corpo")])
def test_a_floor_under_the_mean_is_corpo(spelled, same):
    np.testing.assert_array_equal(advantages(spelled)[2], advantages(same)[2])


@pytest.mark.parametrize("name", FLOORED)
def test_a_floor_under_every_baseline_changes_nothing(name):
    rewards, groups, with_floor = advantages(name, min_correct=-5.0)
    peers = index_groups(groups, n=len(groups))
    alone = peers.count(rewards)[peers.index_N] < 2  # there the floor stands in for the missing baseline
    np.testing.assert_allclose(with_floor[~alone], advantages(name.removesuffix("+floor"))[2][~alone], atol=1e-12)


def test_a_floored_baseline_is_the_larger_of_the_two():
    for name in ("qae", "opo", "ema"):
        rewards, _, plain = advantages(name)
        _, _, floored = advantages(f"{name}+floor")
        known = ~np.isnan(rewards)
        alone = known & (plain == 0) & (floored != 0)  # without peers or history there was no baseline at all
        baseline = (rewards - plain)[known & ~alone]
        np.testing.assert_allclose((rewards - floored)[known & ~alone], np.maximum(baseline, MIN_CORRECT), atol=1e-12)


def test_scales_are_one_number_above_zero():
    rewards, groups, plain = advantages("corpo")
    known = rewards[~np.isnan(rewards)]
    np.testing.assert_allclose(advantages("corpo+fixed=0.5")[2], plain / 0.5)
    np.testing.assert_allclose(advantages("corpo+batch_std")[2], plain / (known.std(ddof=1) + 1e-4))

    of_group = index_groups(groups, n=len(groups))
    binds = (of_group.mean(rewards) < MIN_CORRECT - 1e-9)[of_group.index_N]
    actual = advantages("corpo+phase")[2]
    for phase in (binds, ~binds):
        scored = phase & ~np.isnan(rewards)
        assert scored.sum() > 10
        np.testing.assert_allclose(np.sqrt(np.mean(actual[scored] ** 2)), 1.0)
        np.testing.assert_allclose(actual[scored], plain[scored] / np.sqrt(np.mean(plain[scored] ** 2)))


def test_a_phase_without_advantages_is_left_alone():
    # b: all at the mean, over the floor
    actual = method_advantages("corpo+phase", [-1.0, -1.0, 1.0, 1.0], ["a", "a", "b", "b"], min_correct=0.2)
    np.testing.assert_allclose(actual, [-1.0, -1.0, 0.0, 0.0])


def test_the_gate_worked_by_hand():
    # mean -.5: -1 -> -.5, -.4 -> .1, capped at 0, and -.1 -> .4 capped; with min_correct -.2 the last is correct
    rewards, groups = [-1.0, -0.4, -0.1], [0, 0, 0]
    np.testing.assert_allclose(method_advantages("dr_grpo+gate", rewards, groups, min_correct=0.2), [-0.5, 0.0, 0.0])
    np.testing.assert_allclose(method_advantages("dr_grpo+gate", rewards, groups, min_correct=-0.2), [-0.5, 0.0, 0.4])


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("qea", UsageError, r"estimator: expected one of grpo, .*, psr, got 'qea'"),
        ("qae=x", UsageError, r"qae=x: expected a finite number after 'qae=', got 'x'"),
        ("qae=2", UsageError, r"the quantile is a share from 0 to 1, got 2"),
        ("corpo=1", UsageError, r"corpo takes no number; leave '=1' out"),
        ("ngrpo", UsageError, r"ngrpo needs its max_reward, as in 'ngrpo=1'"),
        ("w_reinforce=-1", UsageError, r"the weight of correct rollouts is at least 0, got -1"),
        ("corpo+fixed", UsageError, r"got '\+fixed'"),
        ("corpo+fixed=0", UsageError, r"the fixed scale needs a number above 0, got 0"),
        ("corpo+batch_std+phase", UsageError, r"each at most once, got '\+phase'"),
        ("rloo+gate+gate", UsageError, r"each at most once, got '\+gate'"),
        ("corpo+", UsageError, r"got '\+'"),
        ("grpo+floor", EstimatorError, r"a floor cannot come before the group std .* use 'grpo\+gate'"),
        ("corpo+floor", EstimatorError, r"corpo has its floor already"),
        ("psr+floor", EstimatorError, r"psr has no baseline to put a floor under"),
        ("odrpo+batch_std", EstimatorError, r"odrpo divides by the group std already"),
    ],
)
def test_a_name_that_cannot_be_read_says_why(name, error, message):
    with pytest.raises(error, match=message):
        parse_method(name)


@pytest.mark.parametrize("name", ["corpo", "rloo+gate", "dr_grpo+phase", "nsr", "qae+floor"])
def test_a_method_that_needs_the_threshold_says_so(name):
    with pytest.raises(UsageError, match=r"min_correct: .* needs the least reward that counts as correct, got none"):
        method_advantages(name, [0.0, 1.0], [0, 0])


def test_lengths_are_asked_for():
    with pytest.raises(CorpoError, match="lengths: the length-weighted baseline needs the tokens"):
        method_advantages("opo", [0.0, 1.0], [0, 0])
