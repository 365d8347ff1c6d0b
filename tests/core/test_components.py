import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpo_rl.core.advantages import corpo_advantages, dr_grpo_advantages, grpo_advantages
from corpo_rl.core.components import component_advantages, missing_components, plain_lifts
from corpo_rl.errors import DataError, UsageError

# correctness (least correct 0.5), format, length
WEIGHTS = [2.0, 0.5, -0.1]
REWARDS = [
    [0.0, 1.0, 2.0],
    [1.0, 0.0, 4.0],
    [0.0, 0.0, 6.0],
    [1.0, 1.0, 8.0],
    [0.25, 1.0, 1.0],
]
GROUPS = ["a", "a", "a", "a", "b"]


def floored(rewards, groups, weights=WEIGHTS, correctness=0, min_correct=0.5, **settings):
    return component_advantages(
        rewards, groups, weights=weights, correctness=correctness, min_correct=min_correct, **settings
    )


def batch(*, seed, n=300, missing=0.0):
    """Components [n, 3], group ids and weights: a graded correctness, a yes or no, a length."""
    rng = np.random.default_rng(seed)
    rewards = np.column_stack(
        [rng.choice([-1.0, 0.0, 0.4, 0.5, 0.6, 1.0], n), rng.integers(0, 2, n), rng.normal(0.0, 3.0, n)]
    )
    rewards[rng.random(rewards.shape) < missing] = np.nan
    return rewards, rng.integers(0, n // 5, n), np.array([rng.uniform(0.1, 2), *rng.normal(0, 2, 2)])


def test_worked_by_hand():
    # a: correctness mean 0.5, at the floor: 2 * (0 - 0.5) = -1 for the failed, 2 * (1 - 0.5) = 1 for the correct
    #    failed, rows 0 and 2: format mean 0.5, length mean 4: F = 0.5 * 0.5 - 0.1 * -2 = 0.45, and -0.45
    #    correct, rows 1 and 3: format mean 0.5, length mean 6: F = 0.5 * -0.5 - 0.1 * -2 = -0.05, and 0.05
    # b: 2 * (0.25 - 0.5) = -0.5, nobody to compare with
    expected = [-1.0, 1.0 - 0.05, -1.0 - 0.45, 1.0 + 0.05, -0.5]
    np.testing.assert_allclose(floored(REWARDS, GROUPS), expected, atol=1e-12)


def test_correctness_may_be_any_column():
    order = [2, 0, 1]
    turned = np.array(REWARDS)[:, order]
    actual = floored(turned, GROUPS, weights=np.array(WEIGHTS)[order], correctness=1)
    np.testing.assert_allclose(actual, floored(REWARDS, GROUPS), atol=1e-12)


def loop_advantages(rewards, groups, weights, k, threshold):
    """The rule spelt out one rollout at a time."""
    n, n_components = rewards.shape
    result = []
    for i in range(n):
        mates = [j for j in range(n) if groups[j] == groups[i] and not np.isnan(rewards[j, k])]
        if i not in mates:
            result.append(0.0)
            continue
        mean = sum(rewards[j, k] for j in mates) / len(mates)
        advantage = weights[k] * (rewards[i, k] - max(threshold, mean))
        free = 0.0
        for c in range(n_components):
            alike = [
                rewards[j, c]
                for j in mates
                if (rewards[j, k] >= threshold) == (rewards[i, k] >= threshold) and not np.isnan(rewards[j, c])
            ]
            if c != k and not np.isnan(rewards[i, c]):
                free += weights[c] * (rewards[i, c] - sum(alike) / len(alike))
        if rewards[i, k] < threshold:
            free = min(free, 0.0)
        result.append(advantage + free)
    return result


@pytest.mark.parametrize("missing", [0.0, 0.25])
def test_plain_loop(missing):
    rewards, groups, weights = batch(seed=0, missing=missing)
    actual = floored(rewards, groups, weights, unscorable="exclude")
    np.testing.assert_allclose(actual, loop_advantages(rewards, groups, weights, 0, 0.5), atol=1e-9)


def test_equal_other_components_leave_corpo_on_correctness():
    rewards, groups, weights = batch(seed=1)
    rewards[:, 1:] = [1.0, -7.0]
    expected = weights[0] * corpo_advantages(rewards[:, 0], groups, min_correct=0.5)
    np.testing.assert_allclose(floored(rewards, groups, weights), expected, atol=1e-12)


def test_where_all_are_correct_it_is_the_weighted_sum_over_its_mean():
    rewards, groups, weights = batch(seed=2)
    actual = floored(rewards, groups, weights, min_correct=-1.0)  # the least correctness there is
    np.testing.assert_allclose(actual, dr_grpo_advantages(rewards @ weights, groups), atol=1e-9)


@st.composite
def batches(draw):
    """Small batches with weights of any size and sign, and some rewards missing."""
    n = draw(st.integers(1, 9))
    number = st.floats(-1e3, 1e3, width=32)
    known = st.one_of(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), number)
    rewards = draw(st.lists(st.tuples(known, *[st.one_of(st.just(np.nan), number)] * 2), min_size=n, max_size=n))
    groups = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    weights = [draw(st.floats(0.01, 100)), draw(number), draw(number)]
    return np.array(rewards, dtype=float), np.array(groups), np.array(weights)


