"""Which format a log has."""

from collections.abc import Sequence

from corpo_rl.errors import DataError, UsageError
from corpo_rl.rollouts.lines import ATROPOS, GROUP_LISTS, MS_SWIFT, NEMO_RL, PRIME_RL, SLIME
from corpo_rl.rollouts.plan import Format, Sample
from corpo_rl.rollouts.rows import AREAL, NEMO_GYM, OPEN_INSTRUCT, TINKER, VERIFIERS
from corpo_rl.rollouts.table import TABLE
from corpo_rl.rollouts.trl import TRL
from corpo_rl.rollouts.verl import VERL

FORMATS: tuple[Format, ...] = (
    TRL, VERL, OPEN_INSTRUCT, TINKER, ATROPOS, NEMO_GYM, AREAL, MS_SWIFT, PRIME_RL, NEMO_RL, SLIME, VERIFIERS,
    GROUP_LISTS, TABLE,
)  # fmt: skip
"""Every format, the more particular before the more general; a table is what nothing else is."""


def detect(samples: Sequence[Sample], name: str | None) -> tuple[Format, list[int]]:
    """The format of a log, given a look at each of its files, and which of them have it.

    Beside logs of a particular format, plain tables in a folder (metrics, settings) are taken for something else. Files
    that the user named are not.

    Raises:
        UsageError: No format has that name.
        DataError: The files are of different formats.
    """
    if name is not None:
        for known in FORMATS:
            if known.name == name:
                return known, list(range(len(samples)))
        raise UsageError(f"format: expected one of {', '.join(known.name for known in FORMATS)}, got {name!r}")
    matching = [next(known for known in FORMATS if known.matches(sample)) for sample in samples]
    found = {known.name: known for known in matching}
    particular = [known for known in found.values() if known is not TABLE]
    if len(particular) == 1 and all(
        not sample.asked_for for sample, known in zip(samples, matching, strict=True) if known is TABLE
    ):
        return particular[0], [place for place, known in enumerate(matching) if known is particular[0]]
    if len(found) > 1:
        first = {known.name: sample.name for sample, known in reversed(list(zip(samples, matching, strict=True)))}
        told = ", ".join(f"{first[known.name]} is {known.title}" for known in found.values())
        raise DataError(f"{samples[0].name}: files of different formats ({told}); name the files of one")
    return matching[0], list(range(len(samples)))
