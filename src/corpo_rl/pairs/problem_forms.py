"""Rows of HumanEval and MBPP as problems: functions judged by assert statements."""

import ast
import builtins
from collections.abc import Mapping, Sequence
from typing import Any

from corpo_rl.errors import DataError
from corpo_rl.pairs.fields import any_text, id_field, list_field, optional_text
from corpo_rl.pairs.files import shown, text_field
from corpo_rl.pairs.python_source import (
    called_names,
    defined_functions,
    defined_names,
    has_assert,
    imported_names,
    imports_missing,
    imports_of,
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
    tests = checked_tests(source, where=f"{where}: test")
    if not reaches(tests, entry_point):
        return _asked_as_mbpp(tests, tree, reference, entry_point, problem_id=problem_id, where=where)
    if entry_point not in defined_functions(tree):
        raise DataError(
            f"{where}: entry_point: expected a function that the prompt begins, found {shown(entry_point)} "
            f"(functions: {', '.join(sorted(defined_functions(tree))) or 'none'})"
        )
    missing = imports_missing(tests, known=defined_names(tree))
    preamble = "\n".join(part for part in (missing, without_definition(tree, entry_point)) if part)
    return Problem(problem_id, prompt, FunctionTests(entry_point, source, preamble), prompt=prompt, reference=reference)


def mbpp_problem(row: Mapping[str, Any], *, where: str) -> Problem:
    """MBPP's own form, full or sanitized: `task_id`, `text` or `prompt`, `code` and `test_list`.

    The tests' own code is in `test_setup_code` or `test_imports`; `challenge_test_list` is used too.

    Raises:
        DataError: A field is missing or of the wrong kind, or the tests do not tell which function they are about.
    """
    lists = {
        name: list_field(row, name, where=where) if row.get(name) is not None else []
        for name in ("test_list", "challenge_test_list", "test_imports")
    }
    for name, lines in lists.items():
        for line in lines:
            any_text(line, where=f"{where}: {name}")
    asserts = [*lists["test_list"], *lists["challenge_test_list"]]
    if not asserts:
        raise DataError(f"{where}: a problem without tests: expected assert statements in test_list, found none")
    setup = [optional_text(row, "test_setup_code", where=where) or "", *lists["test_imports"]]
    return tested_problem(
        asserts,
        setup="\n".join(part for part in setup if part.strip()),
        task=text_field(row, "text" if "text" in row else "prompt", where=where),
        reference=text_field(row, "code", where=where),
        problem_id=id_field(row, "task_id", where=where),
        where=where,
    )


def checked_tests(source: str, *, where: str) -> ast.Module:
    """Test code, parsed.

    Raises:
        DataError: It does not parse, or asserts nothing.
    """
    tests = parsed(source)
    if tests is None:
        raise DataError(f"{where}: expected Python code, found text that does not parse")
    if not has_assert(tests):
        raise DataError(f"{where}: a problem without tests: expected assert statements, found none")
    return tests


def reaches(tests: ast.Module, entry_point: str) -> bool:
    """Whether tests speak of the candidate: by the argument of their check function, or by name."""
    check = _check_function(tests)
    argument = [] if check is None else [one.arg for one in check.args.args][:1]
    return not used_names(tests).isdisjoint((*argument, entry_point))


def tested_problem(
    asserts: Sequence[str], *, setup: str, task: str, reference: str, problem_id: str, where: str
) -> Problem:
    """A problem told by a sentence and by test statements that call one of the functions of its reference.

    MBPP's sentences do not name the function, so the first test is part of the text. Modules that the tests use and
    only the reference imports are imported for them.

    Raises:
        DataError: The tests do not parse, or do not tell which function they are about.
    """
    tests = checked_tests("\n".join(asserts), where=f"{where}: tests")
    code, before = parsed(reference), parsed(setup)
    if code is None or before is None:
        raise DataError(f"{where}: expected Python code as reference and set-up, found text that does not parse")
    called, functions = called_names(tests), defined_functions(code)
    foreign = set(dir(builtins)) | defined_names(before)
    # a function may be named like one of Python's own, but others go first
    names = sorted((called & functions) - foreign) or sorted(called & functions)
    if len(names) != 1:
        raise DataError(
            f"{where}: expected tests that call one function of the reference, found "
            f"{' and '.join(names) or 'none'} (called: {', '.join(sorted(called)) or 'nothing'})"
        )
    needed = used_names(tests) - defined_names(before) - set(names)
    missing = sorted(needed & defined_names(code) - imported_names(code))
    if missing:
        raise DataError(f"{where}: the tests use {', '.join(missing)}, which nothing but the reference defines")
    imports = imports_of(code, needed)
    known = defined_names(before) | imported_names(code) | set(names)
    preamble = "\n".join(part for part in (imports_missing(tests, known=known), imports, setup) if part)
    text = f"{task.strip()}\nYour code should pass tests like this one:\n{asserts[0].strip()}"
    return Problem(problem_id, text, FunctionTests(names[0], "\n".join(asserts), preamble), reference=reference)


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


def _check_function(tests: ast.Module) -> ast.FunctionDef | None:
    checks = [node for node in tests.body if isinstance(node, ast.FunctionDef) and node.name == "check"]
    return checks[-1] if checks else None


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