@settings(max_examples=300, deadline=None)
@given(batches())
def test_no_component_lifts_a_failure_or_turns_a_group_against_its_correct_answers(drawn):
    rewards, groups, weights = drawn
    actual = floored(rewards, groups, weights, unscorable="exclude")
    alone = weights[0] * corpo_advantages(rewards[:, 0], groups, min_correct=0.5)
    failed = rewards[:, 0] < 0.5
    assert (actual[failed] < 0).all()
    assert (actual[failed] <= alone[failed]).all()

    size = 1 + np.abs(weights * np.nan_to_num(rewards)).max()
    for group in set(groups):
        correct = (groups == group) & ~failed
        assert actual[correct].sum() == pytest.approx(alone[correct].sum(), abs=1e-9 * size)
        assert actual[correct].sum() >= -1e-9 * size


@settings(max_examples=300, deadline=None)
@given(batches())
def test_correct_rollouts_keep_the_distances_of_their_weighted_sums(drawn):
    rewards, groups, weights = drawn
    rewards = np.nan_to_num(rewards)
    actual, total = floored(rewards, groups, weights), rewards @ weights
    size = 1 + np.abs(weights * rewards).max()
    for i, j in itertools.combinations(range(len(rewards)), 2):
        if groups[i] == groups[j] and min(rewards[i, 0], rewards[j, 0]) >= 0.5:
            assert actual[i] - actual[j] == pytest.approx(total[i] - total[j], abs=1e-9 * size)


@settings(max_examples=200, deadline=None)
@given(batches())
def test_a_failure_better_in_every_component_is_never_worse_off(drawn):
    rewards, groups, weights = drawn
    parts = np.nan_to_num(rewards) * weights
    actual = floored(np.nan_to_num(rewards), groups, weights)
    size = 1 + np.abs(parts).max()
    for i, j in itertools.permutations(range(len(rewards)), 2):
        if groups[i] == groups[j] and max(rewards[i, 0], rewards[j, 0]) < 0.5 and (parts[i] >= parts[j]).all():
            assert actual[i] >= actual[j] - 1e-9 * size


def test_it_takes_no_more_than_it_needs():
    # Above it on any rollout, a rule breaks one of its two bounds: CoRPO alone on failures, the sum of terms elsewhere.
    rewards, groups, weights = batch(seed=3)
    actual = floored(rewards, groups, weights)
    alone = weights[0] * corpo_advantages(rewards[:, 0], groups, min_correct=0.5)
    kinds = 2 * groups + (rewards[:, 0] >= 0.5)
    ungated = alone + dr_grpo_advantages(rewards[:, 1:] @ weights[1:], kinds)
    bound = np.where(rewards[:, 0] < 0.5, np.minimum(alone, ungated), ungated)
    np.testing.assert_allclose(actual, bound, atol=1e-9)
    assert (ungated[rewards[:, 0] < 0.5] > 0).any(), "the batch must hold a failure that the gate is needed for"


