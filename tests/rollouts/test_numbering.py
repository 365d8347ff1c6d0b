"""Numbers of keys and groups in order of first appearance, against a dict that counts along."""

import numpy as np
import pytest

from corpo_rl.rollouts.columns import factorize
from corpo_rl.rollouts.load import first_rows, step_codes
from corpo_rl.rollouts.read import _numbered


def by_dict(keys):
    numbers = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys], list(numbers)


@pytest.mark.parametrize("spread", [1, 5, 10**12])
@pytest.mark.parametrize("rising", [False, True])
def test_codes_of_integers(spread, rising):
    rng = np.random.default_rng(spread)
    values = np.repeat(rng.integers(-20, 20, size=300) * spread, rng.integers(1, 4, size=300))
    values = np.sort(values) if rising else values
    codes, distinct = factorize(values)
    expected, keys = by_dict(values.tolist())
    assert codes.tolist() == expected
    assert distinct.tolist() == keys


@pytest.mark.parametrize("with_step", [False, True])
def test_groups_of_several_keys(with_step):
    rng = np.random.default_rng(1)
    one, other = rng.integers(0, 4, size=400), rng.integers(0, 5, size=400)
    step = np.where(rng.random(400) < 0.1, np.nan, rng.integers(0, 3, size=400) / 2) if with_step else None
    steps = [0] * 400 if step is None else [None if np.isnan(value) else value for value in step.tolist()]
    groups = _numbered(step, [one, other])
    expected, keys = by_dict(zip(steps, one.tolist(), other.tolist(), strict=True))
    assert groups.tolist() == expected
    assert first_rows(groups).tolist() == [expected.index(number) for number in range(len(keys))]


@pytest.mark.parametrize("values", [[3.0, 1.0, 3.0, np.nan], [0.5, 0.25, 0.5, np.nan], [1e300, -1e300, 1e300, np.nan]])
def test_codes_of_steps(values):
    codes = step_codes(np.array(values))
    assert codes[0] == codes[2]
    assert len({codes[0], codes[1], codes[3]}) == 3
    assert codes[3] == -1
