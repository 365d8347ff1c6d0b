"""Reader of candidate answers, in the forms in which they are published and in which `pairs sample` writes them."""

import difflib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from corpo_rl.errors import DataError
from corpo_rl.pairs.cut import without_calculator_marks
from corpo_rl.pairs.fields import any_text, id_field, optional_text
from corpo_rl.pairs.files import normalised, shown
from corpo_rl.pairs.python_source import parsed_prompt, without_texts
from corpo_rl.pairs.rows import read_rows
from corpo_rl.records import Candidate, FinalAnswer, Problem

_CONTINUING = ("completion", "completions", "samples")
"""Fields whose text continues the problem's prompt, where it has one."""
_WHOLE = ("solution", "solutions", "code", "output", "outputs", "response", "responses")
"""Fields whose text stands alone."""
_TEXTS = ("text", *_CONTINUING, *_WHOLE)
_IDS = ("problem_id", "task_id", "question_id")
_QUESTIONS = ("prompt", "question", "problem")


@dataclass(frozen=True)
class Candidates:
    """Candidate answers, with what was left out or changed on the way."""

    candidates: tuple[Candidate, ...]
    """In the order of the files."""
    n_empty: int = 0
    """Answers dropped because nothing is in them, as published sets mark what they could not solve: a judge would only
    learn that empty is wrong. An empty completion of a prompt is kept: the prompt alone is a program."""
    n_unknown: int = 0
    """Answers dropped because their problem is not among the problems."""
    n_marked: int = 0
    """Math answers that held calculator marks such as `<<3+4=7>>`, which were removed."""


@dataclass(frozen=True)
class _Answer:
    """One answer of a row, before its problem and its number are known."""

    text: Any
    continues: bool
    source: str | None = None
    candidate_id: str | None = None
    where: str = ""


def read_candidates(
    paths: Sequence[Path], *, problems: Sequence[Problem], source: str | None = None, allow_unknown: bool = False
) -> Candidates:
    """The candidate answers of some files to some problems.

    A row is told by its fields. Its problem is the one with its `problem_id` (or `task_id`, `question_id`), or else
    the one with its `prompt` (or `question`, `problem`): the same words, or a prompt of the same code whose docstring
    alone differs. Its answer, or list of answers, is the first it has of these:

    - `text`, which continues the prompt when `continues_prompt` is true
    - `completion`, `completions` or `samples`, which continue the prompt of a problem that has one
    - `solution`, `code`, `output` or `response` (or their plurals), which stand alone

    or else every field that holds `{"is_correct": ..., "solution": ...}`, as GSM8K's published answers have them.

    Args:
        paths: JSON Lines (also gzipped), a JSON array (`.json`) or parquet.
        problems: What the candidates answer.
        source: Who wrote answers that name neither `source` nor `model`; the file's name when None.
        allow_unknown: Leave answers to other problems out instead of refusing the files.

    Raises:
        DataError: A row is broken or names no problem, an answer is no text, two answers have the same number, or
            answers are to problems that are not there. Names the place.
    """
    index = _Problems(problems)
    found = _Found()
    for path in paths:
        default = source or Path(path.name.removesuffix(".gz")).stem
        for where, row in read_rows(path):
            answers = list(_answers(row, where=where))
            problem = index.find(row, where=where)
            if problem is None:
                found.unknown[_name_of(row, where)] += len(answers)
                continue
            for answer in answers:
                found.add(answer, problem, default)
    if found.unknown and not allow_unknown:
        names = list(found.unknown)
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        raise DataError(
            f"{', '.join(map(str, paths))}: {found.unknown.total()} answers are to problems that are not among the "
            f"{len(problems)} given: {', '.join(names[:3])}{more}; give their problems too, or leave them out with "
            "--allow-unknown"
        )
    if not found.candidates:
        raise DataError(f"{', '.join(map(str, paths))}: expected one answer or more, found none")
    return Candidates(tuple(found.candidates), found.n_empty, found.unknown.total(), found.n_marked)


@dataclass
class _Found:
    """What has been read so far."""

    candidates: list[Candidate] = field(default_factory=list)
    place_of: dict[tuple[str, str, str], str] = field(default_factory=dict)
    n_of: Counter[tuple[str, str]] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    n_empty: int = 0
    n_marked: int = 0

    def add(self, answer: _Answer, problem: Problem, default: str) -> None:
        where, source = answer.where, answer.source or default
        number = self.n_of[problem.problem_id, source]
        self.n_of[problem.problem_id, source] += 1
        text = "" if answer.text is None else any_text(answer.text, where=where)
        continues = answer.continues and problem.prompt != ""
        # a body of nothing is what a model said after the prompt; an answer of nothing was never given
        if answer.text is None or not (continues or text.strip()):
            self.n_empty += 1
            return
        if isinstance(problem.tests, FinalAnswer):
            text, marked = without_calculator_marks(text), text
            self.n_marked += marked != text
        candidate_id = str(number) if answer.candidate_id is None else answer.candidate_id
        first = self.place_of.setdefault((problem.problem_id, source, candidate_id), where)
        if first != where:
            raise DataError(
                f"{where}: candidate {candidate_id!r} of {source!r} to {problem.problem_id!r} is there already, from "
                f"{first}; make candidate_id unique, or name the sources apart"
            )
        self.candidates.append(Candidate(problem.problem_id, candidate_id, text, source, continues))


