"""Raw values of a log turned into columns of numbers and of keys, without turning what is unknown into a number."""

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

NO_FIELD: Any = msgspec.UNSET
"""Value of a field that a row does not have, to tell it from null."""

REASONS = ("", "null", "NaN", "infinite", "text", "no field", "not a number", "beyond 1e100")
"""Why a value is no usable number, by code; 0 is a number. "not a number" is a list or an object."""

LARGEST = 1e100
"""Numbers beyond are no measurement, and their squares and sums would be infinite."""

_NULL, _NAN, _INFINITE, _TEXT, _NO_FIELD, _OTHER, _TOO_LARGE = range(1, len(REASONS))
_LONG_TEXT = 64

Values = Sequence[Any]
"""Values of one column in one block of rows: a list, or a pyarrow array."""


class NumberColumn:
    """A column read as float64, block by block, with the reason for each value that is none."""

    def __init__(self) -> None:
        self.saw_bools = False
        self._numbers: list[NDArray[np.float64]] = []
        self._why: list[NDArray[np.uint8]] = []

    def extend(self, values: Values) -> None:
        """Append the values of a block."""
        numbers, why, bools = _numbers_of_list(values) if isinstance(values, list) else _numbers_of_arrow(values)
        self.saw_bools |= bools
        self._numbers.append(numbers)
        self._why.append(why)

    def finish(self) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
        """Numbers, NaN where there is none, and the code of the reason. Each of shape [N]."""
        numbers_N = _joined(self._numbers, np.float64)
        why_N = _joined(self._why, np.uint8)
        self._numbers, self._why = [], []
        return numbers_N, why_N


class KeyColumn:
    """A column read as keys: equal values get equal codes. Messages and other lists are keys too."""

    def __init__(self) -> None:
        self._codes = _Codes()
        self._blocks: list[tuple[bool, NDArray[np.int64]]] = []  # (plain integers?, values or codes)

    def extend(self, values: Values) -> None:
        """Append the values of a block."""
        if not isinstance(values, list):
            self._extend_arrow(values)
            return
        types = set(map(type, values))
        if types == {int}:
            self._extend_integers(values)
        elif types <= {str, type(None)}:  # a group's rows share their keys: each is looked at once
            distinct = list(dict.fromkeys(values))
            code_of = dict(zip(distinct, self._encode(distinct).tolist(), strict=True))
            self._blocks.append((False, np.fromiter(map(code_of.__getitem__, values), np.int64, len(values))))
        else:
            self._append_codes(values)

    def finish(self) -> tuple[NDArray[np.int64], NDArray[np.int64] | list[Any]]:
        """Codes from 0 (-1 where there is no key), shape [N], and the key of each code, long ones as a digest."""
        blocks, self._blocks = self._blocks, []
        if all(plain for plain, _ in blocks):
            return factorize(_joined([block for _, block in blocks], np.int64))
        joined = []
        for plain, block in blocks:
            if plain:
                index, distinct = factorize(block)
                block = np.array([self._codes[key] for key in distinct.tolist()], dtype=np.int64)[index]
            joined.append(block)
        keys = list(self._codes)
        return _joined(joined, np.int64), keys

    def _extend_integers(self, values: list[int]) -> None:
        try:
            self._blocks.append((True, np.array(values, dtype=np.int64)))
        except OverflowError:
            self._append_codes(values)

    def _append_codes(self, values: Iterable[Any]) -> None:
        self._blocks.append((False, self._encode(values)))

    def _encode(self, values: Iterable[Any]) -> NDArray[np.int64]:
        return np.fromiter(map(self._codes.__getitem__, map(_key, values)), dtype=np.int64)

    def _extend_arrow(self, values: Any) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        if pa.types.is_integer(values.type) and not values.null_count:
            self._blocks.append((True, values.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)))
            return
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            values = values.dictionary_encode()
        if pa.types.is_dictionary(values.type):
            code_of = np.append(self._encode(values.dictionary.to_pylist()), -1)
            index = pc.fill_null(values.indices, len(code_of) - 1).to_numpy(zero_copy_only=False)
            self._blocks.append((False, code_of[index]))
            return
        self._append_codes(values.to_pylist())


class _Codes(dict[Any, int]):
    """Numbers keys in the order they come."""

    def __missing__(self, key: Any) -> int:
        if key is None:
            return -1
        self[key] = code = len(self)
        return code


def _key(value: Any) -> Any:
    """A small hashable stand-in for a value; None for a missing one."""
    if value is None or value is NO_FIELD or value != value:
        return None
    if isinstance(value, (list, dict)):
        value = canonical_json(value)
    if isinstance(value, str) and len(value) > _LONG_TEXT:
        return hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return value


def as_list(values: Values) -> list[Any]:
    """The values as Python objects."""
    if isinstance(values, list):
        return values
    found: list[Any] = values.to_pylist()  # type: ignore[attr-defined]  # an Arrow array
    return found


