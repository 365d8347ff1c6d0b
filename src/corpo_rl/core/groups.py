"""Which rollouts belong together, their means and spreads, and the checks shared by every estimator."""

from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corpo_rl.core.rounding import ROUNDING
from corpo_rl.errors import DataError, UsageError

_Scalar = TypeVar("_Scalar", bound=np.generic)

Unscorable = Literal["refuse", "exclude"]
"""What to do with a reward of NaN, a rollout nobody could score: refuse the call, or leave the rollout out."""


@dataclass(frozen=True)
class Groups:
    """Rollouts by group. Groups are numbered 0 to G-1 in no promised order, and none is empty.

    Every statistic leaves values of NaN out, and is NaN for a group with nothing left.
    """

    index_N: NDArray[np.intp]  # noqa: N815
    """Group of each rollout, 0 to G-1. Shape [N]."""
    size_G: NDArray[np.intp]  # noqa: N815
    """Rollouts in each group, unscorable ones included. Shape [G]."""

    def per_rollout(self, values_G: NDArray[_Scalar]) -> NDArray[_Scalar]:
        """The value of each rollout's group. Shape [N]."""
        return values_G.take(self.index_N)  # half the time of values_G[index_N]

    def count(self, values_N: NDArray[np.float64]) -> NDArray[np.intp]:
        """Values of each group that are not NaN. Shape [G]."""
        return self._known(values_N)[2]

    def mean(self, values_N: NDArray[np.float64]) -> NDArray[np.float64]:
        """Mean of each group, in the unit of the values. Shape [G]. Equal values have exactly that value as mean."""
        index_N, values_N, count_G = self._known(values_N)
        # Summed as distances from a member of the group: no rounding where all are equal, less of it elsewhere.
        origin_G = np.full(len(self.size_G), np.nan)
        origin_G[index_N] = values_N
        distance_N = origin_G.take(index_N)
        np.subtract(values_N, distance_N, out=distance_N)  # in place: a fresh array costs more than the subtraction
        distance_G = np.bincount(index_N, weights=distance_N, minlength=len(self.size_G))
        return origin_G + distance_G / np.maximum(count_G, 1)

    def mean_of_others(self, values_N: NDArray[np.float64]) -> NDArray[np.float64]:
        """For each rollout, the mean of the other rollouts of its group. Shape [N]; NaN where there is no other.

        (sum - v) / (n - 1), written as mean + (mean - v) / (n - 1), which does not round equal values.
        """
        mean_N = self.per_rollout(self.mean(values_N))
        n_others_N = self.per_rollout(self.count(values_N) - 1)
        return np.where(n_others_N > 0, mean_N + (mean_N - values_N) / np.maximum(n_others_N, 1), np.nan)

    def std(self, values_N: NDArray[np.float64]) -> NDArray[np.float64]:
        """Standard deviation of each group, over n - 1. Shape [G]; NaN for a group with fewer than two values."""
        mean_N = self.per_rollout(self.mean(values_N))
        index_N, squares_N, count_G = self._known((values_N - mean_N) ** 2)
        sum_G = np.bincount(index_N, weights=squares_N, minlength=len(self.size_G))
        return np.where(count_G > 1, np.sqrt(sum_G / np.maximum(count_G - 1, 1)), np.nan)

    def all_equal(self, values_N: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether the values of each group are equal up to rounding. Shape [G]; True for one value, False for none.

        Equal means: max - min <= 1e-9 of the largest magnitude in the group.
        """
        index_N, values_N, count_G = self._known(values_N)
        low_G = np.full(len(self.size_G), np.inf)
        high_G = np.full(len(self.size_G), -np.inf)
        np.minimum.at(low_G, index_N, values_N)
        np.maximum.at(high_G, index_N, values_N)
        equal_G: NDArray[np.bool_] = high_G - low_G <= ROUNDING * np.maximum(np.abs(low_G), np.abs(high_G))
        return equal_G & (count_G > 0)

    def any(self, flag_N: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether any rollout of each group has the flag. Shape [G]."""
        any_G = np.zeros(len(self.size_G), dtype=np.bool_)
        any_G[self.index_N[flag_N]] = True
        return any_G

    def _known(self, values_N: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.intp]]:
        unknown_N = np.isnan(values_N)
        if not unknown_N.any():
            return self.index_N, values_N, self.size_G
        index_N = self.index_N[~unknown_N]
        return index_N, values_N[~unknown_N], np.bincount(index_N, minlength=len(self.size_G))


def index_groups(group_ids: ArrayLike, *, n: int) -> Groups:
    """Number the groups of n rollouts.

    Args:
        group_ids: Prompt each rollout answers, integers or strings, in any row order. Shape [n].
        n: Number of rollouts.

    Raises:
        DataError: The shape is not [n], or the ids are neither all integers nor all strings.

    Example:
        >>> index_groups(["b", "a", "b"], n=3)
        Groups(index_N=array([0, 1, 0]), size_G=array([2, 1]))
    """
    ids_N = _array("group_ids", group_ids)
    if ids_N.shape != (n,):
        raise DataError(f"group_ids: expected shape [{n}], as rewards, got {list(ids_N.shape)}")
    if n == 0:
        return Groups(index_N=np.zeros(0, dtype=np.intp), size_G=np.zeros(0, dtype=np.intp))
    if ids_N.dtype.kind in "iu":
        return _index_integers(ids_N)
    # NumPy turns the list [1, "1"] into two equal strings, so a list is looked at as it was given.
    return _index_names(list(group_ids) if isinstance(group_ids, list | tuple) else ids_N.tolist())


