"""Which format a log has."""

from collections.abc import Sequence

from corpo_rl.errors import DataError, UsageError
from corpo_rl.rollouts.plan import Format, Sample
from corpo_rl.rollouts.table import TABLE
from corpo_rl.rollouts.trl import TRL
from corpo_rl.rollouts.verl import VERL

FORMATS: tuple[Format, ...] = (TRL, VERL, TABLE)
"""Every format, the more particular before the more general; a table is what nothing else is."""


def detect(samples: Sequence[Sample], name: str | None) -> Format:
    """The format of a log, given a look at each of its files.

    Raises:
        UsageError: No format has that name.
        DataError: The files are of different formats.
    """
    if name is not None:
        for known in FORMATS:
            if known.name == name:
                return known
        raise UsageError(f"format: expected one of {', '.join(known.name for known in FORMATS)}, got {name!r}")
    found: dict[str, tuple[Format, Sample]] = {}
    for sample in samples:
        matching = next((known for known in FORMATS if known.matches(sample)), TABLE)
        found.setdefault(matching.name, (matching, sample))
    if len(found) > 1:
        told = ", ".join(f"{sample.name} is {known.title}" for known, sample in found.values())
        raise DataError(f"{samples[0].name}: files of different formats ({told}); name the files of one")
    return next(iter(found.values()))[0]
