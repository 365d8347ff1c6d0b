"""Values on their way between two processes that do not trust each other."""

import contextlib
import json
import math
import os
import threading
import time
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpo_rl.sandbox.inside.wire import Closed, Malformed, TooLong, Unsendable, decode, encode, receive, send

PLAIN = (
    type(None), bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, deque, range,
    Fraction, Decimal,
)  # fmt: skip

whole = st.integers() | st.integers(-(2**200), 2**200) | st.sampled_from([2**53, -(2**53), 2**53 - 1, 1 - 2**53])
hashable_scalars = (
    st.none() | st.booleans() | whole | st.floats() | st.complex_numbers() | st.text() | st.binary()
    | st.fractions() | st.decimals(allow_nan=False) | st.builds(range, *[st.integers(-99, 99)] * 2, st.integers(1, 9))
)  # fmt: skip
hashables = st.recursive(hashable_scalars, lambda one: st.lists(one).map(tuple) | st.frozensets(one), max_leaves=8)
values = st.recursive(
    hashable_scalars | st.binary().map(bytearray) | st.decimals(),
    lambda one: (
        st.lists(one) | st.lists(one).map(tuple) | st.dictionaries(hashables, one) | st.sets(hashables)
        | st.lists(one).map(deque) | st.frozensets(hashables)
    ),
    max_leaves=20,
)  # fmt: skip
surrogates = st.text(st.characters(categories=["Cs", "Ll"]))
json_values = st.recursive(
    st.none() | st.booleans() | whole | st.floats() | st.text() | surrogates | st.sampled_from("iltdszqfbycrnm"),
    lambda one: st.lists(one) | st.dictionaries(st.text(), one)
    | st.builds(lambda tag, rest: [tag, *rest], st.sampled_from("iltdszqfbycrnm"), st.lists(one)),
    max_leaves=30,
)  # fmt: skip


def soon(seconds=0.1):
    return time.monotonic() + seconds