def test_a_weighted_sum_lifts_failures_and_this_does_not():
    # correctness 0 or 1, a format worth 0.4: the well-formed failure is over the mean of (0, 0.4, 0, 0) = 0.1
    rewards, groups, weights = [[0, 0], [0, 1], [0, 0], [0, 0]], [0] * 4, [1.0, 0.4]
    total = np.array(rewards) @ weights
    assert dr_grpo_advantages(total, groups)[1] == pytest.approx(0.3)
    assert grpo_advantages(total, groups)[1] == pytest.approx(0.3 / 0.2, rel=1e-3)  # std sqrt((3*.01+.09)/3) = 0.2
    # CoRPO alone gives -0.5; form mean 0.25: the malformed lose 0.4 * 0.25 = 0.1 more
    np.testing.assert_allclose(floored(rewards, groups, weights), [-0.6, -0.5, -0.6, -0.6], atol=1e-12)


def test_no_threshold_on_the_total_does_it():
    # format is worth more than correctness: the malformed right answer has 1.0, the well-formed failure 1.5
    rewards, groups, weights = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), [0] * 3, [1.0, 1.5]
    total = rewards @ weights
    assert corpo_advantages(total, groups, min_correct=1.0)[1] > 0  # right answers pass, and so does the failure
    for threshold in np.linspace(1.01, 3.0, 50):  # the failure's sum is under it, or it is the failure that passes
        assert corpo_advantages(total, groups, min_correct=threshold)[0] < 0
    assert floored(rewards, groups, weights)[0] > 0 > floored(rewards, groups, weights)[1]


def test_a_lone_correct_answer_is_not_sunk_by_well_formed_failures():
    rewards, groups, weights = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]), [0] * 4, [1.0, 1.5]
    assert dr_grpo_advantages(rewards @ weights, groups)[0] < 0  # 1 - (1 + 3 * 1.5) / 4
    assert floored(rewards, groups, weights)[0] == pytest.approx(0.5)


def test_what_it_does_not_keep():
    # failures over the mean form are not told apart
    rewards = [[0, 3.0], [0, 2.0], [0, -5.0]]
    first, second, _ = floored(rewards, [0] * 3, [1.0, 1.0])
    assert first == second == pytest.approx(-0.5)
    # a correct rollout far under the form of the correct ones scores under a failure
    rewards = [[1, 0.0], [1, 9.0], [0, 0.0]]
    worst, best, failure = floored(rewards, [0] * 3, [1.0, 1.0])
    assert worst < failure < best


def outcomes_and_groups(n_draws):
    """A policy over six completions of one prompt, and every group of n draws from it with its probability."""
    rewards = np.array([[0.0, 1.0], [0.0, 0.0], [0.25, 2.0], [1.0, 0.0], [0.75, 1.0], [1.0, 3.0]])
    logits = np.array([0.3, -0.2, 0.1, -0.5, 0.4, -0.3])
    prob = np.exp(logits) / np.exp(logits).sum()
    for drawn in itertools.product(range(6), repeat=n_draws):
        yield rewards, prob, list(drawn), float(np.prod(prob[list(drawn)]))


def test_the_free_part_of_the_correct_follows_the_gradient_given_correctness():
    """Exact, over all 6^3 groups: E[sum of (A - CoRPO alone) grad log p] = E[max(m - 1, 0)] grad E[F | correct]."""
    weights, expected_update, spare = [1.0, 0.7], np.zeros(6), 0.0
    for rewards, prob, drawn, chance in outcomes_and_groups(3):
        actual = floored(rewards[drawn], [0] * 3, weights)
        alone = corpo_advantages(rewards[drawn, 0], [0] * 3, min_correct=0.5)
        correct = rewards[drawn, 0] >= 0.5
        scores = np.eye(6)[drawn] - prob  # gradient of log p by the logits
        expected_update += chance * (actual - alone)[correct] @ scores[correct]
        spare += chance * max(correct.sum() - 1, 0)

    prob_correct = np.where(rewards[:, 0] >= 0.5, prob, 0.0) / prob[rewards[:, 0] >= 0.5].sum()
    form = 0.7 * rewards[:, 1]
    gradient = prob_correct * (form - prob_correct @ form)  # of sum p_c F by the logits
    assert np.abs(gradient).max() > 0.05
    np.testing.assert_allclose(expected_update, spare * gradient, atol=1e-12)