def _answers(row: Mapping[str, Any], *, where: str) -> Iterator[_Answer]:
    """The answers of a row; the places of several are told apart."""
    source = optional_text(row, "source", where=where) or optional_text(row, "model", where=where)
    name = next((name for name in _TEXTS if name in row), None)
    if name is None:
        models = [key for key, value in row.items() if isinstance(value, dict) and "is_correct" in value]
        if not models:
            found = ", ".join(row) or "none"
            raise DataError(f"{where}: expected an answer in one of the fields {', '.join(_TEXTS)}, found {found}")
        for model in models:
            yield _Answer(row[model].get("solution"), continues=False, source=model, where=f"{where}: {model}")
        return
    continues = row.get("continues_prompt", name in _CONTINUING)
    if not isinstance(continues, bool):
        raise DataError(f"{where}: continues_prompt: expected true or false, found {shown(continues)}")
    value = row[name]
    if isinstance(value, list):
        for number, text in enumerate(value):
            yield _Answer(text, continues, source=source, where=f"{where}: {name}[{number}]")
        return
    candidate_id = id_field(row, "candidate_id", where=where) if row.get("candidate_id") is not None else None
    yield _Answer(value, continues, source=source, candidate_id=candidate_id, where=f"{where}: {name}")


def _name_of(row: Mapping[str, Any], where: str) -> str:
    name = next((row[name] for name in (*_IDS, *_QUESTIONS) if row.get(name) is not None), None)
    return where if name is None else shown(name)


class _Problems:
    """Finds the problem of a row."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self._problems = tuple(problems)
        self._by_id = {problem.problem_id: problem for problem in self._problems}

    def find(self, row: Mapping[str, Any], *, where: str) -> Problem | None:
        if any(row.get(name) is not None for name in _IDS):
            return self._by_id.get(id_field(row, *_IDS, where=where))
        texts = (optional_text(row, name, where=where) for name in _QUESTIONS)
        text = next((text for text in texts if text is not None), None)
        if text is None:
            raise DataError(
                f"{where}: expected the answer's problem in one of the fields {', '.join((*_IDS, *_QUESTIONS))}, "
                f"found {', '.join(row) or 'none'}"
            )
        return self._of_text(text, where=where)

    def _of_text(self, text: str, *, where: str) -> Problem | None:
        same = self._by_text.get(text.strip(), []) or self._by_words.get(normalised(text), [])
        if not same and (tree := parsed_prompt(text)) is not None:
            same = self._by_code.get(without_texts(tree), [])
            if len(same) > 1:
                # different tasks with one signature: the docstring that goes on alike for longest
                shared = [_n_alike(text, problem.prompt) for problem in same]
                same = [one for one, length in zip(same, shared, strict=True) if length == max(shared)]
        if len(same) > 1:
            ids = ", ".join(problem.problem_id for problem in same[:3])
            raise DataError(f"{where}: this text is that of several problems ({ids}); name one by problem_id")
        return same[0] if same else None

    @cached_property
    def _by_text(self) -> dict[str, list[Problem]]:
        return _grouped((key.strip(), problem) for problem in self._problems for key in {problem.text, problem.prompt})

    @cached_property
    def _by_words(self) -> dict[str, list[Problem]]:
        return _grouped((normalised(problem.text), problem) for problem in self._problems)

    @cached_property
    def _by_code(self) -> dict[str, list[Problem]]:
        trees = ((parsed_prompt(problem.prompt), problem) for problem in self._problems if problem.prompt)
        return _grouped((without_texts(tree), problem) for tree, problem in trees if tree is not None)


def _grouped(keyed: Iterable[tuple[str, Problem]]) -> dict[str, list[Problem]]:
    groups: dict[str, list[Problem]] = defaultdict(list)
    for key, problem in keyed:
        if key:
            groups[key].append(problem)
    return groups


def _n_alike(one: str, other: str) -> int:
    """Characters in blocks that both texts have in the same order."""
    matcher = difflib.SequenceMatcher(None, one, other, autojunk=False)
    return sum(block.size for block in matcher.get_matching_blocks())
