"""A Sphinx extension that reads our docstrings and signatures as they are written, for `docs/api`.

Docstrings are plain text with code in backticks, so what reStructuredText would take for markup is escaped, and
indented equations are kept as they stand. Signatures come from the source, so that `ArrayLike` stays `ArrayLike`.
Values that are long, or a path of the machine that builds the site, are left out.
"""

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from docutils import nodes

SECTION = re.compile(r"^(Args|Returns|Raises|Yields|Attributes|Source|Example|Examples):$")
NAMED = re.compile(r"^[\w<>/*, ]+: ")
"""An entry of an indented list: a name or several, and what it is."""
NDARRAY = re.compile(r"ndarray\[tuple\[Any, (?:\.\.\.|\u2026)\], dtype\[(\w+)\]\]")
"""What Python makes of `NDArray[np.float64]` in the annotation of a field."""
LONGEST_VALUE = 150  # characters of a constant that are shown


def setup(app: Any) -> dict[str, bool]:
    """Register the hooks with Sphinx."""
    app.connect("autodoc-process-docstring", _docstring, priority=400)  # before napoleon, which comes at 500
    app.connect("autodoc-process-signature", _signature)
    app.connect("autodoc-skip-member", _skip)
    app.connect("doctree-read", _tidy)
    return {"parallel_read_safe": True}


