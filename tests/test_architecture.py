"""Who may import whom. The table is the architecture; a new part gets its row here first."""

import ast
import subprocess
import sys
from pathlib import Path

import click
import pytest

import corpo_rl
from corpo_rl.cli.main import cli
from corpo_rl.core.advantages import ESTIMATORS

SOURCE = Path(corpo_rl.__file__).parent

EVERYTHING_BUT_CLI = {
    "errors", "records", "core", "rollouts", "tasks", "report", "pairs", "policies", "audit", "evaluation", "training",
    "experiment", "demologs", "sandbox", "ranking", "assessment", "doctor", "curation",
}  # fmt: skip

MAY_IMPORT = {
    "_version": set(),
    "errors": set(),
    "records": {"errors"},
    "core": {"errors", "records"},  # records for Interval, which intervals, evaluation and report all speak of
    "rollouts": {"errors", "records"},
    "tasks": {"errors", "records"},
    "report": {"errors", "records"},
    "sandbox": {"errors", "records"},
    "pairs": {"errors", "records", "tasks", "sandbox"},
    "policies": {"errors", "records"},
    "audit": {"errors", "records", "core"},
    "curation": {"errors", "records", "core", "rollouts"},
    "demologs": {"errors", "records", "core"},
    "evaluation": {"errors", "records", "core", "tasks", "policies"},
    "doctor": {"errors", "records", "core", "rollouts", "audit", "training"},
    "assessment": {"errors", "records", "core", "tasks"},
    "ranking": {"errors", "records", "core", "tasks"},
    "training": {"errors", "records", "core", "tasks", "policies"},
    "experiment": EVERYTHING_BUT_CLI,
    "sweep": {"errors", "records", "core", "evaluation", "experiment", "report", "tasks"},
    "study": {"errors", "records", "core", "evaluation", "experiment", "policies", "report", "tasks", "training"},
    "cli": EVERYTHING_BUT_CLI | {"sweep"},
    "__init__": {"core", "errors"},
    "__main__": {"cli"},
}
"""For each part of ours (a module or folder of the package), the other parts it may import, anywhere in its files."""

CORE_STANDS_ON = {"collections", "dataclasses", "fractions", "math", "numpy", "typing"}
"""core is pure functions of arrays: nothing here opens a file, reads a clock or holds a global random state."""

HEAVY = ("torch", "trl", "transformers", "datasets", "peft", "accelerate", "plotly", "pandas")

SLOW = (*HEAVY, "numpy", "pyarrow", "msgspec", "jsonschema")
"""What no --help may wait for: NumPy alone takes longer than all the rest."""

FILES = sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))


def part_of(file):
    return file.split("/")[0].removesuffix(".py")


def imports(source):
    """Dotted names a module imports, wherever the statement stands."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide who imports whom"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def violations(file, source):
    """What a file imports of ours, against the table."""
    part = part_of(file)
    imported = {name.split(".")[1] for name in imports(source) if name.startswith("corpo_rl.")}
    return sorted(imported - MAY_IMPORT[part] - {part, "_version"})


@pytest.mark.parametrize("file", FILES)
def test_parts_import_only_what_the_table_allows(file):
    assert part_of(file) in MAY_IMPORT, f"{part_of(file)} is a new part: give it a row"
    found = violations(file, (SOURCE / file).read_text(encoding="utf-8"))
    assert not found, f"{file} imports {', '.join(found)}; the table allows {sorted(MAY_IMPORT[part_of(file)])}"


@pytest.mark.parametrize("file", [file for file in FILES if part_of(file) == "core"])
def test_core_stands_on_numpy_alone(file):
    roots = {name.split(".")[0] for name in imports((SOURCE / file).read_text(encoding="utf-8"))}
    assert roots <= CORE_STANDS_ON | {"corpo_rl"}


@pytest.mark.parametrize(
    ("file", "source", "expected"),
    [
        ("core/groups.py", "from corpo_rl.tasks.base import Task", ["tasks"]),
        ("core/groups.py", "def f():\n    import corpo_rl.report.html", ["report"]),
        ("training/trl.py", "from corpo_rl import evaluation, records", ["evaluation"]),
        ("tasks/mini.py", "from corpo_rl.tasks.verifier import Scores\nfrom corpo_rl._version import __version__", []),
    ],
)
def test_the_check_sees_a_violation(file, source, expected):
    assert violations(file, source) == expected


def modules_after(code):
    """Output of code run in a fresh interpreter, and which of SLOW it has imported."""
    code += f"\nimport sys; print('SLOW', *[name for name in {SLOW!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *output, slow = ran.stdout.splitlines()
    return output, slow.split()[1:]


@pytest.mark.parametrize("module", ["corpo_rl", "corpo_rl.cli.main"])
def test_imports_without_anything_slow(module):
    assert modules_after(f"import {module}") == ([], [])


def test_the_public_names_need_numpy_alone():
    code = "from corpo_rl import *\nprint(corpo_advantages([0.0, 1.0], [0, 0], min_correct=1))"
    output, slow = modules_after(code)
    assert output == ["[-1.  0.]"]
    assert slow == ["numpy"]


def every_command():
    """Arguments that reach each command and each group of commands, e.g. ["pairs", "gsm8k"]."""
    waiting, found = [([], cli)], []
    while waiting:
        path, command = waiting.pop()
        found.append(path)
        if isinstance(command, click.Group):
            context = click.Context(command)
            names = command.list_commands(context)
            waiting += [([*path, name], command.get_command(context, name)) for name in names]
    return found


@pytest.mark.parametrize("arguments", every_command(), ids=" ".join)
def test_help_imports_nothing_slow(arguments):
    output, slow = modules_after(
        "import sys\n"
        "from corpo_rl.cli.main import main\n"
        f"sys.argv = ['corpo-rl', *{arguments!r}, '--help']\n"
        "try:\n"
        "    main()\n"
        "except SystemExit:\n"
        "    pass\n"
    )
    assert output[0].startswith("Usage:")
    assert slow == []


def test_public_names_are_sorted_and_there():
    names = [name for name in corpo_rl.__all__ if name != "__version__"]
    assert names == sorted(names)
    for name in corpo_rl.__all__:
        assert getattr(corpo_rl, name) is not None
    assert {f"{name}_advantages" for name in ESTIMATORS} | {"pass_at_k"} <= set(names)


def test_public_names_are_in_dir_and_found_where_type_checkers_find_them():
    assert set(corpo_rl.__all__) <= set(dir(corpo_rl))
    for name, home in corpo_rl._HOMES.items():
        assert getattr(corpo_rl, name).__module__ == home
    seen_by_checkers = imports((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    assert {f"{home}.{name}" for name, home in corpo_rl._HOMES.items()} <= seen_by_checkers
    with pytest.raises(AttributeError, match="module 'corpo_rl' has no attribute 'corpo_advantage'"):
        corpo_rl.corpo_advantage  # noqa: B018
