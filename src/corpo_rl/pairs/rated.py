"""Problems with answers that are known to be right or wrong: what pairs are made of."""

import ast
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from corpo_rl.errors import DataError
from corpo_rl.pairs.python_source import parsed
from corpo_rl.records import FinalAnswer, LabelledCandidate, Problem


@dataclass(frozen=True)
class RatedAnswer:
    """An answer to a problem, known to be right or wrong."""

    text: str
    correct: bool
    source: str
    """Who wrote it."""
    answer_id: str = ""
    """Its id among the labels."""
    status: str = ""
    """What the tests said of it, one of `records.STATUSES`; empty where only right or wrong is known."""
    form: str = ""
    """What is equal for answers that are the same (`answer_form`); filled in by `tidied`."""


@dataclass(frozen=True)
class RatedProblem:
    """A problem with its rated answers."""

    problem_id: str
    problem: str
    answers: tuple[RatedAnswer, ...]
    is_code: bool = False
    """Whether the answers are Python code, of which comments and layout do not count."""


@dataclass(frozen=True)
class LeftOut:
    """Answers that no pair is made of, by the reason."""

    unjudged: Mapping[str, int]
    """Without a label, by status."""
    unknown: int
    """To problems that are not in the problems files."""
    blank: int
    """Without text."""
    copies: int
    """The same answer by the same source again; one of them is kept."""
    contradictory: int
    """Labelled right here and wrong there though they are the same answer: tests that differ from run to run, or a time
    limit just met. None of them is kept."""

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.unjudged.values()) + self.unknown + self.blank + self.copies + self.contradictory


NOTHING_LEFT_OUT = LeftOut(unjudged={}, unknown=0, blank=0, copies=0, contradictory=0)


@dataclass(frozen=True)
class RatedSet:
    """Rated problems, with what was left out on the way."""

    problems: tuple[RatedProblem, ...]
    left_out: LeftOut


def rate(problems: Sequence[Problem], labels: Iterable[LabelledCandidate], *, allow_unknown: bool = False) -> RatedSet:
    """Problems with their labelled answers; problems without any are there too.

    Args:
        problems: The problems, ids unique.
        labels: Labelled answers to them.
        allow_unknown: Leave out answers to problems that are not there, instead of refusing them.

    Raises:
        DataError: An answer's problem is not there, or no answer is labelled right or wrong.
    """
    answers: dict[str, list[RatedAnswer]] = {problem.problem_id: [] for problem in problems}
    unjudged: Counter[str] = Counter()
    n_unknown = n_blank = 0
    first_unknown = None
    for label in labels:
        if label.problem_id not in answers:
            n_unknown += 1
            first_unknown = first_unknown or label.problem_id
        elif label.correct is None:
            unjudged[label.status] += 1
        elif not label.text.strip():
            n_blank += 1
        else:
            # white space at the end is the sampling's, not the answer's; at the beginning it is code's indentation
            text = label.text.rstrip().lstrip("\r\n")
            answers[label.problem_id].append(
                RatedAnswer(text, label.correct, label.source, answer_id=label.candidate_id, status=label.status)
            )
    if n_unknown and not allow_unknown:
        raise DataError(
            f"{n_unknown} labels are of problems that are not in the problems files, the first of {first_unknown!r}; "
            "give the problems file they were made with, or leave them out with --allow-unknown"
        )
    if not any(answers.values()):
        raise DataError(
            f"no label says right or wrong: {n_unknown} are of unknown problems, {sum(unjudged.values())} could not be "
            f"judged, {n_blank} have no text"
        )
    rated = tuple(
        RatedProblem(
            problem.problem_id,
            problem.text.strip("\r\n").rstrip(),
            tuple(answers[problem.problem_id]),
            is_code=not isinstance(problem.tests, FinalAnswer),
        )
        for problem in problems
    )
    return RatedSet(rated, replace(NOTHING_LEFT_OUT, unjudged=dict(unjudged), unknown=n_unknown, blank=n_blank))


def tidied(problems: Iterable[RatedProblem], *, on_problem: Callable[[], None] | None = None) -> RatedSet:
    """Each problem once, and of each source each answer once.

    Problems with the same text become one. Answers that differ in layout only, or in comments if they are code, are
    the same: of one source's the first is kept. Of answers that are the same but labelled differently none is.

    Args:
        problems: Rated problems.
        on_problem: Called for each one that is done.
    """
    merged: dict[str, RatedProblem] = {}
    for problem in problems:
        known = merged.get(problem.problem)
        merged[problem.problem] = (
            problem if known is None else replace(known, answers=(*known.answers, *problem.answers))
        )
    n_copies = n_contradictory = 0
    tidy: list[RatedProblem] = []
    for problem in merged.values():
        forms = [answer_form(answer.text, is_code=problem.is_code) for answer in problem.answers]
        labels_of: dict[str, set[bool]] = defaultdict(set)
        for form, answer in zip(forms, problem.answers, strict=True):
            labels_of[form].add(answer.correct)
        kept: dict[tuple[str, str], RatedAnswer] = {}
        for form, answer in zip(forms, problem.answers, strict=True):
            if len(labels_of[form]) > 1:
                n_contradictory += 1
            elif (form, answer.source) in kept:
                n_copies += 1
            else:
                kept[form, answer.source] = replace(answer, form=form)
        tidy.append(replace(problem, answers=tuple(kept.values())))
        if on_problem:
            on_problem()
    return RatedSet(tuple(tidy), replace(NOTHING_LEFT_OUT, copies=n_copies, contradictory=n_contradictory))


def answer_form(text: str, *, is_code: bool) -> str:
    r"""What is equal for answers that are the same but for layout, and for comments if they are code.

    Example:
        >>> answer_form("    return x+1  # next\n", is_code=True) == answer_form("  return x + 1", is_code=True)
        True
        >>> answer_form("    return x+1", is_code=True) == answer_form("    return x+2", is_code=True)
        False
        >>> answer_form("It is 3.\n\nA: 3", is_code=False)
        'It is 3. A: 3'
    """
    if not is_code:
        return " ".join(text.split())
    # a completion is the inside of a function, with or without the indentation of its first line
    for whole in (f"if 1:\n{text}", text, f"if 1:\n    {text}"):
        tree = parsed(whole)
        if tree is not None:
            try:
                return ast.dump(tree)
            except (ValueError, RecursionError):  # a number too long to be written out, nesting too deep
                break
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())
