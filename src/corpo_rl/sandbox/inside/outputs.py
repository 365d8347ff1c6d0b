"""When a result, or a printed output, is the one expected."""

import math

_TOLERANCE = 1e-6


def same_result(result, expected):
    """Whether a result equals what JSON can say of the one expected.

    Tuples count as lists, since JSON has no tuples; floats may differ by 1e-6, relative or absolute.
    """
    if isinstance(expected, list):
        return (
            isinstance(result, (list, tuple))
            and len(result) == len(expected)
            and all(same_result(one, other) for one, other in zip(result, expected))
        )
    if isinstance(expected, dict):
        return (
            isinstance(result, dict)
            and len(result) == len(expected)
            # 1 and "1" are two keys of the result, but one of JSON's
            and {str(key) for key in result} == expected.keys()
            and all(same_result(one, expected[str(key)]) for key, one in result.items())
        )
    if isinstance(expected, bool) or isinstance(result, bool):
        return result is expected
    if isinstance(expected, float) and isinstance(result, (int, float)):
        return _close(result, expected)
    return type(result) is type(expected) and result == expected


def same_text(output, expected):
    """Whether a printed output is the one expected: the same words, line by line.

    Spaces at the ends of lines, and empty lines at the end, are free; a number that is expected with a decimal point
    may differ by 1e-6, relative or absolute.
    """
    ours, theirs = (text.rstrip().split("\n") for text in (output, expected))
    return len(ours) == len(theirs) and all(_same_line(*lines) for lines in zip(ours, theirs))


def _same_line(ours, theirs):
    if ours.split() == theirs.split():
        return True
    words = list(zip(ours.split(), theirs.split()))
    return len(ours.split()) == len(theirs.split()) and all(
        one == other or _same_number(one, other) for one, other in words
    )


def _same_number(ours, theirs):
    if "." not in theirs:
        return False
    try:
        return _close(float(ours), float(theirs))
    except ValueError:
        return False


def _close(ours, theirs):
    try:
        return math.isclose(ours, theirs, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    except OverflowError:
        return False
