"""Which sizes of groups look as if groups had been told wrongly."""

import numpy as np
import pytest

from corpo_rl.rollouts.sizes import size_warnings

MERGED = "a prompt that was sampled {} times may have been merged"


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([8] * 10, []),
        ([1] * 5, ["every group has one rollout, so nothing is compared with anything; check --group-columns"]),
        ([8] * 7 + [16] * 3, []),  # 70 % have the usual size: no size is odd
        ([8] * 8 + [5] * 2, []),  # a size that is no multiple says nothing about the grouping
        ([8] * 8 + [1] * 2, ["2 of 10 groups have 1 rollout, where 8 are usual: nothing to compare"]),
        ([8] * 18 + [16, 24], [
            f"1 of 20 groups has 16 rollouts, 2 times the usual 8: {MERGED.format(2)}",
            f"1 of 20 groups has 24 rollouts, 3 times the usual 8: {MERGED.format(3)}",
        ]),
        ([1] * 9 + [2], []),
    ],
)  # fmt: skip
def test_sizes(sizes, expected):
    assert size_warnings(np.array(sizes)) == expected