def test_the_expected_update_is_not_the_gradient_of_the_weighted_sum():
    update, gradient_of_sum = np.zeros(6), np.zeros(6)
    for rewards, prob, drawn, chance in outcomes_and_groups(3):
        total = rewards @ [1.0, 0.7]
        update += chance * floored(rewards[drawn], [0] * 3, [1.0, 0.7]) @ (np.eye(6)[drawn] - prob)
        gradient_of_sum = prob * (total - prob @ total)
    cosine = update @ gradient_of_sum / np.linalg.norm(update) / np.linalg.norm(gradient_of_sum)
    assert 0.9 < cosine < 0.92  # the same way on the whole, and not the same
    assert gradient_of_sum[2] > 0 > update[2]  # the failure of good form: the sum makes it likelier, this does not


def test_unscorable_rollouts_get_nothing_and_count_nowhere():
    rewards, groups, weights = batch(seed=4)
    with_unscorable = np.vstack([rewards, [[np.nan, 50.0, 50.0]] * 3])
    actual = floored(with_unscorable, [*groups, 0, 1, 2], weights, unscorable="exclude")
    np.testing.assert_array_equal(actual[-3:], 0.0)
    np.testing.assert_allclose(actual[:-3], floored(rewards, groups, weights), atol=1e-12)


def test_a_missing_component_is_no_zero():
    # formats 1, 1 and unknown: the unknown one is no worse than the others, where 0 would be
    rewards = [[1.0, 1.0], [1.0, 1.0], [1.0, None]]
    np.testing.assert_array_equal(floored(rewards, [0] * 3, [1.0, 0.5], unscorable="exclude"), 0.0)


def test_missing_are_counted():
    rewards = [[1.0, None, 0.0], [None, 0.5, None], [0.0, None, 1.0], [0.0, 1.0, np.nan]]
    found = missing_components(rewards, correctness=0)
    assert found.n_unscorable == 1
    assert found.n_missing_C.tolist() == [0, 2, 1]


def loop_lifts(rewards, groups, weights, k, threshold):
    n, n_components = rewards.shape
    lifted, by = 0, [0] * n_components
    scorable = [i for i in range(n) if not np.isnan(rewards[i]).all()]
    for i in range(n):
        if not rewards[i, k] < threshold:
            continue
        mates = [j for j in scorable if groups[j] == groups[i]]
        over = [
            weights[c] * (np.nan_to_num(rewards[i, c]) - np.mean([np.nan_to_num(rewards[j, c]) for j in mates]))
            for c in range(n_components)
        ]
        if sum(over) > 1e-9:
            lifted += 1
            for c in range(n_components):
                by[c] += sum(over) - over[c] <= 1e-9
    return lifted, by


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_plain_lifts_loop(missing):
    rewards, groups, weights = batch(seed=5, missing=missing)
    found = plain_lifts(rewards, groups, weights=weights, correctness=0, min_correct=0.5, unscorable="exclude")
    lifted, by = loop_lifts(rewards, groups, weights, 0, 0.5)
    assert 0 < lifted < found.n_failed == (rewards[:, 0] < 0.5).sum()
    assert (found.n_lifted, found.n_lifted_by_C.tolist()) == (lifted, by)
    assert min(by) > 0


def test_plain_lifts_are_what_grpo_reinforces():
    rewards, groups, weights = batch(seed=6)
    total, failed = rewards @ weights, rewards[:, 0] < 0.5
    found = plain_lifts(rewards, groups, weights=weights, correctness=0, min_correct=0.5)
    assert found.n_lifted == (grpo_advantages(total, groups)[failed] > 1e-9).sum()
    assert found.n_lifted == (dr_grpo_advantages(total, groups)[failed] > 1e-9).sum()


