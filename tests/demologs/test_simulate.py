import numpy as np
import pytest

from corpo_rl.core.advantages import dr_grpo_advantages
from corpo_rl.core.dynamics import floor_state, group_class_counts, reinforced_failure_share
from corpo_rl.demologs.simulate import MISSING, SCENARIOS, simulate_run, synthetic_graded
from corpo_rl.errors import UsageError


def test_the_large_graded_log_has_the_fault_it_is_for():
    log = synthetic_graded(100_000, seed=0)
    groups, rewards = log.group_N, log.rewards_N
    assert (len(rewards), groups[-1] + 1, log.step_N[-1]) == (100_000, 12_500, 1250)
    share = reinforced_failure_share(rewards, dr_grpo_advantages(rewards, groups), min_correct=log.min_correct)
    assert 0.3 < share < 0.4
    counts = group_class_counts(rewards, groups, min_correct=log.min_correct)
    without_success = (counts["all_failed_equal"] + counts["all_failed_graded"]) / 12_500
    assert 0.65 < without_success < 0.75
    assert counts["all_failed_graded"] > counts["all_failed_equal"]
    merged = np.unique(np.stack([log.step_N, log.prompt_N]), axis=1).shape[1]
    assert merged < 12_500, "some prompt must come twice in a step"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_run_is_the_same_for_the_same_seed_and_another_for_another(scenario):
    one, again, other = (simulate_run(scenario, seed=seed, n_steps=4) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.train.rewards_N, again.train.rewards_N)
    assert one.train.completions == again.train.completions != other.train.completions
    assert len(one.train.completions) == len(one.train.reward_values) == 4 * 8 * 8


def test_what_each_scenario_is_made_for():
    runs = {name: simulate_run(name, seed=0) for name in SCENARIOS}
    binary = runs["healthy-binary"].train
    assert set(binary.rewards_N.tolist()) == {0.0, 1.0}
    half = len(binary.rewards_N) // 2
    assert binary.rewards_N[half:].mean() > binary.rewards_N[:half].mean() + 0.1, "it learns"
    inert = runs["inert-floor"].train
    assert floor_state(inert.rewards_N, inert.group_N, min_correct=0.0) == "inert"
    np.testing.assert_allclose(inert.advantages_N, dr_grpo_advantages(inert.rewards_N, inert.group_N), atol=1e-12)
    dirty = runs["dirty"]
    kinds = {type(value).__name__ if value is not MISSING else "missing" for value in dirty.train.reward_values}
    assert kinds == {"float", "NoneType", "str", "missing"}
    assert any(value != value for value in dirty.train.reward_values), "some are NaN"
    assert dirty.evaluation is not None
    assert dirty.repeated
    assert dirty.torn


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: simulate_run("sad", seed=0), "scenario: expected one of healthy-binary"),
        (lambda: simulate_run("dirty", seed=-1), "at least 0"),
        (lambda: simulate_run("dirty", seed=0, n_steps=0), "at least 1 step"),
        (lambda: synthetic_graded(12), "multiple of 8"),
    ],
)
def test_a_wrong_call(call, message):
    with pytest.raises(UsageError, match=message):
        call()
