"""Rows of APPS and CodeContests as problems: programs judged by what they print, functions by what they return."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from corpo_rl.errors import DataError
from corpo_rl.pairs.cut import program_of
from corpo_rl.pairs.fields import any_text, decoded, id_field, list_field, optional_text
from corpo_rl.pairs.files import shown, text_field
from corpo_rl.records import CallTests, Problem, ProgramTests

TEST_KINDS = ("public", "private", "generated")
"""Tests that a problem of CodeContests has."""

_PYTHON_3 = (3, "PYTHON3", "python3")
"""How `solutions` names the language: the hub's numbering, or in words."""


def apps_problem(row: Mapping[str, Any], *, where: str) -> Problem:
    """The form of APPS (`codeparrot/apps`): `question`, `input_output` and `solutions` as JSON text, `starter_code`.

    With a `fn_name` the tests are calls, and else runs of a program. The first solution is the reference.

    APPS writes the result of a call either as it is or in a list of one, set by set: when every result of a problem is
    a list of one, that list is taken for wrapping.

    Raises:
        DataError: There is no test, or a field is missing or of the wrong kind.
    """
    question = text_field(row, "question", where=where)
    starter = optional_text(row, "starter_code", where=where)
    text = question if starter is None else f"{question.rstrip()}\n\n{starter}"
    given = row.get("input_output")
    tests = decoded(given, where=f"{where}: input_output") if isinstance(given, str) and given.strip() else given
    if not tests:
        raise DataError(f"{where}: a problem without tests: expected inputs and outputs in input_output, found none")
    if not isinstance(tests, dict):
        raise DataError(f"{where}: input_output: expected an object, found {shown(tests)}")
    place = f"{where}: input_output"
    inputs, outputs = (list_field(tests, name, where=place) for name in ("inputs", "outputs"))
    _check_lengths(inputs, outputs, where=place)
    problem_id = id_field(row, "problem_id", "id", where=where)
    solution = _first_solution(row.get("solutions"), where=f"{where}: solutions")
    name = optional_text(tests, "fn_name", where=place)
    if name is None:
        cases = tuple(
            (_lines(given, where=f"{place}: input {number}"), _lines(expected, where=f"{place}: output {number}"))
            for number, (given, expected) in enumerate(zip(inputs, outputs, strict=True))
        )
        return Problem(problem_id, text, ProgramTests(cases), reference=solution)
    if name not in text:
        # nobody could know
        text = f"{text.rstrip()}\n\nName the function {name}."
    problem = Problem(problem_id, text, CallTests(name, _calls(inputs, outputs, where=place)))
    return problem if solution is None else _with_reference(problem, solution)


def code_contests_problem(row: Mapping[str, Any], *, where: str, kinds: Collection[str] = TEST_KINDS) -> Problem:
    """CodeContests' form: `name`, `description`, tests by kind, `solutions` by language, `time_limit`.

    The first solution in Python 3 is the reference, where there is one. Outputs are compared with the one expected,
    so problems that accept several answers (CodeContests does not mark them) judge some right programs wrong.

    Args:
        row: The row.
        where: Its place, for errors.
        kinds: Which of `TEST_KINDS` to use.

    Raises:
        DataError: There is no test of these kinds, or a field is missing or of the wrong kind.
    """
    cases: list[tuple[str, str]] = []
    for kind in TEST_KINDS:
        if kind in kinds and row.get(f"{kind}_tests"):
            cases += _cases(row[f"{kind}_tests"], where=f"{where}: {kind}_tests")
    if not cases:
        raise DataError(f"{where}: a problem without tests: expected some in {_names(kinds)}, found none")
    return Problem(
        id_field(row, "problem_id", "name", where=where),
        text_field(row, "description", where=where),
        ProgramTests(tuple(cases), _time_limit(row.get("time_limit"), where=f"{where}: time_limit")),
        reference=_python_solution(row.get("solutions"), where=f"{where}: solutions"),
    )


def call(arguments: list[Any], expected: Any) -> tuple[str, str]:
    """A test of `CallTests`."""
    return json.dumps(arguments), json.dumps(expected)


def _names(kinds: Collection[str]) -> str:
    return ", ".join(f"{kind}_tests" for kind in TEST_KINDS if kind in kinds)


def _check_lengths(inputs: list[Any], outputs: list[Any], *, where: str) -> None:
    if len(inputs) != len(outputs):
        raise DataError(f"{where}: expected an output for each input, found {len(inputs)} and {len(outputs)}")
    if not inputs:
        raise DataError(f"{where}: a problem without tests: expected inputs and outputs, found empty lists")


def _lines(value: Any, *, where: str) -> str:
    """Text, or the list of lines that some problems of APPS have instead."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        value = "\n".join(value)
    return any_text(value, where=where)


def _calls(inputs: list[Any], outputs: list[Any], *, where: str) -> tuple[tuple[str, str], ...]:
    for number, arguments in enumerate(inputs):
        if not isinstance(arguments, list):
            raise DataError(f"{where}: input {number}: expected a list of arguments, found {shown(arguments)}")
    if all(isinstance(expected, list) and len(expected) == 1 for expected in outputs):
        outputs = [expected[0] for expected in outputs]
    return tuple(call(*pair) for pair in zip(inputs, outputs, strict=True))


def _with_reference(problem: Problem, solution: str) -> Problem:
    whole = program_of(problem, solution, continues_prompt=False)
    return Problem(problem.problem_id, problem.text, problem.tests, reference=whole)


def _first_solution(value: Any, *, where: str) -> str | None:
    solutions = decoded(value, where=where) if isinstance(value, str) and value.strip() else value
    if not solutions:
        return None
    if not isinstance(solutions, list):
        raise DataError(f"{where}: expected a list of programs, found {shown(solutions)}")
    return any_text(solutions[0], where=where)


def _cases(tests: Any, *, where: str) -> list[tuple[str, str]]:
    """Cases of `{"input": [...], "output": [...]}`, or of a list of `{"input": ..., "output": ...}`."""
    if isinstance(tests, list) and all(isinstance(test, dict) for test in tests):
        tests = {name: [test.get(name) for test in tests] for name in ("input", "output")}
    if not isinstance(tests, dict):
        raise DataError(f"{where}: expected an object with lists input and output, found {shown(tests)}")
    inputs, outputs = (list_field(tests, name, where=where) for name in ("input", "output"))
    if not inputs and not outputs:
        return []
    _check_lengths(inputs, outputs, where=where)
    return [
        (any_text(given, where=f"{where}: input {number}"), any_text(expected, where=f"{where}: output {number}"))
        for number, (given, expected) in enumerate(zip(inputs, outputs, strict=True))
    ]


def _time_limit(value: Any, *, where: str) -> float | None:
    """Seconds; None where there is no limit, which CodeContests also says with 0."""
    if isinstance(value, dict):
        value = (value.get("seconds") or 0) + (value.get("nanos") or 0) / 1e9
    if value is None or value == 0:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 3600:
        raise DataError(f"{where}: expected seconds, more than 0 and under an hour, found {shown(value)}")
    return float(value)


def _python_solution(value: Any, *, where: str) -> str | None:
    if not value:
        return None
    if not isinstance(value, dict):
        raise DataError(f"{where}: expected an object with lists language and solution, found {shown(value)}")
    languages, programs = (list_field(value, name, where=where) for name in ("language", "solution"))
    found = (program for language, program in zip(languages, programs, strict=False) if language in _PYTHON_3)
    program = next(found, None)
    return None if program is None else any_text(program, where=where)
