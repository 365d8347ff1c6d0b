"""Errors that a user can act on. Each message is one line: where, what was expected, what was found, what to do."""


class CorpoError(Exception):
    """Base of every error this package raises on purpose; the command line shows it as one line."""

    exit_code = 1


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


class MissingExtraError(CorpoError, ImportError):
    """A part of the package needs libraries that are not installed."""

    def __init__(self, part: str, extra: str) -> None:
        super().__init__(f"{part} needs libraries that are not installed; run: pip install 'corpo-rl[{extra}]'")


class FloorWarning(UserWarning):
    """`min_correct` separates nothing: it binds in no group, or no reward exceeds it."""