def _docstring(_app: Any, what: str, name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    lines[:] = as_rst(lines)
    if what == "module":  # where one module ends and the next begins would not be seen
        lines[:0] = [f".. rubric:: ``{name}``", "   :class: module-name", ""]
    if what in ("attribute", "data", "property") and ":" in lines[0]:
        lines.insert(0, "\\ ")  # nothing, or napoleon takes the words before the colon for a type


def _signature(_app: Any, what: str, _name: str, target: Any, *_: Any) -> tuple[str, str | None] | None:
    return signature(target) if what in ("function", "method", "class", "exception") else None


def _skip(_app: Any, _what: str, _name: str, member: Any, *_: Any) -> bool | None:
    """Leave out fields of named tuples that say no more than their number."""
    return True if str(getattr(member, "__doc__", "")).startswith("Alias for field number") else None


def _tidy(_app: Any, doctree: nodes.document) -> None:
    for node in doctree.findall(nodes.literal_block):
        if node.astext().endswith("\n"):  # the empty line that ends a doctest's output in Markdown
            node.rawsource = node.astext().rstrip("\n")  # kept equal to the text, or it would not be coloured
            node[:] = [nodes.Text(node.rawsource)]
    for node in list(doctree.findall(lambda node: node.tagname == "desc_annotation")):
        text = node.astext()
        if re.match(r"\s*=", text) and (len(text) > LONGEST_VALUE or "PosixPath(" in text):
            node.parent.remove(node)
        elif NDARRAY.search(text):
            node[:] = [nodes.Text(_as_written(text))]
    for node in doctree.findall(nodes.paragraph):
        if node.astext().startswith("alias of ") and NDARRAY.search(node.astext()):
            alias = _as_written(node.astext().removeprefix("alias of "))
            node[:] = [nodes.Text("alias of "), nodes.literal(alias, alias)]


def _as_written(annotation: str) -> str:
    return NDARRAY.sub(lambda found: f"NDArray[np.{found[1].replace('bool', 'bool_')}]", annotation)


def as_rst(lines: Sequence[str]) -> list[str]:
    r"""A docstring's lines as reStructuredText, its sections left for napoleon.

    Example:
        >>> as_rst(["The best of `n`s:", "", "    A_i = |R_i|"])
        ['The best of `n`\\ s:', '', '', '::', '', '    A_i = |R_i|', '']
    """
    rst: list[str] = []
    in_list = False
    position = 0
    while position < len(lines):
        line = lines[position]
        indented = line.startswith("    ")
        if found := SECTION.match(line):
            block, position = _block(lines, position + 1)
            rst += [*_section(found[1], block), ""]
            continue
        if indented and not in_list:
            block, position = _block(lines, position)
            rst += _rendered(block)
            continue
        bullet = line.lstrip().startswith("- ")
        if bullet and not in_list and rst and rst[-1]:
            rst.append("")
        in_list = bullet or (in_list and line.startswith(" "))
        rst.append(escaped(line))
        position += 1
    return rst


def _block(lines: Sequence[str], start: int) -> tuple[list[str], int]:
    """The indented lines from a place on, and the place after them; blank lines between them are theirs."""
    end = start
    while end < len(lines) and (not lines[end] or lines[end].startswith("    ")):
        end += 1
    following = end
    while end > start and not lines[end - 1]:
        end -= 1
    return list(lines[start:end]), following


def _rendered(block: list[str]) -> list[str]:
    """A list of named things as bullets, an equation or a table of words as it stands."""
    plain = textwrap.dedent("\n".join(block)).splitlines()
    if all(NAMED.match(line) for line in plain if line and not line.startswith(" ")):
        return ["", *(f"{'  ' if line.startswith(' ') else '- '}{escaped(line.strip())}" for line in plain), ""]
    return ["", "::", "", *block, ""]


def _section(name: str, block: list[str]) -> list[str]:
    """A section for napoleon, but for results: it would take what stands before a colon for a type.

    Results that are named one by one become bullets.
    """
    if name.startswith("Example"):
        return [f"{name}:", *block]
    if name != "Returns":
        return [f"{name}:", *map(escaped, block)]
    firsts = [line for line in block if re.match(r" {4}\S", line)]
    if sum(bool(NAMED.match(line.strip())) for line in firsts) < 2:
        return [":returns:", *map(escaped, block)]
    entries = [":returns:"]
    for line in block:
        if line not in firsts:
            entries.append(f"      {escaped(line.strip())}")
        elif NAMED.match(line.strip()):
            entries.append(f"    - {escaped(line.strip())}")
        else:
            entries += ["", escaped(line)]
    return entries


def escaped(line: str) -> str:
    """A line of text in which nothing but code in backticks, and https addresses, is markup."""
    parts = re.split(r"(`[^`]+`)", line)
    for index in range(0, len(parts), 2):
        parts[index] = re.sub(r"(?<=\w)_(?!\w)|[\\*|]|(?<=http)(?=://)", r"\\\g<0>", parts[index])
        if index and re.match(r"\w", parts[index]):
            parts[index] = "\\ " + parts[index]  # `n`s: code that a word goes on from
        if index < len(parts) - 1 and re.search(r"\w$", parts[index]):
            parts[index] += "\\ "
    return "".join(parts)


def signature(target: Any) -> tuple[str, str | None] | None:
    """Arguments and result of a function or class as its source says them; None where Sphinx is to find out.

    Example:
        >>> def half(of: int, *, by: float = 2.0) -> float: ...
        >>> signature(half)
        ('(of: int, *, by: float = 2.0)', 'float')
    """
    if not inspect.isclass(target):
        return _of_function(target, skip=0)
    if getattr(target, "_is_protocol", False):  # nobody calls it
        return "", None
    if "__init__" in vars(target) and not dataclasses.is_dataclass(target):
        found = _of_function(target.__init__, skip=1)
        return (found[0], None) if found else None
    fields = _fields(target)
    return (f"({', '.join(fields)})", None) if fields else None


def _fields(target: type) -> list[str]:
    if hasattr(target, "_fields"):
        return list(target._fields)
    if not dataclasses.is_dataclass(target):
        return []
    ours = [kind for kind in target.__mro__ if kind.__module__.startswith("corpo_rl")]
    declared = {name for kind in ours for name in inspect.get_annotations(kind)}
    fields = dataclasses.fields(target)
    names = [field.name for field in fields if field.name in declared and field.init]
    return names if len(names) == len(fields) else [*names, "**kwargs"]


def _of_function(function: Callable[..., Any], *, skip: int) -> tuple[str, str | None] | None:
    function = inspect.unwrap(function)
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError):
        return None
    node = tree.body[0]
    if not isinstance(node, ast.FunctionDef):
        return None
    if skip or (node.args.args and node.args.args[0].arg in ("self", "cls")):
        node.args.args = node.args.args[1:]
    full = _FullNames(getattr(function, "__globals__", {}))
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
    for argument in arguments:
        if argument is not None and argument.annotation is not None:
            argument.annotation = full.visit(argument.annotation)
    returns = None if node.returns is None else ast.unparse(full.visit(node.returns))
    return f"({_spaced(ast.unparse(node.args))})", returns


def _spaced(arguments: str) -> str:
    """Defaults of annotated arguments with spaces around the sign, as PEP 8 has them and `ast.unparse` does not."""
    return re.sub(r"(: [^,=()]*(?:\[[^=]*\])?[^,=()]*)=", r"\1 = ", arguments)


class _FullNames(ast.NodeTransformer):
    """Names of our classes in an annotation with the module they come from, shown without it."""

    def __init__(self, names: dict[str, Any]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        found = self._names.get(node.id)
        if inspect.isclass(found) and found.__module__.startswith("corpo_rl"):
            return ast.Name(f"~{found.__module__}.{found.__qualname__}")
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, str) and node.value.isidentifier() and node.value in self._names:
            return self.visit_Name(ast.Name(node.value))
        return node
