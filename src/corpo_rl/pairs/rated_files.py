"""Reader of whatever holds rated answers: labels with their problems, or answers published with their labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from corpo_rl.errors import DataError, UsageError
from corpo_rl.pairs.files import read_json_lines
from corpo_rl.pairs.gsm8k import read_gsm8k_answers
from corpo_rl.pairs.labels_file import read_labels
from corpo_rl.pairs.problems import read_usable_problems
from corpo_rl.pairs.rated import RatedProblem, rate
from corpo_rl.records import LabelledCandidate, Problem


@dataclass(frozen=True)
class RatedInput:
    """Rated problems of a domain, with what was left out or changed on the way."""

    problems: tuple[RatedProblem, ...]
    left_out: Mapping[str, int]
    """Answers left out, by the reason in words."""
    notes: tuple[str, ...]
    """What else is worth knowing, a sentence each."""


def read_rated(files: Sequence[Path], *, problems: Sequence[Path], allow_unknown: bool = False) -> RatedInput:
    """Rated problems of some files.

    Args:
        files: Labels files, as `corpo-rl pairs label` writes them, or the model answers published with GSM8K; told
            apart by their first rows.
        problems: The problems of the labels files.
        allow_unknown: Leave out labels of problems that are not there, instead of refusing them.

    Raises:
        UsageError: There are labels but no problems, or problems but no labels.
        DataError: A file is broken, a problem's id is in two files, or a label's problem is not there.
    """
    published = [path for path in files if _holds_solutions(path)]
    labelled = [path for path in files if path not in published]
    if labelled and not problems:
        raise UsageError(f"{labelled[0]}: labels name their problems by id only; give the problems file too")
    if problems and not labelled:
        raise UsageError(f"{problems[0]}: a problems file is for labels, and there are none")
    rated: list[RatedProblem] = []
    left_out: dict[str, int] = {}
    notes: list[str] = []
    if labelled:
        known, n_unusable = _problems(problems)
        labels: list[LabelledCandidate] = []
        for path in labelled:
            labels += read_labels(path)
        found = rate(known, labels, allow_unknown=allow_unknown)
        rated += found.problems
        for status, count in sorted(found.left_out.unjudged.items()):
            left_out[f"could not be judged ({status})"] = count
        left_out["to unknown problems"] = found.left_out.unknown
        left_out["without text"] = found.left_out.blank
        if n_unusable:
            notes.append(f"{n_unusable:,} problems without usable tests were left out.")
    for path in published:
        answers = read_gsm8k_answers(path)
        rated += answers.problems
        reason = "without a final 'A:' line, for which a verifier would only learn to look"
        left_out[reason] = left_out.get(reason, 0) + answers.n_unfinished
        notes.append(f"Calculator marks such as <<3+4=7>> were removed from {answers.n_marked:,} answers.")
    return RatedInput(tuple(rated), {reason: count for reason, count in left_out.items() if count}, tuple(notes))


def _holds_solutions(path: Path) -> bool:
    row = next((row for _, row in islice(read_json_lines(path), 1)), {})
    return any(isinstance(value, dict) and "is_correct" in value for value in row.values())


def _problems(paths: Sequence[Path]) -> tuple[list[Problem], int]:
    found: list[Problem] = []
    path_of: dict[str, Path] = {}
    n_unusable = 0
    for path in paths:
        usable = read_usable_problems(path)
        n_unusable += len(usable.left_out)
        for problem in usable.problems:
            first = path_of.setdefault(problem.problem_id, path)
            if first != path:
                raise DataError(f"{path}: problem {problem.problem_id!r} is in {first} too; make ids unique")
            found.append(problem)
    return found, n_unusable
