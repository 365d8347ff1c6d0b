"""Which problems are the same problem, or nearly: they have to stay in one split, or it leaks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from corpo_rl.errors import MissingExtraError, UsageError
from corpo_rl.pairs.files import normalised

SIMILARITY = 0.5
"""Least similarity of near duplicates. On HumanEval 5 pairs reach it, all of them variants of one task ("three distinct
elements that sum to zero" and "two distinct elements"), and the next pair is at 0.29; among the 1,319 questions of
GSM8K's test set 3 pairs do. MBPP's one-line tasks reach it more often (55 pairs of 427)."""

_SHINGLE = 5
"""Characters. Runs of words would tell "sort_third" from "sort_even" as wholly as any two words."""

_PERMUTATIONS = 256
_RECALL = 0.999
"""Least chance that a pair which is just similar enough is looked at; every one looked at is then measured exactly."""


@dataclass(frozen=True)
class Link:
    """Two problems that are nearly the same."""

    first: int
    second: int
    """Their places; first < second."""
    similarity: float
    """Shared shingles over all shingles, 1 for the same words."""


@dataclass(frozen=True)
class Clusters:
    """Problems in groups that belong together."""

    cluster_of: tuple[int, ...]
    """For each problem the place of the first problem of its cluster."""
    links: tuple[Link, ...]
    """The near duplicates found, by place. Problems of one cluster may be linked through others only."""


def cluster_problems(texts: Sequence[str], *, similarity: float = SIMILARITY) -> Clusters:
    """Group problems that have the same words, or are nearly the same.

    Similarity is Jaccard's: runs of five characters that two texts share, over all that either has, after case,
    punctuation and spacing are levelled. Candidates are found by MinHash (`datasketch`) and then measured exactly; of
    the pairs just at the bound, less than one in a thousand is missed. Clusters are closed: with a like b and b like c,
    all three are in one.

    Args:
        texts: The problems.
        similarity: Least similarity of near duplicates, from 0.3 to 1; at 1 only the same words count.

    Raises:
        UsageError: `similarity` is out of range.
        MissingExtraError: `datasketch` is not installed and `similarity` is under 1.

    Source:
        Broder, "On the resemblance and containment of documents", 1997.

    Example:
        >>> cluster_problems(["Add two numbers.", "Sort a list.", "add TWO numbers"]).cluster_of
        (0, 1, 0)
    """
    if not 0.3 <= similarity <= 1:
        raise UsageError(f"similarity of near duplicates: expected a number from 0.3 to 1, found {similarity}")
    words = [normalised(text) for text in texts]
    first_of: dict[str, int] = {}
    links: list[Link] = []
    for place, text in enumerate(words):
        first = first_of.setdefault(text, place)
        if first != place:
            links.append(Link(first, place, 1.0))
    if similarity < 1:
        links += _near(words, sorted(first_of.values()), similarity=similarity)
    parent = list(range(len(words)))
    for link in links:
        one, other = _root(parent, link.first), _root(parent, link.second)
        parent[max(one, other)] = min(one, other)
    return Clusters(
        cluster_of=tuple(_root(parent, place) for place in range(len(words))),
        links=tuple(sorted(links, key=lambda link: (link.first, link.second))),
    )


def _near(words: Sequence[str], places: Sequence[int], *, similarity: float) -> Iterator[Link]:
    try:
        from datasketch import MinHash, MinHashLSH
    except ImportError:
        raise MissingExtraError("finding near-duplicate problems", "pairs") from None
    rows = _rows(similarity)
    index = MinHashLSH(num_perm=_PERMUTATIONS, params=(_PERMUTATIONS // rows, rows))
    for place in places:
        shingles = _shingles(words[place])
        sketch = MinHash(num_perm=_PERMUTATIONS)
        sketch.update_batch([shingle.encode() for shingle in shingles])
        for other in sorted(index.query(sketch)):
            others = _shingles(words[other])
            shared = len(shingles & others)
            measured = shared / (len(shingles) + len(others) - shared)
            if measured >= similarity:
                yield Link(other, place, measured)
        index.insert(place, sketch)


def _rows(similarity: float) -> int:
    """Hashes to a band: the most with which a pair at the bound still shares a band almost surely."""
    return max(rows for rows in range(1, 33) if 1 - (1 - similarity**rows) ** (_PERMUTATIONS // rows) >= _RECALL)


def _shingles(text: str) -> set[str]:
    return {text[start : start + _SHINGLE] for start in range(max(1, len(text) - _SHINGLE + 1))}


def _root(parent: list[int], place: int) -> int:
    while parent[place] != place:
        parent[place] = place = parent[parent[place]]
    return place
