"""Reader of problems whose answers a machine can judge. `docs/problems.md` shows every form."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpo_rl.errors import DataError, UsageError
from corpo_rl.pairs.problem_forms import humaneval_problem
from corpo_rl.pairs.rows import read_rows
from corpo_rl.records import Problem

_FORMS: Mapping[str, Callable[..., Problem]] = {"humaneval": humaneval_problem}

FORMS = tuple(_FORMS)
"""Names of the forms, as `form` takes them."""


@dataclass(frozen=True)
class UsableProblems:
    """The problems of a file that can be judged, and why the others cannot."""

    problems: tuple[Problem, ...]
    left_out: tuple[str, ...]
    """A line for each problem left out: its place, what was expected and what was found."""


def read_problems(path: Path, *, form: str | None = None) -> list[Problem]:
    """The problems of a file, in file order.

    Args:
        path: JSON Lines (also gzipped), a JSON array (`.json`) or parquet.
        form: One of `FORMS`; told by the fields when None.

    Returns:
        At least one problem; ids are unique.

    Raises:
        UsageError: The form is unknown.
        DataError: A problem cannot be judged (no tests, tests that do not parse or name no entry point, wrong types),
            an id comes twice, rows are of two forms, or the file is broken. Names the place.
    """
    read = read_usable_problems(path, form=form)
    if read.left_out:
        raise DataError(read.left_out[0])
    return list(read.problems)


def read_usable_problems(path: Path, *, form: str | None = None) -> UsableProblems:
    """The same, but rows that make no problem are left out and told of, as large published sets have some.

    Raises:
        UsageError: The form is unknown.
        DataError: An id comes twice, rows are of two forms, no problem is left, or the file is broken.
    """
    if form is not None and form not in _FORMS:
        raise UsageError(f"form: expected one of {', '.join(FORMS)}, found {form!r}")
    problems: list[Problem] = []
    left_out: list[str] = []
    place_of_id: dict[str, str] = {}
    for where, row in read_rows(path):
        found = form or _form_of(row, where=where)
        try:
            problem = _FORMS[found](row, where=where)
        except DataError as error:
            left_out.append(str(error))
            continue
        first = place_of_id.setdefault(problem.problem_id, where)
        if first != where:
            raise DataError(f"{where}: problem id {problem.problem_id!r} is that of {first} too; make ids unique")
        problems.append(problem)
    if not problems:
        raise DataError(left_out[0] if left_out else f"{path}: expected one problem a line, found no row")
    return UsableProblems(tuple(problems), tuple(left_out))


def _form_of(row: Mapping[str, Any], *, where: str) -> str:
    if {"prompt", "entry_point", "test"} <= row.keys():
        return "humaneval"
    raise DataError(f"{where}: expected a problem in one of the forms {', '.join(FORMS)}, found {', '.join(row)}")