def reward_vector(rewards: ArrayLike, *, unscorable: Unscorable) -> NDArray[np.float64]:
    """Rewards as float64, checked. Shape [N]; NaN only where `unscorable` is "exclude".

    Raises:
        DataError: The rewards are not a row of numbers, one is infinite, or one is NaN and `unscorable` is "refuse".
        UsageError: `unscorable` is neither "refuse" nor "exclude".
    """
    if unscorable not in ("refuse", "exclude"):
        raise UsageError(f"unscorable: expected 'refuse' or 'exclude', got {unscorable!r}")
    rewards_N = vector("rewards", rewards)
    if unscorable == "exclude":
        _refuse("rewards", rewards_N, bad_N=np.isinf(rewards_N), expected="finite or NaN", cure="")
    else:
        cure = "; pass unscorable='exclude' to leave NaN rows out"
        _refuse("rewards", rewards_N, bad_N=~np.isfinite(rewards_N), expected="finite", cure=cure)
    return rewards_N


def finite_vector(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Values as float64. Shape [N]. Raises DataError unless they are a row of finite numbers."""
    values_N = vector(name, values)
    _refuse(name, values_N, bad_N=~np.isfinite(values_N), expected="finite", cure="")
    return values_N


def finite_number(name: str, value: float) -> float:
    """The value as float. Raises DataError unless it is one finite number."""
    number = _array(name, value)
    if number.shape != () or number.dtype.kind not in "iuf" or not np.isfinite(number):
        raise DataError(f"{name}: expected one finite number, got {value!r}")
    return float(number)


def vector(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Values as float64. Shape [N]; None becomes NaN. Raises DataError unless they are a row of numbers."""
    array = _array(name, values)
    if array.ndim != 1:
        raise DataError(f"{name}: expected shape [N], got {list(array.shape)}")
    if array.dtype.kind == "O":
        for row, value in enumerate(array):
            if not (value is None or isinstance(value, int | float | np.number)):
                raise DataError(f"{name}: expected numbers, row {row} is {value!r}")
    elif array.dtype.kind not in "biuf":
        raise DataError(f"{name}: expected numbers, got {array.dtype.name}")
    return array.astype(np.float64, copy=False)


def same_length(name: str, values_N: NDArray[np.float64], *, n: int, as_in: str) -> None:
    """Raise DataError unless there are n values, as in the argument of that name."""
    if len(values_N) != n:
        raise DataError(f"{name}: expected shape [{n}], as {as_in}, got [{len(values_N)}]")


def _array(name: str, values: ArrayLike) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:  # a ragged list, or a tensor that is not plain CPU memory
        raise DataError(f"{name}: expected a flat array, got {type(values).__name__} ({error})") from error


def _refuse(name: str, values_N: NDArray[np.float64], *, bad_N: NDArray[np.bool_], expected: str, cure: str) -> None:
    if bad_N.any():
        row = int(np.argmax(bad_N))
        raise DataError(
            f"{name}: {np.count_nonzero(bad_N)} of {len(values_N)} values are not {expected}, "
            f"the first: row {row} is {values_N[row]}{cure}"
        )


def _index_integers(ids_N: NDArray[np.integer]) -> Groups:
    low, high = int(ids_N.min()), int(ids_N.max())
    if high - low > 4 * len(ids_N):  # a table over the whole range would waste memory: sort instead
        _, sorted_N, size_G = np.unique(ids_N, return_inverse=True, return_counts=True)
        return Groups(index_N=sorted_N, size_G=size_G)
    if ids_N.dtype.kind == "i":  # int8 cannot hold 127 - (-128)
        ids_N = ids_N.astype(np.int64, copy=False)
    index_N = (ids_N - ids_N.dtype.type(low) if low else ids_N).astype(np.intp, copy=False)
    size_G = np.bincount(index_N)
    used_G = size_G > 0
    if used_G.all():
        return Groups(index_N=index_N, size_G=size_G)
    number_G = np.cumsum(used_G) - 1
    return Groups(index_N=number_G[index_N], size_G=size_G[used_G])


def _index_names(ids: list[object]) -> Groups:
    kinds = {_kind(kind) for kind in set(map(type, ids))}
    if kinds not in ({"integer"}, {"string"}):
        raise DataError(f"group_ids: expected all integers or all strings, got {', '.join(sorted(kinds))}")
    # A dictionary numbers a million strings several times faster than sorting them.
    number: dict[object, int] = {}
    index_N = np.fromiter((number.setdefault(name, len(number)) for name in ids), dtype=np.intp, count=len(ids))
    return Groups(index_N=index_N, size_G=np.bincount(index_N))


def _kind(kind: type) -> str:
    if issubclass(kind, str):
        return "string"
    return "integer" if issubclass(kind, int | np.integer) and kind is not bool else kind.__name__