def canonical_json(value: Any) -> str:
    """A list or object as text, equal for equal content."""
    try:
        return json.dumps(value, sort_keys=True, default=str)
    except (RecursionError, TypeError, ValueError):
        return "too deep to read"


def _numbers_of_list(values: list[Any]) -> tuple[NDArray[np.float64], NDArray[np.uint8], bool]:
    types = set(map(type, values))
    if types <= {float, int}:  # not bool, whose type is bool; not str, which numpy would parse
        try:
            numbers = np.array(values, dtype=np.float64)
        except OverflowError:
            pass
        else:
            return numbers, *_checked(numbers), False
    pairs = [_number(value) for value in values]
    numbers = np.array([number for number, _ in pairs], dtype=np.float64)
    return numbers, np.array([why for _, why in pairs], dtype=np.uint8), bool in types


def _checked(numbers: NDArray[np.float64]) -> tuple[NDArray[np.uint8]]:
    why = np.zeros(len(numbers), dtype=np.uint8)
    if not len(numbers) or (numbers.max() <= LARGEST and numbers.min() >= -LARGEST):  # NaN is neither
        return (why,)
    usable = np.abs(numbers) <= LARGEST
    if not usable.all():
        why[~usable] = _TOO_LARGE
        why[np.isnan(numbers)] = _NAN
        why[np.isinf(numbers)] = _INFINITE
        numbers[~usable] = np.nan
    return (why,)


def _number(value: Any) -> tuple[float, int]:
    if isinstance(value, (bool, int, float)):
        try:
            number = float(value)
        except OverflowError:
            return math.nan, _TOO_LARGE
        if abs(number) <= LARGEST:
            return number, 0
        return math.nan, _NAN if math.isnan(number) else _INFINITE if math.isinf(number) else _TOO_LARGE
    if value is None:
        return math.nan, _NULL
    if value is NO_FIELD:
        return math.nan, _NO_FIELD
    return math.nan, _TEXT if isinstance(value, str) else _OTHER


def _numbers_of_arrow(values: Any) -> tuple[NDArray[np.float64], NDArray[np.uint8], bool]:
    import pyarrow as pa

    kind = values.type
    if pa.types.is_dictionary(kind):
        values = values.dictionary_decode()
        kind = values.type
    if pa.types.is_decimal(kind) or pa.types.is_float16(kind):
        values = values.cast(pa.float64())
        kind = values.type
    bools = pa.types.is_boolean(kind)
    if bools:
        values = values.cast(pa.uint8())
        kind = values.type
    is_null = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        if is_null is not None and pa.types.is_integer(kind):
            values = values.cast(pa.float64(), safe=False)
        numbers = values.to_numpy(zero_copy_only=False).astype(np.float64)
        (why,) = _checked(numbers)
    else:
        numbers = np.full(len(values), np.nan)
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        why = np.full(len(values), _TEXT if is_text else _NULL if pa.types.is_null(kind) else _OTHER, dtype=np.uint8)
    if is_null is not None:
        why[is_null] = _NULL
    return numbers, why, bools


def factorize(values_N: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Codes of integers in order of first appearance, and the integer of each code.

    Rows of a group mostly stand together, so only the first of each run is looked at.
    """
    if not len(values_N):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    starts = np.flatnonzero(np.concatenate([[True], values_N[1:] != values_N[:-1]]))
    heads = values_N[starts]
    if (heads[1:] > heads[:-1]).all():
        codes, distinct = np.arange(len(heads)), heads
    else:
        codes, distinct = _factorize_any(heads)
    return np.repeat(codes, np.diff(starts, append=len(values_N))), distinct


def _factorize_any(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    low, high = int(values.min()), int(values.max())
    if high - low < 4 * len(values) + 1024:
        first_at = np.empty(high - low + 1, dtype=np.int64)
        first_at[values[::-1] - low] = np.arange(len(values))[::-1]  # the last assignment stays: the first appearance
        is_first = first_at[values - low] == np.arange(len(values))
        distinct = values[is_first]
        first_at[distinct - low] = np.arange(len(distinct))
        return first_at[values - low], distinct
    # as np.unique does, but with a stable sort throughout: a third of the time where values hardly ever fall
    order = np.argsort(values, kind="stable")
    in_order = values[order]
    new = np.concatenate([[True], in_order[1:] != in_order[:-1]])
    first = order[new]  # first appearance of each distinct value, by value
    by_appearance = np.argsort(first, kind="stable")
    rank = np.empty_like(by_appearance)
    rank[by_appearance] = np.arange(len(by_appearance))
    codes = np.empty_like(order)
    codes[order] = rank[np.cumsum(new) - 1]
    return codes, in_order[new][by_appearance]


def _joined(blocks: list[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    if len(blocks) == 1:
        return blocks[0]
    return np.concatenate(blocks) if blocks else np.zeros(0, dtype=dtype)