def same(one, other):
    """Whether two values are equal, of the same types all through, NaN included."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple, deque)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        # dicts keep their order
        return same(list(one.items()), list(other.items()))
    if isinstance(one, (set, frozenset)):
        return len(one) == len(other) and Counter(map(told, one)) == Counter(map(told, other))
    return told(one) == told(other)


def told(value):
    """A text that tells a value of a plain type from every other, -0.0 and NaN included; sets have no order."""
    if isinstance(value, (set, frozenset)):
        return f"{type(value).__name__} {sorted(map(told, value))}"
    if isinstance(value, tuple):
        return f"tuple {list(map(told, value))}"
    return f"{type(value).__name__} {value!r}"


def types_in(value):
    """Types of a value and of all that it holds."""
    found = {type(value)}
    if isinstance(value, dict):
        for key, one in value.items():
            found |= types_in(key) | types_in(one)
    elif isinstance(value, (list, tuple, set, frozenset, deque)):
        for one in value:
            found |= types_in(one)
    return found


@given(values)
@settings(max_examples=150, deadline=None)
def test_values_arrive_as_they_were(value):
    assert same(decode(json.loads(json.dumps(encode(value)))), value)


@given(surrogates)
@settings(max_examples=50, deadline=None)
def test_texts_that_utf8_cannot_hold_arrive(text):
    reading, writing = os.pipe()
    try:
        send(writing, {"value": encode(text)}, deadline=soon(5))
        assert decode(receive(reading, most=1 << 20, deadline=soon(5))["value"]) == text
    finally:
        os.close(reading)
        os.close(writing)


@given(json_values)
@settings(max_examples=250, deadline=None)
def test_whatever_arrives_is_plain_or_malformed(value):
    try:
        arrived = decode(value)
    except Malformed:
        return
    assert types_in(arrived) <= set(PLAIN)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (type("Text", (str,), {"__eq__": lambda *a: True, "__str__": lambda self: "lie"})("x"), "x"),
        (type("Number", (int,), {"__int__": lambda self: 5, "__index__": lambda self: 5, "__add__": None})(3), 3),
        (type("Real", (float,), {"hex": lambda self: "0x5p0", "__float__": lambda self: 5.0})(3.0), 3.0),
        (type("List", (list,), {"__iter__": lambda self: iter([5]), "__len__": lambda self: 9})([1, 2]), [1, 2]),
        (type("Pair", (tuple,), {"__iter__": lambda self: iter([5])})((1, 2)), (1, 2)),
        (type("Dict", (dict,), {"items": lambda self: [(5, 5)], "__iter__": None})({1: 2}), {1: 2}),
        (type("Set", (set,), {"__iter__": lambda self: iter([5])})({1}), {1}),
        (IntEnum("Colour", ["RED"]).RED, 1),
        (Counter("aab"), {"a": 2, "b": 1}),
        (OrderedDict(a=1), {"a": 1}),
        (defaultdict(list, a=[1]), {"a": [1]}),
        (namedtuple("Point", "x y")(1, 2), (1, 2)),
        (2**53, 2**53),
    ],
)
def test_subclasses_arrive_as_what_they_are_beneath(value, plain):
    arrived = decode(json.loads(json.dumps(encode(value))))
    assert same(arrived, plain)


@pytest.mark.parametrize(
    "value", [object(), len, type, iter([]), (x for x in ()), {}.keys(), ..., memoryview(b""), json]
)
def test_other_objects_are_not_sent(value):
    with pytest.raises(Unsendable):
        encode([1, {"a": (value,)}])


def test_deep_values_raise_instead_of_ending_the_process():
    nested = []
    for _ in range(10**5):
        nested = [nested]
    with pytest.raises(RecursionError):
        encode(nested)
    arrived = "l"
    for _ in range(10**5):
        arrived = ["l", arrived]
    with pytest.raises(RecursionError):
        decode(arrived)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0.5, "plain or a tagged list"),
        ({"a": 1}, "plain or a tagged list"),
        ([], "plain or a tagged list"),
        (["x", 1], "unknown tag"),
        ([5, 1], "unknown tag"),
        ([["l"], 1], "unhashable"),
        (["n", "1e99999999999", None], "an integer of no more than 131,072 bits"),
        (["n", True, 2], "an integer of no more"),
        (["n", ["i", "f" * 40000], 1], "an integer of no more"),
        (["m", "1e99999999999999999999"], "tag 'm'"),
        (["d", [["l"], 1]], "unhashable"),
    ],
)
def test_what_is_no_value_is_malformed(value, message):
    with pytest.raises(Malformed, match=message):
        decode(value)


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    yield reading, writing
    for end in (reading, writing):
        with contextlib.suppress(OSError):
            os.close(end)


@given(json_values.filter(lambda value: not isinstance(value, float) or math.isfinite(value)))
@settings(max_examples=50, deadline=None)
def test_messages_arrive(value):
    reading, writing = os.pipe()
    try:
        send(writing, {"value": value}, deadline=soon(5))
        arrived = receive(reading, most=1 << 20, deadline=soon(5))
    finally:
        os.close(reading)
        os.close(writing)
    assert json.dumps(arrived) == json.dumps({"value": value})


def test_a_message_longer_than_the_pipe_arrives(pipe):
    reading, writing = pipe
    message = {"text": "x" * (3 << 20)}
    sender = threading.Thread(target=send, args=(writing, message))
    sender.start()
    assert receive(reading, most=1 << 23, deadline=soon(10)) == message
    sender.join()


@pytest.mark.parametrize(
    ("written", "error"),
    [
        (b"", TimeoutError),
        (b"\0\0", TimeoutError),
        (b"\0\0\0\5{}", TimeoutError),
        (b"\0\0\0\x65", TooLong),
        (b"\xff\xff\xff\xff", TooLong),
        (b"\0\0\0\0", Malformed),
        (b"\0\0\0\4pass", Malformed),
        (b"\0\0\0\2\xff\xff", Malformed),
        (b"\0\0\0\x64" + b"[" * 100, Malformed),
    ],
)
def test_frames_that_are_none(pipe, written, error):
    os.write(pipe[1], written)
    with pytest.raises(error):
        receive(pipe[0], most=100, deadline=soon())


def test_deep_json_is_malformed(pipe):
    os.write(pipe[1], (50000).to_bytes(4, "big") + b"[" * 50000)
    with pytest.raises(Malformed):
        receive(pipe[0], most=1 << 20, deadline=soon(5))


def test_the_other_end_is_gone():
    reading, writing = os.pipe()
    os.close(writing)
    with pytest.raises(Closed):
        receive(reading, most=100, deadline=soon())
    with pytest.raises(Closed):
        receive(reading, most=100, deadline=None)
    os.close(reading)
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(Closed):
        send(writing, {"a": 1})
    os.close(writing)


def test_a_message_that_nobody_takes_is_given_up(pipe):
    os.set_blocking(pipe[1], False)
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        send(pipe[1], {"text": "x" * (1 << 20)}, deadline=soon(0.2))
    assert 0.15 < time.monotonic() - started < 2
