"""One row of a published problem set as a `Problem`: a function for each form."""

import ast
import builtins
from collections.abc import Mapping, Sequence
from typing import Any

from corpo_rl.errors import DataError
from corpo_rl.pairs.files import shown, text_field
from corpo_rl.pairs.python_source import (
    called_names,
    defined_functions,
    defined_names,
    has_assert,
    parsed,
    parsed_prompt,
    used_names,
    without_definition,
)
from corpo_rl.records import FunctionTests, Problem


def humaneval_problem(row: Mapping[str, Any], *, where: str) -> Problem:
    """HumanEval's form: `task_id`, `prompt`, `entry_point`, `test`, and the reference in `canonical_solution`.

    MBPP's problems come in this form as well (CodeT's files). Some of those name a helper as the entry point, so that
    nobody who reads the prompt can know which function the tests call: such a problem is asked as MBPP asks it, with
    its first test in the text and no code to continue.

    Raises:
        DataError: A field is missing or of the wrong kind, or there is no test of the entry point.
    """
    prompt = text_field(row, "prompt", where=where)
    entry_point = text_field(row, "entry_point", where=where).strip()
    source = text_field(row, "test", where=where)
    problem_id = id_field(row, "task_id", where=where)
    tree = parsed_prompt(prompt)
    if tree is None:
        raise DataError(f"{where}: prompt: expected Python code that ends inside a function, found none that parses")
    solution = optional_text(row, "canonical_solution", where=where)
    reference = None if solution is None else _completed(prompt, tree, solution, entry_point, where=where)
    tests = _checked(source, where=f"{where}: test")
    if not _reaches(tests, entry_point):
        return _asked_as_mbpp(tests, tree, reference, entry_point, problem_id=problem_id, where=where)
    if entry_point not in defined_functions(tree):
        raise DataError(
            f"{where}: entry_point: expected a function that the prompt begins, found {shown(entry_point)} "
            f"(functions: {', '.join(sorted(defined_functions(tree))) or 'none'})"
        )
    preamble = without_definition(tree, entry_point)
    return Problem(problem_id, prompt, FunctionTests(entry_point, source, preamble), prompt=prompt, reference=reference)


def id_field(row: Mapping[str, Any], *names: str, where: str) -> str:
    """The first of these fields that is there, which must be text or a whole number.

    Raises:
        DataError: None is there, or it is neither.
    """
    name = next((name for name in names if row.get(name) is not None), None)
    if name is None:
        raise DataError(f"{where}: no field {names[0]!r} (fields: {', '.join(row) or 'none'})")
    value = row[name]
    return str(value) if type(value) is int else text_field(row, name, where=where)


def optional_text(row: Mapping[str, Any], name: str, *, where: str) -> str | None:
    """A text field, or None where it is absent, null or blank."""
    value = row.get(name)
    if value is None or value == "":
        return None
    return text_field(row, name, where=where)


def _completed(prompt: str, tree: ast.Module, solution: str, entry_point: str, *, where: str) -> str:
    """The whole reference. MBPP's bodies in this form are not indented as the docstring that was put before them."""
    if parsed(prompt + solution) is not None:
        return prompt + solution
    begun = next((node for node in tree.body if getattr(node, "name", None) == entry_point), None)
    if isinstance(begun, ast.FunctionDef) and ast.get_docstring(begun) is not None:
        signature = "".join(prompt.splitlines(keepends=True)[: begun.body[0].lineno - 1])
        if parsed(signature + solution) is not None:
            return signature + solution
    raise DataError(f"{where}: canonical_solution: expected code that completes the prompt, found none that parses")


def _checked(source: str, *, where: str) -> ast.Module:
    """The tests, parsed; with a test in them."""
    tests = parsed(source)
    if tests is None:
        raise DataError(f"{where}: expected Python code, found text that does not parse")
    if not has_assert(tests):
        raise DataError(f"{where}: a problem without tests: expected assert statements, found none")
    return tests


def _check_function(tests: ast.Module) -> ast.FunctionDef | None:
    checks = [node for node in tests.body if isinstance(node, ast.FunctionDef) and node.name == "check"]
    return checks[-1] if checks else None


def _reaches(tests: ast.Module, entry_point: str) -> bool:
    """Whether the tests speak of the candidate: by the argument of their check function, or by name."""
    check = _check_function(tests)
    argument = [] if check is None else [one.arg for one in check.args.args][:1]
    return not used_names(tests).isdisjoint((*argument, entry_point))


def _asked_as_mbpp(
    tests: ast.Module,
    prompt: ast.Module,
    reference: str | None,
    entry_point: str,
    *,
    problem_id: str,
    where: str,
) -> Problem:
    wrong = f"{where}: test: expected calls of {entry_point!r}, found none"
    check = _check_function(tests)
    begun = next((node for node in prompt.body if getattr(node, "name", None) == entry_point), None)
    task = ast.get_docstring(begun) if isinstance(begun, ast.FunctionDef) else None
    if reference is None or check is None or task is None:
        raise DataError(wrong)
    try:
        return tested_problem(
            [ast.unparse(statement) for statement in check.body],
            setup="",
            task=task,
            reference=reference,
            problem_id=problem_id,
            where=where,
        )
    except DataError:
        raise DataError(wrong) from None


def tested_problem(
    asserts: Sequence[str], *, setup: str, task: str, reference: str, problem_id: str, where: str
) -> Problem:
    """A problem told by a sentence and test statements that call one of the functions of its reference.

    Raises:
        DataError: The tests do not parse, or do not tell which function they are about.
    """
    source = "\n".join(asserts)
    tests = _checked(source, where=f"{where}: tests")
    code, before = parsed(reference), parsed(setup)
    if code is None or before is None:
        raise DataError(f"{where}: expected Python code as reference and set-up, found text that does not parse")
    foreign = set(dir(builtins)) | defined_names(before)
    called = called_names(tests)
    names = sorted((called - foreign) & defined_functions(code)) or sorted(called & defined_functions(code))
    if len(names) != 1:
        raise DataError(
            f"{where}: expected tests that call one function of the reference, found "
            f"{' and '.join(names) or 'none'} (called: {', '.join(sorted(called)) or 'nothing'})"
        )
    missing = sorted((defined_names(code) & used_names(tests)) - defined_names(before) - set(names))
    if missing:
        raise DataError(f"{where}: the tests use {', '.join(missing)}, which nothing but the reference defines")
    text = f"{task.strip()}\nYour code should pass tests like this one:\n{asserts[0].strip()}"
    return Problem(problem_id, text, FunctionTests(names[0], source, setup), reference=reference)
