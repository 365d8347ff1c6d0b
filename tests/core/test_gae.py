"""GAE by hand, by the paper's double sum, in its limits, against Monte Carlo, and against verl's own."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from corpo_rl.core.gae import gae_advantages
from corpo_rl.errors import DataError, UsageError

ROOT = Path(__file__).parents[2]
VERL_PYTHON = ROOT / ".venv-verl" / "bin" / "python"


def ragged_batch(*, seed, n=40, n_tokens=12, holes=False):
    """Rewards at every token, values, and the mask of completions of 0 to n_tokens tokens; with tool output within."""
    rng = np.random.default_rng(seed)
    mask = np.arange(n_tokens) < rng.integers(0, n_tokens + 1, size=(n, 1))
    if holes:
        mask &= rng.random((n, n_tokens)) < 0.7
    return rng.normal(size=(n, n_tokens)) * mask, rng.normal(size=(n, n_tokens)), mask


def test_worked_by_hand():
    # gamma 0.5, lambda 0.5, so gamma * lambda = 0.25
    # row 0: delta = 1 + 0.5 * 2 - 1 = 1; 0 + 0.5 * 4 - 2 = 0; 8 + 0 - 4 = 4
    #        A = 4; 0 + 0.25 * 4 = 1; 1 + 0.25 * 1 = 1.25         returns A + V = 2.25, 3, 8
    # row 1: its second token is a tool's, so the third is the first one's neighbour
    #        delta = 0 + 0.5 * 4 - 1 = 1; 8 - 4 = 4                A = 4; 1 + 0.25 * 4 = 2     returns 3, 8
    # row 2: one token, delta = 0.5 - 2 = -1.5
    # row 3: none
    found = gae_advantages(
        [[1, 0, 8], [0, 0, 8], [0.5, 0, 0], [0, 0, 0]],
        [[1, 2, 4], [1, 2, 4], [2, np.nan, np.inf], [7, 7, 7]],
        [[1, 1, 1], [1, 0, 1], [1, 0, 0], [0, 0, 0]],
        discount=0.5,
        trace=0.5,
    )
    np.testing.assert_allclose(found.advantages_BT, [[1.25, 1, 4], [2, 0, 4], [-1.5, 0, 0], [0, 0, 0]])
    np.testing.assert_allclose(found.returns_BT, [[2.25, 3, 8], [3, 0, 8], [0.5, 0, 0], [0, 0, 0]])


def loop_advantages(rewards, values, mask, discount, trace):
    """The paper's sum of discounted residuals, written out for each token of a completion without its gaps."""
    advantages = np.zeros(np.shape(mask))
    for row in range(len(mask)):
        tokens = [token for token in range(len(mask[row])) if mask[row][token]]
        for start in range(len(tokens)):
            for later in range(start, len(tokens)):
                after = values[row][tokens[later + 1]] if later + 1 < len(tokens) else 0.0
                delta = rewards[row][tokens[later]] + discount * after - values[row][tokens[later]]
                advantages[row][tokens[start]] += (discount * trace) ** (later - start) * delta
    return advantages


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize(("discount", "trace"), [(1.0, 0.95), (0.9, 0.6), (0.0, 1.0)])
def test_plain_loop(discount, trace, holes):
    rewards, values, mask = ragged_batch(seed=1, holes=holes)
    found = gae_advantages(rewards, values, mask, discount=discount, trace=trace)
    expected = loop_advantages(rewards, values, mask, discount, trace)
    np.testing.assert_allclose(found.advantages_BT, expected, atol=1e-12)
    np.testing.assert_allclose(found.returns_BT, (expected + values) * mask, atol=1e-12)


def test_without_discount_and_with_the_whole_trace_it_is_the_reward_to_go_minus_the_value():
    rewards, values, mask = ragged_batch(seed=2)
    found = gae_advantages(rewards, values, mask, discount=1.0, trace=1.0)
    to_go = np.cumsum(rewards[:, ::-1], axis=1)[:, ::-1]
    np.testing.assert_allclose(found.returns_BT, to_go * mask, atol=1e-12)
    np.testing.assert_allclose(found.advantages_BT, (to_go - values) * mask, atol=1e-12)


def test_without_a_trace_it_is_the_residual_of_one_step():
    rewards, values, mask = ragged_batch(seed=3)
    found = gae_advantages(rewards, values, mask, discount=0.9, trace=0.0)
    after = np.pad(values * mask, [(0, 0), (0, 1)])[:, 1:]
    np.testing.assert_allclose(found.advantages_BT, (rewards + 0.9 * after - values) * mask, atol=1e-12)


def test_a_constant_value_is_a_constant_baseline_of_one_reward_at_the_end():
    # with gamma 1 every residual but the last is 0, and that is R - c, faded by lambda for each token before it
    mask = np.array([[1, 1, 1, 0]])
    found = gae_advantages([[0, 0, 1, 0]], np.full((1, 4), 0.25), mask, discount=1.0, trace=0.5)
    np.testing.assert_allclose(found.advantages_BT, [[0.75 / 4, 0.75 / 2, 0.75, 0]])


