"""What a verifier could score without reading: how well length, position and source alone tell the right answer."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from corpo_rl.errors import DataError
from corpo_rl.pairs.build import SourcedItem


@dataclass(frozen=True)
class Shortcuts:
    """Share of pairs in which a rule that looks at one thing only picks the right answer; 0.5 is guessing.

    Each rule is the best of its kind on the pairs it is measured on, so none is under 0.5, and chance alone lifts it by
    about 0.4 / sqrt(n).
    """

    n_pairs: int
    length: float
    """"The longer one" or "the shorter one", whichever is better; ties count half."""
    longer: bool
    """Whether the better rule is "the longer one"."""
    position: float
    """"A" or "B", whichever is better."""
    source: float
    """For each two sources that meet, the one that is right more often."""


def find_shortcuts(items: Sequence[SourcedItem]) -> Shortcuts:
    """Measure the shortcuts in pairs of one right and one wrong answer.

    Raises:
        DataError: There is no pair, or one whose labels are equal.

    Example:
        >>> pair = dict(problem="1+1", domain="sums", split="train", source_a="x", source_b="y")
        >>> found = find_shortcuts([
        ...     SourcedItem("0", answer_a="It is 2", answer_b="3", label_a=1, label_b=0, **pair),
        ...     SourcedItem("1", answer_a="It is 3", answer_b="2", label_a=0, label_b=1, **pair),
        ... ])
        >>> found.length, found.position, found.source
        (0.5, 0.5, 0.5)
    """
    if not items or any(item.label_a == item.label_b for item in items):
        raise DataError("shortcuts are measured on pairs of one right and one wrong answer, found none or others")
    n = len(items)
    longer = sum(_longer_is_right(item) for item in items) / n
    first = sum(item.label_a for item in items) / n
    wins: Counter[tuple[str, str]] = Counter()
    for item in items:
        wins[(item.source_a, item.source_b) if item.label_a else (item.source_b, item.source_a)] += 1
    met = {tuple(sorted(sources)) for sources in wins}
    best = sum(max(wins[one, other], wins[other, one]) for one, other in met)
    return Shortcuts(
        n_pairs=n,
        length=max(longer, 1 - longer),
        longer=longer >= 0.5,
        position=max(first, 1 - first),
        source=best / n,
    )


def _longer_is_right(item: SourcedItem) -> float:
    difference = len(item.answer_a) - len(item.answer_b)
    if difference == 0:
        return 0.5
    return float((difference > 0) == bool(item.label_a))
