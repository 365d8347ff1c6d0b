"""Tests as single steps, each run and judged by itself."""

import ast
import json

from outputs import same_result
from process import FAILED, NOT_JUDGED, PASSED, Outcome, Stop, short


def prepare_statements(tests):
    """Compile the statements of a check function, or of top level, one by one.

    Returns:
        How many of them are tests, and a generator function that runs them for a proxy. A statement is a test when it
        holds an assert of something that is not constant; the others (set-up) count with the next test.
    """
    tree = ast.parse(tests["source"])
    checks = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "check"]
    if checks:
        check = checks[-1]
        header, body = [node for node in tree.body if node is not check and not _calls_check(node)], check.body
        names = [argument.arg for argument in check.args.args][:1]
        if any(isinstance(node, ast.Return) for statement in body for node in _own_nodes(statement)):
            # a check that returns early can only be run whole
            header, body = [*header, check], ast.parse("check(__candidate__)").body
            marks = [True]
        else:
            marks = [_is_test(statement) for statement in body]
    else:
        header, body, names = [], tree.body, []
        marks = [_is_test(statement) for statement in body]
    header_code = _compiled(header)
    preamble = compile(tests["preamble"], "preamble", "exec")
    codes = [_compiled([statement]) for statement in body]

    def run(proxy):
        names_here = {"__name__": "tests"}
        try:
            exec(preamble, names_here)
            names_here |= dict.fromkeys((*names, "candidate", "__candidate__", tests["entry_point"]), proxy)
            with proxy.bounded():
                exec(header_code, names_here)
        except Stop:
            yield proxy.trouble
            return
        except BaseException as error:
            # which of the two is to blame can only be told while the candidate has had no part in it
            yield Outcome(
                FAILED if proxy.calls else NOT_JUDGED,
                f"the problem's own code failed: {type(error).__name__}: {short(error)}",
            )
            return
        for code, is_test in zip(codes, marks):
            outcome = _run_statement(code, names_here, proxy)
            if is_test or outcome.kind != PASSED:
                yield outcome
            if proxy.dead or (not is_test and outcome.kind != PASSED):
                return

    return sum(marks), run


def prepare_calls(tests):
    """The same for calls with expected results."""
    calls = [(json.loads(arguments), json.loads(expected)) for arguments, expected in tests["calls"]]

    def run(proxy):
        for arguments, expected in calls:
            proxy.trouble = None
            try:
                with proxy.bounded():
                    same = same_result(proxy(*arguments), expected)
                yield Outcome(PASSED) if same else Outcome(FAILED, "another result than expected")
            except Stop:
                yield proxy.trouble
            except Exception as error:
                yield Outcome(FAILED, f"{type(error).__name__}: {short(error)}")
            if proxy.dead:
                return

    return len(calls), run


def _run_statement(code, names, proxy):
    proxy.trouble = None
    try:
        with proxy.bounded():
            exec(code, names)
        outcome = Outcome(PASSED)
    except Stop:
        outcome = proxy.trouble
    except MemoryError:
        outcome = Outcome(NOT_JUDGED, "the test ran out of memory")
    except BaseException as error:
        outcome = Outcome(FAILED, f"{type(error).__name__}: {short(error)}".rstrip(": "))
    # a test that swallowed the trouble has still not been passed
    return proxy.trouble or outcome


def _is_test(statement):
    return any(isinstance(node, ast.Assert) and not isinstance(node.test, ast.Constant) for node in ast.walk(statement))


def _own_nodes(statement):
    """Nodes of a statement outside the functions that it defines."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
        return
    yield statement
    for child in ast.iter_child_nodes(statement):
        yield from _own_nodes(child)


def _calls_check(node):
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
        and node.value.func.id == "check"
    )


def _compiled(statements):
    return compile(ast.Module(body=statements, type_ignores=[]), "tests", "exec")