def test_plain_lifts_take_no_rounding_for_a_lift():
    # the second failure is at the mean of 1/12, 2/12, 3/12 and over it by what float32 rounds
    sixths = [[0.0, float(np.float32(n / 12))] for n in (1, 2, 3)]
    sixths[1][1] += 1e-8
    settings = {"weights": [1.0, 1.0], "correctness": 0, "min_correct": 1.0}
    assert plain_lifts(sixths, [0] * 3, **settings).n_lifted == 2
    assert plain_lifts(sixths, [0] * 3, **settings, rounding=2.0**-22).n_lifted == 1


def test_an_empty_batch():
    empty = np.zeros((0, 2))
    settings = {"weights": [1, 1], "correctness": 0, "min_correct": 1}
    assert component_advantages(empty, [], **settings).shape == (0,)
    assert plain_lifts(empty, [], **settings)[:2] == (0, 0)


def test_arguments_are_left_alone():
    rewards, groups, weights = batch(seed=7, missing=0.2)
    kept = rewards.copy()
    floored(rewards, groups, weights, unscorable="exclude")
    plain_lifts(rewards, groups, weights=weights, correctness=0, min_correct=0.5, unscorable="exclude")
    np.testing.assert_array_equal(rewards, kept)


@pytest.mark.parametrize("function", [component_advantages, plain_lifts])
@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"rewards": [1.0, 2.0]},
            DataError,
            r"rewards: expected shape \[N, C\], a column for each component, got \[2\]",
        ),
        ({"rewards": [[], []]}, DataError, r"rewards: expected shape \[N, C\], .*, got \[2, 0\]"),
        (
            {"rewards": [[1.0], [1.0, 2.0]]},
            DataError,
            r"rewards: expected shape \[N, C\], got rows of different lengths",
        ),
        ({"rewards": [["a", "b"]] * 2}, DataError, r"rewards\[:, 0\]: expected numbers, got str"),
        (
            {"rewards": [[1.0, 1.0], [0.0, np.nan]]},
            DataError,
            "rewards: 1 of 4 values are not finite, the first: row 1, component 1 is nan; pass unscorable='exclude'",
        ),
        (
            {"rewards": [[1.0, np.inf], [0.0, np.nan]], "unscorable": "exclude"},
            DataError,
            "rewards: 1 of 4 values are not finite or NaN, the first: row 0, component 1 is inf$",
        ),
        ({"weights": [1.0]}, DataError, r"weights: expected shape \[2\], one for each component, got \[1\]"),
        ({"weights": [1.0, np.nan]}, DataError, "weights: 1 of 2 values are not finite"),
        ({"weights": [0.0, 1.0]}, UsageError, "weights: expected a weight above 0 for component 0, .*, got 0"),
        ({"correctness": 2}, UsageError, "correctness: expected the index of a component, 0 to 1, got 2"),
        ({"correctness": -1}, UsageError, "correctness: .* got -1"),
        ({"correctness": True}, UsageError, "correctness: .* got True"),
        ({"min_correct": np.nan}, DataError, "min_correct: expected one finite number, got nan"),
        ({"group_ids": ["a"]}, DataError, r"group_ids: expected shape \[2\], as rewards, got \[1\]"),
        ({"unscorable": "zero"}, UsageError, "unscorable: expected 'refuse' or 'exclude', got 'zero'"),
    ],
)
def test_bad_input_is_named(function, changes, error, message):
    given_values = {"rewards": [[1.0, 0.0], [0.0, 1.0]], "group_ids": ["a", "a"]} | {
        name: changes[name] for name in ("rewards", "group_ids") if name in changes
    }
    values = {"weights": [1.0, 1.0], "correctness": 0, "min_correct": 0.5} | {
        name: value for name, value in changes.items() if name not in given_values
    }
    with pytest.raises(error, match=message) as caught:
        function(given_values["rewards"], given_values["group_ids"], **values)
    assert "\n" not in str(caught.value)
