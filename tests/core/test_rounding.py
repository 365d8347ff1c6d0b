import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpo_rl.core.rounding import as_decimals, under


def test_under_leaves_rounding_out():
    mean = (0.1 + 0.7) / 2  # 0.39999999999999997
    assert mean < 0.4
    assert under(np.array([mean, 0.39, 0.4, np.nan]), 0.4).tolist() == [False, True, False, False]


@given(st.integers(-9_999_999, 9_999_999))
def test_a_decimal_of_six_places_survives_float32(millionths):
    # float32 has 24 bits: under 10 it tells millionths apart, its step there being 2^-20
    value = millionths / 1e6
    assert as_decimals(np.float64(np.float32(value))) == pytest.approx(value, abs=1e-12)


def test_other_values_stay_as_they_are():
    third, large = np.float64(np.float32(1 / 3)), np.float64(np.float32(12345.678))
    np.testing.assert_array_equal(as_decimals(np.array([third, np.nan, 0.0])), [third, np.nan, 0.0])
    assert np.float32(as_decimals(large)) == np.float32(large)


def test_the_argument_is_not_written_to():
    values = np.float64(np.float32([0.7, 0.1]))
    before = values.copy()
    as_decimals(values)
    np.testing.assert_array_equal(values, before)
