"""Errors that a user can act on. Each message is one line: where, what was expected, what was found, what to do."""


def one_line(text: str) -> str:
    r"""The text with line ends and control characters, such as a file's name may hold, written out.

    Example:
        >>> print(one_line("run\n1.jsonl"))
        run\n1.jsonl
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


class CorpoError(Exception):
    """Base of every error this package raises on purpose, one line each."""

    exit_code = 1

    def __str__(self) -> str:
        """The message; names in it may hold line ends."""
        return one_line(super().__str__())


class DataError(CorpoError, ValueError):
    """A value, row or file is not what it should be."""


class UsageError(CorpoError, ValueError):
    """The call itself is wrong: an unknown name, a missing setting, settings that contradict each other."""

    exit_code = 2


class EstimatorError(UsageError):
    """A combination of baseline, floor and scale that would void the guarantee it promises."""


class ParseFailure(CorpoError, ValueError):
    """A completion does not hold an answer in the form the task asks for.

    Args:
        kind: Short name of the way it failed, counted in reports ("empty", "out_of_range", ...).
    """

    def __init__(self, kind: str) -> None:
        super().__init__(f"completion is not in the form the task asks for: {kind}")
        self.kind = kind


class Unscorable(CorpoError):
    """Nothing can be said of what a completion is worth: it is counted, and in no other figure.

    Args:
        kind: Short name of the reason, counted in reports ("not_judged").
    """

    def __init__(self, kind: str) -> None:
        super().__init__(f"nothing can be said of what the completion is worth: {kind}")
        self.kind = kind


class MissingExtraError(CorpoError, ImportError):
    """A part of the package needs libraries that are not installed."""

    def __init__(self, part: str, extra: str) -> None:
        super().__init__(f"{part} needs libraries that are not installed; run: pip install 'corpo-rl[{extra}]'")


class FloorWarning(UserWarning):
    """`min_correct` separates nothing: it binds in no group, or no reward exceeds it."""
