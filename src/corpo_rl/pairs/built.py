"""What building verifier pairs gives: the pairs, and how they came about."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from corpo_rl.pairs.near_duplicates import Link
from corpo_rl.pairs.rated import LeftOut, RatedProblem
from corpo_rl.records import VerifierItem


@dataclass(frozen=True)
class SourcedItem(VerifierItem):
    """A pair that remembers where it comes from: for checks, never shown to the policy."""

    source_a: str
    """Who wrote answer A."""
    source_b: str
    problem_id: str = ""
    answer_id_a: str = ""
    """Id of answer A among the labels."""
    answer_id_b: str = ""
    status_a: str = ""
    """What the tests said of answer A, where that is known."""
    status_b: str = ""


@dataclass(frozen=True)
class SplitPart:
    """What became of a split."""

    asked: int | None
    """Pairs wanted; None for all there are."""
    got: int
    n_allotted: int
    """Problems that its pairs could come from."""
    why: str
    """Why it has fewer pairs than asked; empty when it has them all."""


@dataclass(frozen=True)
class DomainPart:
    """What became of the problems and answers of a domain."""

    name: str
    n_problems: int
    """Problems with different texts."""
    n_mixed: int
    """With a right and a wrong answer."""
    n_right_only: int
    n_wrong_only: int
    n_unanswered: int
    """Without an answer known to be right or wrong."""
    n_right: int
    """Different right answers of all problems."""
    n_wrong: int
    left_out: LeftOut


@dataclass(frozen=True)
class Cluster:
    """Problems kept together because they are the same, or nearly."""

    problem_ids: tuple[str, ...]
    domains: tuple[str, ...]
    """Domain of each."""
    similarity: float
    """Of the two that are linked the least."""


@dataclass(frozen=True)
class BuiltPairs:
    """Pairs, with how they came about."""

    items: tuple[SourcedItem, ...]
    """Sorted by split; within a split twins follow each other."""
    parts: Mapping[str, SplitPart]
    """By split."""
    domains: tuple[DomainPart, ...]
    """The domain trained on, then the other one if there is one."""
    clusters: tuple[Cluster, ...]
    """Those of more than one problem."""
    n_overlapping: int
    """Problems of the other domain not used because they are nearly one of the domain trained on."""

    def split(self, name: str) -> tuple[SourcedItem, ...]:
        """Items of one split."""
        return tuple(item for item in self.items if item.split == name)


def domain_part(name: str, problems: Sequence[RatedProblem], left_out: LeftOut) -> DomainPart:
    """Count the problems and answers of a domain."""
    right = [sum(answer.correct for answer in problem.answers) for problem in problems]
    wrong = [len(problem.answers) - n_right for problem, n_right in zip(problems, right, strict=True)]
    counts = list(zip(right, wrong, strict=True))
    return DomainPart(
        name=name,
        n_problems=len(problems),
        n_mixed=sum(r > 0 and w > 0 for r, w in counts),
        n_right_only=sum(r > 0 and w == 0 for r, w in counts),
        n_wrong_only=sum(r == 0 and w > 0 for r, w in counts),
        n_unanswered=sum(r == 0 and w == 0 for r, w in counts),
        n_right=sum(right),
        n_wrong=sum(wrong),
        left_out=left_out,
    )


def found_clusters(
    members: Mapping[int, Sequence[int]],
    links: Sequence[Link],
    everything: Sequence[RatedProblem],
    *,
    n_main: int,
    names: tuple[str, str],
) -> tuple[Cluster, ...]:
    """The clusters of more than one problem.

    Args:
        members: Places of the problems of each cluster.
        links: The near duplicates.
        everything: The problems of both domains.
        n_main: How many of them are of the first.
        names: Names of the domains.
    """
    cluster_of = {place: cluster for cluster, places in members.items() for place in places}
    least: dict[int, float] = {}
    for link in links:
        cluster = cluster_of[link.first]
        least[cluster] = min(link.similarity, least.get(cluster, 1.0))
    return tuple(
        Cluster(
            problem_ids=tuple(everything[place].problem_id for place in members[cluster]),
            domains=tuple(names[place >= n_main] for place in members[cluster]),
            similarity=similarity,
        )
        for cluster, similarity in sorted(least.items())
    )
