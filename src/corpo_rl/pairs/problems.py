"""Reader of problems whose answers a machine can judge. `docs/problems.md` shows every form."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from corpo_rl.errors import DataError, UsageError
from corpo_rl.pairs.answer_forms import ANSWERS, QUESTIONS, math_problem
from corpo_rl.pairs.fields import optional_text
from corpo_rl.pairs.own_form import own_problem
from corpo_rl.pairs.problem_forms import humaneval_problem, mbpp_problem
from corpo_rl.pairs.program_forms import TEST_KINDS, apps_problem, code_contests_problem
from corpo_rl.pairs.rows import read_rows
from corpo_rl.records import Problem

FORMS = ("program", "humaneval", "mbpp", "apps", "code_contests", "math")
"""Names of the forms, as `form` takes them."""


@dataclass(frozen=True)
class UsableProblems:
    """The problems of a file that can be judged, and why the others cannot."""

    problems: tuple[Problem, ...]
    left_out: tuple[str, ...]
    """A line for each problem left out: its place, what was expected and what was found."""


def read_problems(path: Path, *, form: str | None = None, kinds: Collection[str] = TEST_KINDS) -> list[Problem]:
    """The problems of a file, in file order.

    Args:
        path: JSON Lines (also gzipped), a JSON array (`.json`) or parquet.
        form: One of `FORMS`; told by the fields when None.
        kinds: Which tests of CodeContests to use, of `TEST_KINDS`.

    Returns:
        At least one problem; ids are unique.

    Raises:
        UsageError: The form or a kind is unknown.
        DataError: A problem cannot be judged (no tests, tests that do not parse or name no entry point, wrong types),
            an id comes twice, rows are of two forms, or the file is broken. Names the place.
    """
    read = read_usable_problems(path, form=form, kinds=kinds)
    if read.left_out:
        raise DataError(read.left_out[0])
    return list(read.problems)


def read_usable_problems(path: Path, *, form: str | None = None, kinds: Collection[str] = TEST_KINDS) -> UsableProblems:
    """The same, but problems that cannot be judged are left out and told of: large published sets have some.

    Raises:
        UsageError: The form or a kind is unknown.
        DataError: An id comes twice, rows are of two forms, no problem is left, or the file is broken.
    """
    if form is not None and form not in FORMS:
        raise UsageError(f"form: expected one of {', '.join(FORMS)}, found {form!r}")
    if not kinds or not set(kinds) <= set(TEST_KINDS):
        raise UsageError(f"kinds: expected some of {', '.join(TEST_KINDS)}, found {', '.join(kinds) or 'none'}")
    problems: list[Problem] = []
    left_out: list[str] = []
    place_of_id: dict[str, str] = {}
    place_of_form: dict[str, str] = {}
    for number, (where, row) in enumerate(read_rows(path), start=1):
        found = form or _form_of(row)
        if found is not None:
            place_of_form.setdefault(found, where)
        if len(place_of_form) > 1:
            (one, first), (other, _) = place_of_form.items()
            raise DataError(
                f"{where}: expected a problem in the form {one!r} as in {first}, found the form {other!r}; "
                "keep them in files of their own"
            )
        try:
            problem = _problem(row, found, where=where, number=number, kinds=kinds)
            problem = replace(problem, split=optional_text(row, "split", where=where))
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


def _form_of(row: Mapping[str, Any]) -> str | None:
    names = {name for name, value in row.items() if value is not None}
    if "tests" in names:
        return "program"
    if "test_list" in names:
        return "mbpp"
    if {"prompt", "entry_point", "test"} <= names:
        return "humaneval"
    if {"question", "input_output"} <= names:
        return "apps"
    if "description" in names and not names.isdisjoint(f"{kind}_tests" for kind in TEST_KINDS):
        return "code_contests"
    return "math" if not names.isdisjoint(QUESTIONS) and not names.isdisjoint(ANSWERS) else None


def _problem(row: Mapping[str, Any], form: str | None, *, where: str, number: int, kinds: Collection[str]) -> Problem:
    if form == "program":
        return own_problem(row, where=where)
    if form == "humaneval":
        return humaneval_problem(row, where=where)
    if form == "mbpp":
        return mbpp_problem(row, where=where)
    if form == "apps":
        return apps_problem(row, where=where)
    if form == "code_contests":
        return code_contests_problem(row, where=where, kinds=kinds)
    if form == "math":
        return math_problem(row, where=where, number=str(number))
    raise DataError(
        f"{where}: a problem without tests: expected the fields of one of the forms {', '.join(FORMS)} "
        f"(see docs/problems.md), found {', '.join(row) or 'none'}"
    )
