"""Our own form of a problem: one for every kind of tests, the same names as `records`."""

from collections.abc import Mapping
from typing import Any

from corpo_rl.errors import DataError
from corpo_rl.pairs.fields import any_text, id_field, list_field, optional_text
from corpo_rl.pairs.files import shown, text_field
from corpo_rl.pairs.problem_forms import checked_tests, reaches
from corpo_rl.pairs.program_forms import call
from corpo_rl.pairs.python_source import defined_names, parsed, parsed_prompt, without_definition
from corpo_rl.records import CallTests, FinalAnswer, FunctionTests, Problem, ProgramTests

_KINDS = "{entry_point, source}, {entry_point, calls}, {cases} or {answer}"


def own_problem(row: Mapping[str, Any], *, where: str) -> Problem:
    """`problem_id`, `text`, `tests`, and optionally `prompt` and `reference`. See docs/problems.md.

    Raises:
        DataError: There is no test, or a field is missing or of the wrong kind.
    """
    tests = row.get("tests")
    place = f"{where}: tests"
    if not tests:
        raise DataError(f"{where}: a problem without tests: expected {_KINDS}, found {shown(tests)}")
    if not isinstance(tests, dict):
        raise DataError(f"{place}: expected {_KINDS}, found {shown(tests)}")
    prompt = optional_text(row, "prompt", where=where) or ""
    return Problem(
        id_field(row, "problem_id", where=where),
        text_field(row, "text", where=where),
        _tests(tests, prompt, where=place),
        prompt=prompt,
        reference=optional_text(row, "reference", where=where),
    )


def _tests(
    tests: Mapping[str, Any], prompt: str, *, where: str
) -> FunctionTests | CallTests | ProgramTests | FinalAnswer:
    # null is how parquet says that a field of other rows is not in this one
    names = {name for name, value in tests.items() if value is not None}
    if {"entry_point", "source"} <= names <= {"entry_point", "source", "preamble"}:
        return _function_tests(tests, prompt, where=where)
    if names == {"entry_point", "calls"}:
        calls = [_call(one, where=f"{where}: call {number}") for number, one in _numbered(tests, "calls", where=where)]
        return CallTests(text_field(tests, "entry_point", where=where), tuple(calls))
    if {"cases"} <= names <= {"cases", "time_limit"}:
        cases = [_case(one, where=f"{where}: case {number}") for number, one in _numbered(tests, "cases", where=where)]
        return ProgramTests(tuple(cases), _seconds(tests.get("time_limit"), where=f"{where}: time_limit"))
    if names == {"answer"}:
        return FinalAnswer(id_field(tests, "answer", where=where))
    raise DataError(f"{where}: expected {_KINDS}, found {{{', '.join(sorted(names))}}}")


def _function_tests(tests: Mapping[str, Any], prompt: str, *, where: str) -> FunctionTests:
    entry_point = text_field(tests, "entry_point", where=where)
    source = text_field(tests, "source", where=where)
    if not reaches(checked_tests(source, where=f"{where}: source"), entry_point):
        raise DataError(f"{where}: source: expected calls of {entry_point!r}, found none")
    preamble = optional_text(tests, "preamble", where=where)
    if preamble is None:
        begun = parsed_prompt(prompt) if prompt else None
        return FunctionTests(entry_point, source, "" if begun is None else without_definition(begun, entry_point))
    code = parsed(preamble)
    if code is None:
        raise DataError(f"{where}: preamble: expected Python code, found text that does not parse")
    if entry_point in defined_names(code):
        raise DataError(f"{where}: preamble: defines {entry_point!r}, which is the candidate's to define")
    return FunctionTests(entry_point, source, preamble)


def _numbered(tests: Mapping[str, Any], name: str, *, where: str) -> list[tuple[int, Mapping[str, Any]]]:
    items = list_field(tests, name, where=where)
    if not items:
        raise DataError(f"{where}: a problem without tests: expected some {name}, found an empty list")
    for number, item in enumerate(items):
        if not isinstance(item, dict):
            raise DataError(f"{where}: {name} {number}: expected an object, found {shown(item)}")
    return list(enumerate(items))


def _call(item: Mapping[str, Any], *, where: str) -> tuple[str, str]:
    arguments = list_field(item, "args", where=where)
    if "result" not in item:
        raise DataError(f"{where}: no field 'result' (fields: {', '.join(item)})")
    return call(arguments, item["result"])


def _case(item: Mapping[str, Any], *, where: str) -> tuple[str, str]:
    for name in ("input", "output"):
        if name not in item:
            raise DataError(f"{where}: no field {name!r} (fields: {', '.join(item) or 'none'})")
    given, expected = (any_text(item[name], where=f"{where}: {name}") for name in ("input", "output"))
    return given, expected


def _seconds(value: Any, *, where: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 3600:
        raise DataError(f"{where}: expected seconds, more than 0 and under an hour, found {shown(value)}")
    return float(value)
