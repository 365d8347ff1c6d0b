import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpo_rl.core.groups import finite_number, finite_vector, index_groups, reward_vector
from corpo_rl.errors import DataError, UsageError


def partition(index_N):
    """Rows of each group, without regard to how the groups are numbered."""
    rows = {}
    for row, group in enumerate(index_N):
        rows.setdefault(int(group), []).append(row)
    return sorted(rows.values())


@pytest.mark.parametrize(
    "ids",
    [
        [5, 3, 5, 5, 3, 9],
        ["b", "a", "b", "b", "a", ""],
        [-7, 4, -7, -7, 4, 0],  # negative: shifted, then counted
        [10**12, 3, 10**12, 10**12, 3, -(10**12)],  # too wide to count: sorted
        np.array([127, -128, 127, 127, -128, 0], dtype=np.int8),
        np.array([2**64 - 1, 2**64 - 3, 2**64 - 1, 2**64 - 1, 2**64 - 3, 2**64 - 2], dtype=np.uint64),
        [2**70, 3, 2**70, 2**70, 3, 0],  # fits no NumPy integer
        np.array(["b", "a", "b", "b", "a", "c"]),
        np.array(["b", "a", "b", "b", "a", "c"], dtype=object),
        np.array([5, 3, 5, 5, 3, 9], dtype=object),
    ],
)
def test_rows_with_one_id_are_one_group(ids):
    groups = index_groups(ids, n=6)
    assert partition(groups.index_N) == [[0, 2, 3], [1, 4], [5]]
    assert groups.size_G[groups.index_N].tolist() == [3, 2, 3, 3, 2, 1]
    assert sorted(groups.size_G.tolist()) == [1, 2, 3], "no group may be empty"


def test_a_range_that_does_not_fit_its_type():
    ids = np.tile(np.array([-128, 127, 0], dtype=np.int8), 40)  # 127 - (-128) = 255 is no int8
    assert partition(index_groups(ids, n=120).index_N) == [list(range(start, 120, 3)) for start in range(3)]


@settings(deadline=None)
@given(st.lists(st.integers(-5, 30), min_size=1, max_size=40))
def test_integers_and_their_names_make_the_same_groups(ids):
    numbers, names = index_groups(ids, n=len(ids)), index_groups([f"prompt {i}" for i in ids], n=len(ids))
    assert partition(numbers.index_N) == partition(names.index_N)
    assert (numbers.size_G > 0).all()
    assert numbers.size_G.sum() == len(ids)


def test_no_rollouts_make_no_groups():
    groups = index_groups([], n=0)
    assert groups.index_N.shape == groups.size_G.shape == groups.mean(np.zeros(0)).shape == (0,)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([1, 2], r"group_ids: expected shape \[3\], as rewards, got \[2\]"),
        ([[1], [2], [3]], r"group_ids: expected shape \[3\], .* got \[3, 1\]"),
        ([1.0, 2.0, 3.0], "group_ids: expected all integers or all strings, got float"),
        ([1, "1", 1], "group_ids: expected all integers or all strings, got integer, string"),
        (["a", None, "a"], "group_ids: expected all integers or all strings, got NoneType, string"),
        ([True, False, True], "group_ids: expected all integers or all strings, got bool"),
        ([[1], [2, 3], [4]], "group_ids: expected a flat array, got list"),
    ],
)
def test_bad_ids_are_refused(ids, message):
    with pytest.raises(DataError, match=message):
        index_groups(ids, n=3)


