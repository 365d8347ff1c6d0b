"""Each kin against arithmetic by hand, plain loops, its reductions, what it guarantees and what it does not."""

import itertools
import statistics

import numpy as np
import pytest

from corpo_rl.core.advantages import dr_grpo_advantages, grpo_advantages, rloo_advantages
from corpo_rl.core.kin import (
    ema_advantages,
    ema_update,
    gated,
    max_gap_advantages,
    ngrpo_advantages,
    odrpo_advantages,
    opo_advantages,
    qae_advantages,
    reweighted_advantages,
)
from corpo_rl.errors import DataError, UsageError

LEVELS = [-1.0, -0.6, -0.2, 0.2, 0.6, 1.0]
MIN_CORRECT = 0.2


def ragged(seed=0, n=400, n_groups=90, share_unscorable=0.05):
    rng = np.random.default_rng(seed)
    rewards = rng.choice(LEVELS, size=n, p=[0.3, 0.25, 0.15, 0.1, 0.1, 0.1])
    rewards[rng.random(n) < share_unscorable] = np.nan
    return rewards, rng.integers(0, n_groups, size=n), rng.integers(1, 50, size=n)


def members(rewards, groups, row):
    return [other for other in range(len(rewards)) if groups[other] == groups[row] and not np.isnan(rewards[other])]


def quantile_by_hand(values, share):
    values = sorted(values)
    place = share * (len(values) - 1)
    low = int(place)
    return values[low] if low == place else values[low] + (place - low) * (values[low + 1] - values[low])


def reference(name, rewards, groups, lengths, previous):
    """Advantages by a loop over the rollouts and their peers."""
    found = []
    for row, reward in enumerate(rewards):
        if np.isnan(reward):
            found.append(0.0)
            continue
        peers = members(rewards, groups, row)
        values = [rewards[peer] for peer in peers]
        if name == "qae":
            found.append(reward - quantile_by_hand(values, 0.4))
        elif name == "opo":
            total = sum(lengths[peer] for peer in peers)
            found.append(reward - sum(lengths[peer] * rewards[peer] for peer in peers) / total)
        elif name == "ema":
            others = [rewards[peer] for peer in peers if peer != row]
            first = statistics.fmean(others) if others else reward
            found.append(reward - (first if np.isnan(previous[row]) else previous[row]))
        elif name == "ngrpo":
            virtual = [*values, 1.0]
            spread = statistics.stdev(virtual)
            found.append((reward - statistics.fmean(virtual)) / (spread + 1e-4) if spread > 1e-12 else 0.0)
        elif name == "odrpo":
            total = 0.0
            for level in LEVELS:
                reached = [float(value >= level) for value in values]
                if 0 < sum(reached) < len(reached):
                    total += (float(reward >= level) - statistics.fmean(reached)) / (statistics.stdev(reached) + 1e-4)
            found.append(total)
        else:
            ordered = sorted(values, reverse=True)
            found.append(ordered[0] - ordered[1] if len(values) > 1 and reward == ordered[0] else 0.0)
    return found


def compute(name, rewards, groups, lengths, previous):
    return {
        "qae": lambda: qae_advantages(rewards, groups, quantile=0.4, unscorable="exclude"),
        "opo": lambda: opo_advantages(rewards, groups, lengths=lengths, unscorable="exclude"),
        "ema": lambda: ema_advantages(rewards, groups, previous=previous, unscorable="exclude"),
        "ngrpo": lambda: ngrpo_advantages(rewards, groups, max_reward=1.0, unscorable="exclude"),
        "odrpo": lambda: odrpo_advantages(rewards, groups, unscorable="exclude"),
        "max_gap": lambda: max_gap_advantages(rewards, groups, unscorable="exclude"),
    }[name]()


NAMES = ("qae", "opo", "ema", "ngrpo", "odrpo", "max_gap")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_equals_a_plain_loop(name, seed):
    rewards, groups, lengths = ragged(seed)
    previous = np.where(np.random.default_rng(seed).random(len(rewards)) < 0.5, np.nan, 0.1)
    actual = compute(name, rewards, groups, lengths, previous)
    np.testing.assert_allclose(actual, reference(name, rewards, groups, lengths, previous), atol=1e-9)
    assert np.abs(actual).max() > 0.1


