import numpy as np
import pytest

from corpo_rl import compose_advantages, estimate_advantages
from corpo_rl.errors import DataError, EstimatorError, UsageError

PRESETS = {
    "grpo": {"baseline": "mean", "scale": "group_std"},
    "dr_grpo": {"baseline": "mean"},
    "rloo": {"baseline": "leave_one_out"},
    "static": {"baseline": "static", "min_correct": 0.2},
    "corpo": {"baseline": "mean", "min_correct": 0.2},
    "loo_corpo": {"baseline": "leave_one_out", "min_correct": 0.2},
}


@pytest.mark.parametrize("name", PRESETS)
def test_every_named_estimator_is_a_composition(name):
    rng = np.random.default_rng(0)
    rewards, groups = rng.choice([-1.0, -0.2, 0.2, 0.6, np.nan], size=300), rng.integers(0, 80, size=300)
    actual = compose_advantages(rewards, groups, unscorable="exclude", **PRESETS[name])
    expected = estimate_advantages(name, rewards, groups, min_correct=0.2, unscorable="exclude")
    np.testing.assert_allclose(actual, expected, atol=1e-12)


def test_batch_std_worked_by_hand():
    # baselines: a max(0.5, 0) = 0.5; b max(0.5, 2) = 2
    # rewards -1, 1, 2: mean 2/3, squares 25/9 + 1/9 + 16/9 = 42/9, std sqrt(42 / 9 / 2) = 1.527525
    actual = compose_advantages([-1.0, 1.0, 2.0], ["a", "a", "b"], baseline="mean", min_correct=0.5, scale="batch_std")
    np.testing.assert_allclose(actual, np.array([-1.5, 0.5, 0.0]) / (1.527525 + 1e-4), atol=1e-6)


def test_batch_of_equal_rewards_is_not_scaled():
    settings = {"baseline": "mean", "scale": "batch_std"}
    np.testing.assert_array_equal(compose_advantages([-1.0] * 3, [0, 0, 1], min_correct=0.5, **settings), -1.5)
    np.testing.assert_array_equal(compose_advantages([0.1] * 6, [0] * 6, **settings), 0.0)
    np.testing.assert_array_equal(compose_advantages([None], [0], unscorable="exclude", **settings), 0.0)


@pytest.mark.parametrize("scale", ["none", "group_std", "batch_std"])
@pytest.mark.parametrize("baseline", ["mean", "leave_one_out"])
def test_without_a_floor_recentring_changes_nothing(baseline, scale):
    rng = np.random.default_rng(1)
    rewards, groups = rng.choice([-1.0, -0.2, 0.2, 0.6, np.nan], size=300), rng.integers(0, 80, size=300)
    settings = {"baseline": baseline, "scale": scale, "unscorable": "exclude"}
    actual = compose_advantages(rewards, groups, recentre=True, **settings)
    assert np.abs(actual).max() > 0.5
    assert abs(actual.sum()) < 1e-9
    np.testing.assert_allclose(actual, compose_advantages(rewards, groups, **settings), atol=1e-12)


@pytest.mark.parametrize("baseline", ["mean", "leave_one_out", "static"])
@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            {"scale": "group_std"},
            "scale: group_std cannot follow a floor .* the std is 0, and an advantage of -1 becomes",
        ),
        (
            {"recentre": True},
            "recentre: subtracting a mean after a floor .* voids it: .* two failed rollouts pushed up",
        ),
        ({"recentre": True, "scale": "batch_std"}, "recentre: subtracting a mean"),
    ],
)
def test_what_voids_a_floor_is_refused(baseline, settings, reason):
    with pytest.raises(EstimatorError, match=reason) as caught:
        compose_advantages([0.0, 1.0], [0, 0], baseline=baseline, min_correct=0.5, **settings)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"baseline": "median"}, UsageError, "baseline: expected one of mean, .*, given, got 'median'"),
        (
            {"baseline": "mean", "scale": "std"},
            UsageError,
            "scale: expected one of none, .*, phase, got 'std'",
        ),
        ({"baseline": "static"}, UsageError, "min_correct: the static baseline is min_correct itself, got none"),
        ({"baseline": "mean", "min_correct": np.inf}, DataError, "min_correct: expected one finite number, got inf"),
    ],
)
def test_bad_settings_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        compose_advantages([0.0, 1.0], [0, 0], **settings)
