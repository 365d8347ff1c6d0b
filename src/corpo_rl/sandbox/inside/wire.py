"""How values travel between a candidate and the tests: JSON with tags, in frames. Never pickle: the sender is hostile.

Runs inside the sandbox on the system's Python, so it imports nothing but the standard library. A value that arrives is
built of the plain types below and nothing else, so that comparing it runs none of the candidate's code.
"""

import json
import os
import select
import time
from collections import deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

_SMALL = 2**53
_MOST_BITS = 1 << 17


class Unsendable(Exception):
    """A value of a type that does not travel."""


class Malformed(Exception):
    """A frame that is no message."""


class TooLong(Exception):
    """A frame over its limit."""


class Closed(Exception):
    """The other end is gone."""


def encode(value: Any) -> Any:
    """A value as what JSON can hold: plain types as they are or in a tagged list, subclasses as their plain type.

    Raises:
        Unsendable: It holds an object of another type.
    """
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        number = int.__add__(value, 0)
        return number if -_SMALL < number < _SMALL else ["i", format(number, "x")]
    if isinstance(value, float):
        return ["f", float.hex(value)]
    if isinstance(value, list):
        return ["l", *(encode(one) for one in list.__iter__(value))]
    if isinstance(value, tuple):
        return ["t", *(encode(one) for one in tuple.__iter__(value))]
    if isinstance(value, dict):
        return ["d", *([encode(key), encode(one)] for key, one in dict.items(value))]
    if isinstance(value, set):
        return ["s", *(encode(one) for one in set.__iter__(value))]
    if isinstance(value, frozenset):
        return ["z", *(encode(one) for one in frozenset.__iter__(value))]
    return _encode_rare(value)


def _encode_rare(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray)):
        return ["b" if isinstance(value, bytes) else "y", bytes(value).hex()]
    if isinstance(value, complex):
        return ["c", value.real.hex(), value.imag.hex()]
    if isinstance(value, range):
        return ["r", *(encode(one) for one in (value.start, value.stop, value.step))]
    if isinstance(value, deque):
        return ["q", *(encode(one) for one in deque.__iter__(value))]
    if isinstance(value, Fraction):
        return ["n", encode(value.numerator), encode(value.denominator)]
    if isinstance(value, Decimal):
        return ["m", Decimal.__str__(value)]
    raise Unsendable(type(value).__name__)


def decode(value: Any) -> Any:
    """The value that `encode` wrote.

    Raises:
        Malformed: It is not of that form.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if not isinstance(value, list) or not value:
        raise Malformed("a value is expected to be plain or a tagged list")
    tag, rest = value[0], value[1:]
    try:
        if tag in _CONTAINERS:
            return _CONTAINERS[tag](decode(one) for one in rest)
        if tag == "d":
            return {decode(key): decode(one) for key, one in rest}
        if tag in _SCALARS:
            return _SCALARS[tag](*rest)
    except (TypeError, ValueError, ArithmeticError, OverflowError) as error:
        raise Malformed(f"tag {tag!r}: {error}") from None
    raise Malformed("unknown tag")


_CONTAINERS: dict[str, Callable[..., Any]] = {"l": list, "t": tuple, "s": set, "z": frozenset, "q": deque}
_SCALARS: dict[str, Callable[..., Any]] = {
    "i": lambda digits: int(digits, 16),
    "f": float.fromhex,
    "b": bytes.fromhex,
    "y": bytearray.fromhex,
    "c": lambda real, imag: complex(float.fromhex(real), float.fromhex(imag)),
    "r": lambda *parts: range(*(decode(one) for one in parts)),
    "n": lambda top, bottom: Fraction(_part(top), _part(bottom)),
    "m": Decimal,
}


def _part(value: Any) -> int:
    """A fraction's numerator or denominator.

    Of a text like "1e999999999" `Fraction` would make a number that fills the memory, and of two integers of 250 KB it
    looks for the common divisor for twelve seconds.
    """
    number = decode(value)
    if type(number) is not int or number.bit_length() > _MOST_BITS:
        raise ValueError("an integer of no more than 131,072 bits was expected")
    return number


def send(descriptor: int, message: dict[str, Any], *, deadline: float | None = None) -> None:
    """Write one message as a frame: four bytes of length, then JSON.

    Args:
        descriptor: Where to; one that does not block, if there is a deadline.
        message: What JSON can hold.
        deadline: `time.monotonic()` at which to give up; None to wait for ever.

    Raises:
        TimeoutError: It was not all taken in time.
        Closed: Nobody reads any more.
    """
    # escaped, two surrogates would arrive as the one character that they stand for
    body = json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")
    frame = memoryview(len(body).to_bytes(4, "big") + body)
    while frame:
        if deadline is not None:
            _wait(descriptor, deadline, writing=True)
        try:
            frame = frame[os.write(descriptor, frame) :]
        except BlockingIOError:
            continue
        except (BrokenPipeError, ConnectionError):
            raise Closed from None


def receive(descriptor: int, *, most: int, deadline: float | None) -> Any:
    """Read one message.

    Args:
        descriptor: Where from.
        most: Most bytes of its body.
        deadline: `time.monotonic()` at which to give up; None to wait for ever.

    Raises:
        TimeoutError: Nothing whole came in time.
        Closed: The other end is gone.
        TooLong, Malformed: As their names say.
    """
    length = int.from_bytes(_read_exactly(descriptor, 4, deadline), "big")
    if length > most:
        raise TooLong(str(length))
    body = _read_exactly(descriptor, length, deadline)
    try:
        return json.loads(body.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise Malformed(str(error)) from None


def _read_exactly(descriptor: int, count: int, deadline: float | None) -> bytes:
    parts = []
    while count:
        if deadline is not None:
            _wait(descriptor, deadline, writing=False)
        part = os.read(descriptor, min(count, 1 << 16))
        if not part:
            raise Closed
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _wait(descriptor: int, deadline: float, *, writing: bool) -> None:
    left = deadline - time.monotonic()
    # not select.select, which knows no descriptor above 1023
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT if writing else select.POLLIN)
    if left <= 0 or not poll.poll(left * 1000):
        raise TimeoutError
