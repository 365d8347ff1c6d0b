"""What the Python code of a problem says: which names it defines, calls and imports. Parsed, never run."""

import ast
import sys
import warnings
from collections.abc import Iterator

_INDENTS = ("    ", "  ", "\t", "        ", "   ")


def parsed(source: str) -> ast.Module | None:
    """The syntax tree, or None for text that is no Python code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "\d" in somebody's docstring is not our user's concern
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def parsed_prompt(prompt: str) -> ast.Module | None:
    r"""The syntax tree of code that ends inside a function, given a body of nothing.

    Example:
        >>> ast.unparse(parsed_prompt("def half(x):\n"))
        'def half(x):\n    pass'
    """
    trees = (parsed(prompt.rstrip() + f"\n{indent}pass\n") for indent in _INDENTS)
    return next((tree for tree in trees if tree is not None), parsed(prompt))


def without_definition(tree: ast.Module, name: str) -> str:
    r"""Source of the code without the functions and classes of this name at its top level.

    Example:
        >>> without_definition(ast.parse("import math\ndef f(): return g()\ndef g(): return 1"), "f")
        'import math\n\ndef g():\n    return 1'
    """
    kept = [node for node in tree.body if getattr(node, "name", None) != name]
    return ast.unparse(ast.Module(body=kept, type_ignores=[]))


def without_texts(tree: ast.Module) -> str:
    r"""The code without docstrings, comments and layout: the same for prompts that differ in wording only.

    Example:
        >>> one, other = "def f(x):\n  'doubles x'", "def f( x ):  # twice\n    'Doubles x: f(1) is 2'"
        >>> without_texts(ast.parse(one)) == without_texts(ast.parse(other))
        True
    """
    tree = ast.parse(ast.unparse(tree))  # a copy: nodes are changed below
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [part for part in node.body if not _is_text(part)] or [ast.Pass()]
    return ast.dump(tree)


def defined_names(tree: ast.Module) -> set[str]:
    """Names that the top level of the code binds: functions, classes, imports and assignments."""
    return {name for node in tree.body for name in _bound_by(node)}


def defined_functions(tree: ast.Module) -> set[str]:
    """Names of the functions at the top level of the code."""
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def imported_names(tree: ast.Module) -> set[str]:
    """Names that imports at the top level of the code bind."""
    return {name for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom) for name in _bound_by(node)}


def imports_of(tree: ast.Module, names: set[str]) -> str:
    """Source of the imports at the top level of the code that bind one of these names."""
    kept = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    return "\n".join(ast.unparse(node) for node in kept if not names.isdisjoint(_bound_by(node)))


def imports_missing(tests: ast.Module, *, known: set[str]) -> str:
    """Imports of the standard modules that test code uses and nothing brings in: some sets lost theirs on the way.

    Args:
        tests: The test code.
        known: Names that it finds defined.

    Example:
        >>> imports_missing(ast.parse("assert math.isclose(area(1), math.pi)"), known={"area"})
        'import math'
    """
    bound = {name for node in ast.walk(tests) if isinstance(node, ast.stmt) for name in _bound_by(node)}
    bound |= {node.arg for node in ast.walk(tests) if isinstance(node, ast.arg)}
    owners = {
        node.value.id
        for node in ast.walk(tests)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    missing = sorted((owners & sys.stdlib_module_names) - bound - known)
    return "\n".join(f"import {name}" for name in missing)


def called_names(tree: ast.AST) -> set[str]:
    """Plain names that the code calls, wherever."""
    return {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}


def used_names(tree: ast.AST) -> set[str]:
    """Plain names that the code reads, wherever."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def has_assert(tree: ast.AST) -> bool:
    """Whether the code asserts anything, wherever."""
    return any(isinstance(node, ast.Assert) for node in ast.walk(tree))


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _bound_by(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)
    else:
        yield from (
            inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
        )