@pytest.mark.parametrize("trace", [0.0, 0.5, 1.0])
def test_under_the_true_value_the_advantages_of_a_state_sum_to_zero(trace):
    """Whatever the trace: a random walk of known value, every path once, so that the mean is exact."""
    n_tokens = 6
    steps = np.array([[1 if path >> token & 1 else -1 for token in range(n_tokens)] for path in range(2**n_tokens)])
    position = np.cumsum(steps, axis=1)  # fair steps: what is expected at the end is where one stands
    rewards = np.zeros(steps.shape)
    rewards[:, -1] = position[:, -1]
    values = position - steps
    advantages = gae_advantages(rewards, values, np.ones(steps.shape), discount=1.0, trace=trace).advantages_BT
    assert advantages.any()
    for token in range(n_tokens):
        for state in {tuple(path) for path in steps[:, :token]}:
            of_state = (steps[:, :token] == state).all(axis=1)
            assert advantages[of_state, token].mean() == pytest.approx(0.0, abs=1e-12)


def test_a_perfect_critic_of_a_fixed_reward_leaves_no_advantage():
    rewards, _, mask = ragged_batch(seed=4)
    values = np.cumsum(rewards[:, ::-1], axis=1)[:, ::-1]
    found = gae_advantages(rewards, values, mask, discount=1.0, trace=0.3)
    np.testing.assert_allclose(found.advantages_BT, 0.0, atol=1e-12)
    np.testing.assert_allclose(found.returns_BT, values * mask, atol=1e-12)


def test_arguments_are_not_written_into():
    rewards, values, mask = ragged_batch(seed=5, holes=True)
    before = rewards.copy(), values.copy(), mask.copy()
    gae_advantages(rewards, values, mask, discount=0.9, trace=0.9)
    for kept, given in zip(before, (rewards, values, mask), strict=True):
        np.testing.assert_array_equal(given, kept)


ZERO = [[0.0, 0.0]]


@pytest.mark.parametrize(
    ("rewards", "values", "mask", "settings", "error", "message"),
    [
        ([0.0], ZERO, ZERO, {}, DataError, r"rewards_BT: expected shape \[B, T\], got \[1\]"),
        ([[0.0]], ZERO, ZERO, {}, DataError, r"rewards_BT: expected shape \[1, 2\], as mask_BT, got \[1, 1\]"),
        (ZERO, [[0.0]], ZERO, {}, DataError, r"values_BT: expected shape \[1, 2\], as mask_BT, got \[1, 1\]"),
        (ZERO, ZERO, [[1, 0], [1]], {}, DataError, r"mask_BT: expected shape \[B, T\], got list"),
        (ZERO, ZERO, [["a", "b"]], {}, DataError, "mask_BT: expected numbers, got str"),
        (ZERO, ZERO, [[1.0, 0.5]], {}, DataError, "mask_BT: expected 0 and 1, row 0, token 1 is 0.5"),
        ([[0.0, 3.0]], ZERO, [[1, 0]], {}, DataError, "expected 0 outside the mask, row 0, token 1 is 3.0; put the"),
        ([[0.0, np.nan]], ZERO, [[1, 0]], {}, DataError, "expected 0 outside the mask, row 0, token 1 is nan"),
        ([[np.nan, 0]], ZERO, [[1, 1]], {}, DataError, "rewards_BT: 1 of 2 values .* row 0, token 0 is nan"),
        (ZERO, [[0, np.inf]], [[1, 1]], {}, DataError, "values_BT: 1 of 2 values .* row 0, token 1 is inf"),
        (ZERO, ZERO, ZERO, {"discount": 1.01}, UsageError, "discount: expected 0 to 1, got 1.01"),
        (ZERO, ZERO, ZERO, {"trace": -0.1}, UsageError, "trace: expected 0 to 1, got -0.1"),
        (ZERO, ZERO, ZERO, {"trace": np.nan}, DataError, "trace: expected one finite number, got nan"),
    ],
)
def test_bad_input_names_argument_and_value(rewards, values, mask, settings, error, message):
    with pytest.raises(error, match=message):
        gae_advantages(rewards, values, mask, **({"discount": 1.0, "trace": 1.0} | settings))


VERL = """
import json, sys, torch
from verl.trainer.ppo.core_algos import compute_gae_advantage_return
given = json.load(sys.stdin)
tensors = [torch.tensor(given[name], dtype=torch.float64) for name in ("rewards", "values", "mask")]
advantages, returns = compute_gae_advantage_return(*tensors, given["discount"], given["trace"])
print("FOUND" + json.dumps([advantages.tolist(), returns.tolist()]))
"""


@pytest.mark.skipif(not VERL_PYTHON.exists(), reason="no verl: make test-verl sets it up")
def test_returns_are_those_of_verl_and_its_advantages_are_ours_whitened():
    whole, with_holes = ragged_batch(seed=6), ragged_batch(seed=7, holes=True)
    rewards, values, mask = (np.concatenate(parts) for parts in zip(whole, with_holes, strict=True))
    settings = {"discount": 0.97, "trace": 0.9}
    given = {"rewards": rewards.tolist(), "values": values.tolist(), "mask": mask.astype(float).tolist(), **settings}
    done = subprocess.run(
        [VERL_PYTHON, "-c", VERL], input=json.dumps(given), capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    whitened, returns = json.loads(done.stdout.partition("FOUND")[2])

    found = gae_advantages(rewards, values, mask, **settings)
    np.testing.assert_allclose(found.returns_BT[mask], np.array(returns)[mask], atol=1e-12)
    advantages = found.advantages_BT[mask]
    ours = (advantages - advantages.mean()) / advantages.std(ddof=1)  # verl's variance is over n - 1
    np.testing.assert_allclose(ours, np.array(whitened)[mask], atol=1e-6)