def test_statistics_worked_by_hand():
    nan = np.nan
    # group 0: rows 0, 2, 4 = 1, nan, 4 -> mean 2.5, std sqrt((1.5^2 + 1.5^2) / 1) = sqrt(4.5)
    # group 1: rows 1, 5 = nan, nan     -> nothing known
    # group 2: row 3 = 7                -> mean 7, no std, no others
    groups, values = index_groups([0, 1, 0, 2, 0, 1], n=6), np.array([1.0, nan, nan, 7.0, 4.0, nan])
    np.testing.assert_array_equal(groups.mean(values), [2.5, nan, 7.0])
    np.testing.assert_allclose(groups.std(values), [np.sqrt(4.5), nan, nan])
    np.testing.assert_array_equal(groups.count(values), [2, 0, 1])
    np.testing.assert_array_equal(groups.mean_of_others(values)[[0, 1, 3, 4, 5]], [4.0, nan, nan, 1.0, nan])
    np.testing.assert_array_equal(groups.all_equal(values), [False, False, True])
    np.testing.assert_array_equal(groups.any(values > 3), [True, False, True])


@settings(deadline=None)
@given(st.floats(-1e6, 1e6), st.integers(1, 20))
def test_equal_values_have_exactly_their_value_as_mean(value, n):
    groups = index_groups([0] * n, n=n)
    assert groups.mean(np.full(n, value)).tolist() == [value]
    assert groups.all_equal(np.full(n, value)).tolist() == [True]


def test_equal_up_to_rounding():
    pairs = np.array([0.3, 0.1 + 0.2, 0.3, 0.3 + 1e-8, 0.0, 1e-300, -1.0, 1.0])  # 0.1 + 0.2 is 0.30000000000000004
    groups = index_groups([0, 0, 1, 1, 2, 2, 3, 3], n=8)
    assert groups.all_equal(pairs).tolist() == [True, False, False, False]


def test_arguments_are_not_written_to():
    ids, values = np.array([3, 3, -1]), np.array([1.0, 2.0, np.nan])
    before = ids.copy(), values.copy()
    groups = index_groups(ids, n=3)
    for statistic in (groups.mean, groups.std, groups.mean_of_others, groups.all_equal):
        statistic(values)
    np.testing.assert_array_equal(ids, before[0])
    np.testing.assert_array_equal(values, before[1])


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        ([[1.0]], r"rewards: expected shape \[N\], got \[1, 1\]"),
        (1.0, r"rewards: expected shape \[N\], got \[\]"),
        ([1.0, np.nan], "rewards: 1 of 2 values are not finite, the first: row 1 is nan; pass unscorable='exclude'"),
        ([1.0, None], "rewards: 1 of 2 values .* row 1 is nan"),
        ([np.inf, 0.0, -np.inf], "rewards: 2 of 3 values .* row 0 is inf"),
        (["1.0"], "rewards: expected numbers, got str"),
        ([1.0, "a", None, {}], "rewards: expected numbers, row 1 is 'a'"),
        ([1j], "rewards: expected numbers, got complex128"),
        ([[1.0], [1.0, 2.0]], "rewards: expected a flat array, got list"),
    ],
)
def test_bad_rewards_are_refused(rewards, message):
    with pytest.raises(DataError, match=message):
        reward_vector(rewards, unscorable="refuse")


def test_only_nan_can_be_excluded():
    np.testing.assert_array_equal(reward_vector([1, None, np.nan], unscorable="exclude"), [1.0, np.nan, np.nan])
    with pytest.raises(DataError, match=r"rewards: 1 of 2 values are not finite or NaN, the first: row 1 is -inf$"):
        reward_vector([np.nan, -np.inf], unscorable="exclude")
    with pytest.raises(UsageError, match="unscorable: expected 'refuse' or 'exclude', got 'drop'"):
        reward_vector([1.0], unscorable="drop")


def test_tensors_are_arrays_too():
    torch = pytest.importorskip("torch")
    np.testing.assert_array_equal(finite_vector("rewards", torch.tensor([1.0, 2.0])), [1.0, 2.0])
    with pytest.raises(DataError, match="rewards: expected a flat array, got Tensor"):
        finite_vector("rewards", torch.tensor([1.0], requires_grad=True))


@pytest.mark.parametrize("value", [np.nan, np.inf, None, "0.5", [0.5], True])
def test_a_threshold_is_one_finite_number(value):
    with pytest.raises(DataError, match="min_correct: expected one finite number, got "):
        finite_number("min_correct", value)