@pytest.mark.parametrize("name", NAMES)
def test_does_not_guarantee_the_sign(name):
    # so a floor or a gate has something to do: see test_methods
    rewards, groups, lengths = ragged()
    actual = compute(name, rewards, groups, lengths, np.full(len(rewards), -0.7))
    failed = rewards < MIN_CORRECT
    assert (actual[failed] > 1e-9).sum() > 3
    assert (gated(actual, rewards, min_correct=MIN_CORRECT)[failed] <= 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_order_of_rows_and_names_of_groups_play_no_part(name):
    rewards, groups, lengths = ragged(5)
    previous = np.full(len(rewards), 0.3)
    order = np.random.default_rng(5).permutation(len(rewards))
    named = np.array([f"prompt {group}" for group in groups])[order]
    np.testing.assert_allclose(
        compute(name, rewards[order], named, lengths[order], previous[order]),
        compute(name, rewards, groups, lengths, previous)[order],
        atol=1e-12,
    )


@pytest.mark.parametrize("name", [name for name in NAMES if name != "ngrpo"])
def test_equal_rewards_give_exactly_nothing(name):
    rewards, groups = [0.1] * 7 + [0.7] * 3, [0] * 7 + [1] * 3
    actual = compute(name, rewards, groups, [3, 1, 4, 1, 5, 9, 2, 6, 5, 3], [np.nan] * 10)
    np.testing.assert_array_equal(actual, 0.0)


@pytest.mark.parametrize("name", NAMES)
def test_no_rollouts_give_no_advantages(name):
    assert compute(name, [], [], [], []).shape == (0,)


def test_worked_by_hand():
    # the median of -1, -.6, 1 is -.6; of -1 and 0 it is -.5
    np.testing.assert_allclose(
        qae_advantages([-1.0, -0.6, 1.0, -1.0, 0.0], [0, 0, 0, 1, 1], quantile=0.5), [-0.4, 0.0, 1.6, -0.5, 0.5]
    )
    # (10 * -1 + 10 * 0 + 20 * 1) / 40 = 0.25
    np.testing.assert_allclose(opo_advantages([-1.0, 0.0, 1.0], [0] * 3, lengths=[10, 10, 20]), [-1.25, -0.25, 0.75])
    # with the virtual 1: -1, 0, 1, mean 0, std sqrt((1 + 0 + 1) / 2) = 1
    np.testing.assert_allclose(ngrpo_advantages([-1.0, 0.0], [0, 0], max_reward=1.0), [-1 / 1.0001, 0.0])
    # level 0: reached by 1 of 2, std sqrt(.5) -> -+ .5 / .7071; level -1: by all
    np.testing.assert_allclose(odrpo_advantages([-1.0, 0.0], [0, 0]), [-0.70701, 0.70701], atol=1e-5)
    np.testing.assert_array_equal(max_gap_advantages([-1.0, -0.5, -0.75], [0, 0, 0]), [0.0, 0.25, 0.0])
    np.testing.assert_array_equal(
        reweighted_advantages([-1.0, 0.2, 1.0], [0, 0, 0], min_correct=0.2, correct_weight=0.1, failed_weight=1.0),
        [-1.0, 0.1, 0.1],
    )


def test_two_rewards_under_a_quantile_are_the_two_regimes_of_the_source():
    # K = .5, eight rollouts: with at most 4 successes they are reinforced, with more the failures are punished
    for n_right in range(9):
        rewards = [1.0] * n_right + [0.0] * (8 - n_right)
        actual = qae_advantages(rewards, [0] * 8, quantile=0.5)
        right, wrong = set(actual[:n_right]), set(actual[n_right:])
        if n_right < 4:
            assert right <= {1.0}
            assert wrong == {0.0}
        elif n_right > 4:
            assert right == {0.0}
            assert wrong <= {-1.0}
        else:  # between the two the interpolated quantile is the mean of both
            assert (right, wrong) == ({0.5}, {-0.5})


def test_reductions():
    rewards, groups, _ = ragged(3, share_unscorable=0.0)
    same = np.full(len(rewards), 7)
    np.testing.assert_allclose(
        opo_advantages(rewards, groups, lengths=same), dr_grpo_advantages(rewards, groups), atol=1e-12
    )
    nothing = np.full(len(rewards), np.nan)
    np.testing.assert_allclose(ema_advantages(rewards, groups, previous=nothing), rloo_advantages(rewards, groups))
    # one level: ODRPO is GRPO on the indicator of success
    np.testing.assert_allclose(
        odrpo_advantages(rewards, groups, levels=[MIN_CORRECT]),
        grpo_advantages((rewards >= MIN_CORRECT).astype(float), groups),
        atol=1e-12,
    )
    # the maximum as quantile pushes nothing up
    assert (qae_advantages(rewards, groups, quantile=1.0) <= 0).all()


def test_the_gap_is_an_unbiased_gradient_of_the_best_of_the_group():
    # E[sum of A_i grad log p(y_i)] against the derivative of E[max], three arms, groups of three, by enumeration
    values, p, size = np.array([-1.0, 0.3, 1.0]), np.array([0.5, 0.3, 0.2]), 3

    def expected_best(p):
        return sum(np.prod(p[list(arms)]) * values[list(arms)].max() for arms in itertools.product(range(3), repeat=3))

    gradient = np.zeros(3)
    for arms in itertools.product(range(3), repeat=size):
        weight = np.prod(p[list(arms)])
        advantages = max_gap_advantages(values[list(arms)], [0] * size)
        for arm, advantage in zip(arms, advantages, strict=True):
            gradient += weight * advantage * (np.eye(3)[arm] - p)
    logits, step = np.log(p), 1e-6
    numeric = []
    for arm in range(3):
        up, down = (np.exp(logits + sign * step * np.eye(3)[arm]) for sign in (1, -1))
        numeric.append((expected_best(up / up.sum()) - expected_best(down / down.sum())) / (2 * step))
    np.testing.assert_allclose(gradient, numeric, atol=1e-8)


def test_moving_average():
    # .9 * .2 + .1 * 1 = .28; at first the mean; with nothing scored no change
    assert ema_update(0.2, 1.0, decay=0.9) == pytest.approx(0.28)
    assert ema_update(float("nan"), 1.0, decay=0.9) == 1.0
    assert ema_update(0.2, float("nan"), decay=0.9) == 0.2


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: qae_advantages([1.0], [0], quantile=1.5),
            UsageError,
            "quantile: expected a share",
        ),
        (lambda: opo_advantages([1.0], [0], lengths=[0]), DataError, r"lengths: expected numbers above 0, row 0 is 0"),
        (lambda: opo_advantages([1.0], [0], lengths=[1, 2]), DataError, r"lengths: expected shape \[1\], as rewards"),
        (lambda: ema_advantages([1.0], [0], previous=[1.0, 2.0]), DataError, "previous: expected 1 finite numbers"),
        (lambda: ema_update(0.0, 1.0, decay=2.0), UsageError, "decay: expected a share from 0 to 1, got 2"),
        (lambda: ngrpo_advantages([1.5], [0], max_reward=1.0), DataError, r"none over max_reward = 1, row 0 is 1\.5"),
        (lambda: odrpo_advantages([1.0], [0], levels=[np.inf]), DataError, r"levels: 1 of 1 values are not finite"),
        (lambda: max_gap_advantages([np.nan], [0]), DataError, r"rewards: 1 of 1 values are not finite"),
        (
            lambda: reweighted_advantages([1.0], [0], min_correct=0.0, correct_weight=-1.0, failed_weight=1.0),
            UsageError,
            "correct_weight: expected a finite number of at least 0, got -1",
        ),
    ],
)
def test_bad_input_names_argument_and_value(call, error, message):
    with pytest.raises(error, match=message):
        call()
