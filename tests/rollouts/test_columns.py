"""Values as numbers and keys: nothing unknown becomes a number, equal keys get equal codes wherever they stand."""

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpo_rl.rollouts.columns import NO_FIELD, REASONS, KeyColumn, NumberColumn, canonical_json, factorize

NAN = math.nan


def numbers_of(*blocks):
    column = NumberColumn()
    for block in blocks:
        column.extend(block)
    values_N, why_N = column.finish()
    return values_N.tolist(), [REASONS[code] for code in why_N], column.saw_bools


def codes_of(*blocks):
    column = KeyColumn()
    for block in blocks:
        column.extend(block)
    codes_N, names = column.finish()
    return codes_N.tolist(), names


@pytest.mark.parametrize(
    ("values", "expected", "reasons"),
    [
        ([0, -1.5, 10**17], [0.0, -1.5, 1e17], ["", "", ""]),
        ([1.0, NAN, math.inf, -math.inf], [1.0, NAN, NAN, NAN], ["", "NaN", "infinite", "infinite"]),
        ([1, None, "0.5", [1], {}, NO_FIELD], [1.0] + [NAN] * 5,
         ["", "null", "text", "not a number", "not a number", "no field"]),
        ([10**400, -(10**400), 1e101, 10**100], [NAN, NAN, NAN, 1e100],
         ["beyond 1e100", "beyond 1e100", "beyond 1e100", ""]),
        ([None, NAN, 10**400], [NAN] * 3, ["null", "NaN", "beyond 1e100"]),
        ([], [], []),
    ],
)  # fmt: skip
def test_numbers_of_a_list(values, expected, reasons):
    found, why, bools = numbers_of(values)
    np.testing.assert_array_equal(found, expected)
    assert why == reasons
    assert not bools


def test_bools_are_numbers_and_said():
    assert numbers_of([True, False, 0.5]) == ([1.0, 0.0, 0.5], ["", "", ""], True)
    assert numbers_of(pa.array([True, False])) == ([1.0, 0.0], ["", ""], True)
    assert numbers_of([1], [True])[2]


@pytest.mark.parametrize(
    ("array", "expected", "reasons"),
    [
        (pa.array([0.5, None, NAN, math.inf]), [0.5, NAN, NAN, NAN], ["", "null", "NaN", "infinite"]),
        (pa.array([1, None, 2**60], pa.int64()), [1.0, NAN, 2.0**60], ["", "null", ""]),
        (pa.array([7, 8], pa.uint8()), [7.0, 8.0], ["", ""]),
        (pa.array([2**64 - 1], pa.uint64()), [2.0**64], [""]),
        (pa.array([0.5, 0.25], pa.float32()), [0.5, 0.25], ["", ""]),
        (pa.array([np.float16(0.5), None], pa.float16()), [0.5, NAN], ["", "null"]),
        (pa.array([Decimal("1.25"), None]), [1.25, NAN], ["", "null"]),
        (pa.array([True, None]), [1.0, NAN], ["", "null"]),
        (pa.array(["a", None]), [NAN, NAN], ["text", "null"]),
        (pa.array(["a", None], pa.large_string()), [NAN, NAN], ["text", "null"]),
        (pa.array([None, None]), [NAN, NAN], ["null", "null"]),
        (pa.array([[1.0], None]), [NAN, NAN], ["not a number", "null"]),
        (pa.array([0.5, 0.5, None]).dictionary_encode(), [0.5, 0.5, NAN], ["", "", "null"]),
        (pa.array([1e200, 1.0]), [NAN, 1.0], ["beyond 1e100", ""]),
    ],
)
def test_numbers_of_arrow(array, expected, reasons):
    found, why, _ = numbers_of(array)
    np.testing.assert_array_equal(found, expected)
    assert why == reasons


def test_reading_leaves_the_arrays_as_they_are():
    array = pa.array([1.0, NAN, math.inf])
    numbers_of(array)
    assert array[2].as_py() == math.inf


def test_keys_are_equal_over_blocks_and_kinds():
    codes, names = codes_of([3, 3, 1], ["3", 1, None], pa.array([1, 3]), pa.array(["3", None, "x"]))
    keys = [3, 3, 1, "3", 1, None, 1, 3, "3", None, "x"]
    assert [None if code < 0 else names[code] for code in codes] == keys
    assert len(names) == len(set(map(repr, names)))


def test_integers_alone_are_numbered_by_first_appearance():
    codes, names = codes_of([10**9, -5], [7, 10**9])
    assert codes == [0, 1, 2, 0]
    assert list(names) == [10**9, -5, 7]
    assert codes_of([10**30, 1], [10**30])[0] == [0, 1, 0]


def test_messages_are_keys_whatever_the_order_of_their_fields():
    one = [{"role": "user", "content": "x"}]
    other = [{"content": "x", "role": "user"}]
    codes, _ = codes_of([one, other, [{"role": "user", "content": "y"}]])
    assert codes == [0, 0, 1]
    assert codes_of([one], pa.array([one]))[0] == [0, 0]


def test_long_texts_are_told_apart_and_not_kept():
    codes, names = codes_of(["a" * 1000, "a" * 1000 + "b", "a" * 1000])
    assert codes == [0, 1, 0]
    assert all(len(name) == 16 for name in names)


def test_no_key():
    codes, names = codes_of([None, NAN, NO_FIELD, ""])
    assert codes == [-1, -1, -1, 0]
    assert names == [""]
    assert codes_of()[0] == []


def test_a_key_too_deep_to_read():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert canonical_json(deep) == "too deep to read"
    assert codes_of([deep, "a"])[0] == [0, 1]


@given(st.lists(st.integers(-(2**62), 2**62) | st.integers(-3, 3), max_size=60))
def test_factorize_is_first_appearance(values):
    codes, distinct = factorize(np.array(values, dtype=np.int64))
    order = list(dict.fromkeys(values))
    assert distinct.tolist() == order
    assert codes.tolist() == [order.index(value) for value in values]
