"""Run what a page of the documentation shows: PAGE [PAGE ...]; prints one JSON line for each page.

Blocks are run from top to bottom in an empty folder, a fresh process for each page:

- ```python: run in one namespace; a block that begins with `>>>` must print what it shows.
- ```console, and indented blocks with lines that begin with `$`: these lines are run by bash, and what is shown after
  one must be what it prints; a line of `...` stands for any number of lines.
- ```bash, and indented blocks that begin like a command: every line is run.
- ```json: must be JSON, a value a line.

An HTML comment, which no reader sees, may say otherwise:

    <!-- not run: REASON -->            the next block. Its imports and corpo-rl's options are checked all the same.
    <!-- not run "WORDS": REASON -->    the commands of the next block that hold these words
    <!-- exit status 2 -->              what the commands of the next block end with
    <!-- file: NAME -->                 the next block is this file, and is run as well if it is Python
    <!-- setup: COMMANDS -->            run by bash where it stands; with "setup python:" by Python
"""

import ast
import contextlib
import doctest
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import click
from markdown_it import MarkdownIt

COMMAND = re.compile(r"(\$ |[A-Z_]+=\S+ |export |corpo-rl |python |pip |pytest |make )")
COMMENT = re.compile(r"<!--\s*(not run|exit status|file|setup python|setup)\b\s*(.*?)\s*-->", re.DOTALL)


class Block(NamedTuple):
    """What is run, with what the comments before it say."""

    kind: str
    source: str
    line: int
    not_run: str | None = None
    skipped: tuple[tuple[str, str], ...] = ()
    status: int = 0
    file: str = ""


class Command(NamedTuple):
    """A command line and what the page shows after it; None where it shows nothing."""

    typed: str
    shown: str | None


class Wrong(Exception):
    """A block that does not do what the page says."""


@dataclass
class Ran:
    """What became of a page."""

    page: str
    run: int = 0
    not_run: list[str] = field(default_factory=list)
    error: str = ""


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a page that can be run, in order."""
    said: dict[str, Any] = {}
    for token in MarkdownIt().parse(text):
        line = token.map[0] + 1 if token.map else 0
        if token.type == "html_block":
            for kind, words in COMMENT.findall(token.content):
                if kind.startswith("setup"):
                    yield Block("python" if "python" in kind else "bash", words.removeprefix(":").strip(), line)
                elif kind == "exit status":
                    said["status"] = int(words)
                elif kind == "file":
                    said["file"] = words.removeprefix(":").strip()
                elif named := re.match(r'"(.+?)": *(.*)', words, re.DOTALL):
                    said["skipped"] = (*said.get("skipped", ()), (named[1], named[2]))
                else:
                    said["not_run"] = words.removeprefix(":").strip() or "no reason given"
        elif kind := _kind(token):
            yield Block(kind, token.content, line, **said)
            said = {}


def _kind(token: Any) -> str:
    language = token.info.split()[0] if token.info else ""
    if token.type == "fence" and language in ("python", "console", "bash", "json"):
        return str(language)
    if token.type not in ("fence", "code_block") or language:
        return ""
    lines = token.content.splitlines()
    if any(line.startswith("$ ") for line in lines):
        return "console"
    return "bash" if COMMAND.match(lines[0]) else ""


def commands(block: Block) -> list[Command]:
    """The command lines of a block, each with its continuations, and what is shown after them."""
    prompt = "$ " if block.kind == "console" and re.search(r"^\$ ", block.source, re.MULTILINE) else ""
    found: list[list[list[str]]] = []
    open_end = ""
    for line in block.source.splitlines():
        if open_end or (line.startswith(prompt) and line.strip()):
            typed = line if open_end else line.removeprefix(prompt)
            if open_end:
                found[-1][0].append(typed)
            else:
                found.append([[typed], []])
            heredoc = re.search(r"<<'?(\w+)'?$", typed)
            if heredoc:
                open_end = heredoc[1]
            elif open_end == "\\" or line.strip() == open_end or not open_end:
                open_end = "\\" if typed.endswith("\\") else ""
        elif found and prompt:
            found[-1][1].append(line)
    return [Command("\n".join(typed), "\n".join(shown).strip("\n") or None) for typed, shown in found]


def run_page(page: Path) -> Ran:
    """Run a page in the current folder."""
    ran = Ran(str(page))
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page.read_text(encoding="utf-8")):
        try:
            if block.file:
                Path(block.file).write_text(block.source, encoding="utf-8")
            if block.not_run is not None:
                check_unrun(block)
                ran.not_run.append(f"line {block.line}: {block.not_run}")
            elif block.kind == "python":
                run_python(block, names, str(page))
                ran.run += 1
            elif block.kind == "json":
                for line in block.source.splitlines():
                    json.loads(line)
            else:
                ran.not_run += [f"line {block.line}: {reason}" for _, reason in block.skipped]
                run_commands(block)
                ran.run += 1
        except Exception as error:  # whatever the page's own code raises
            ran.error = f"{page}:{block.line}: {type(error).__name__}: {error}"
            break
    return ran


def run_python(block: Block, names: dict[str, Any], page: str) -> None:
    """Run a block of Python; an interactive one has to print what it shows."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        if not block.source.lstrip().startswith(">>>"):
            exec(compile("\n" * block.line + block.source, page, "exec"), names)  # noqa: S102  # our own pages
            return
        example = doctest.DocTestParser().get_doctest(block.source, names, page, page, block.line)
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
        failed = runner.run(example, out=out.write, clear_globs=False).failed
        names.update(example.globs)
    if failed:
        raise Wrong(out.getvalue())


def run_commands(block: Block) -> None:
    """Run the commands of a block, one after another or, in a block of bash, together."""
    for command in commands(block):
        if any(words in command.typed for words, _ in block.skipped):
            check_command(command.typed)
            continue
        if re.match(r"(sudo |pip|apt)", command.typed):
            raise Wrong(f"{command.typed!r} would install something; mark it as not run")
        ran = subprocess.run(["bash", "-euo", "pipefail", "-c", command.typed], capture_output=True, text=True)
        if ran.returncode != block.status:
            raise Wrong(f"{command.typed!r} ended with {ran.returncode}:\n{ran.stdout[-2000:]}\n{ran.stderr[-2000:]}")
        if command.shown is not None and not fits(command.shown, ran.stdout):
            raise Wrong(f"{command.typed!r} does not print what is shown, but:\n{ran.stdout}")


def fits(shown: str, printed: str) -> bool:
    r"""Whether a page shows what was printed: line by line, spaces at ends apart, `...` for any number of lines.

    Example:
        >>> fits("a\n...\nd", "a\nb\nc\nd\n"), fits("a\nd", "a\nb\nd")
        (True, False)
    """
    parts = [
        re.escape(line.rstrip()) + r"[ ]*\n" if line.strip() != "..." else r"(?s:.*)" for line in shown.split("\n")
    ]
    return re.fullmatch("".join(parts), printed.strip("\n") + "\n") is not None


def check_unrun(block: Block) -> None:
    """What can be checked of a block that is not run: what it imports is there, and so are corpo-rl's options."""
    if block.kind == "python":
        for node in ast.walk(ast.parse(block.source)):
            if isinstance(node, ast.ImportFrom) and node.module:
                check_import(node.module, [alias.name for alias in node.names])
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    check_import(alias.name, [])
    elif block.kind in ("console", "bash"):
        for command in commands(block):
            check_command(command.typed)


def check_import(module: str, names: list[str]) -> None:
    """That a module is there and defines the names, by its source: to import it may load torch."""
    if find_spec(module.split(".")[0]) is None:
        raise Wrong(f"no module {module!r}")
    if not module.startswith("corpo_rl"):
        return
    found = find_spec(module)
    if found is None or found.origin is None:
        raise Wrong(f"no module {module!r}")
    source = Path(found.origin).read_text(encoding="utf-8")
    missing = [name for name in names if not re.search(rf"^ *(def |class |from .* import .*|)\b{name}\b", source, re.M)]
    if missing:
        raise Wrong(f"no {', '.join(missing)} in {module}")


def check_command(typed: str) -> None:
    """That a command line of ours names a command and options that exist; others are not looked at."""
    from corpo_rl.cli.main import cli

    words = shlex.split(typed.replace("\\\n", " "), comments=True)
    if "corpo-rl" not in words[:1]:
        return
    words = [word for word in words[1:] if word not in ("...", "…")]
    context = click.Context(cli, info_name="corpo-rl", resilient_parsing=True)
    command: click.Command = cli
    while isinstance(command, click.Group):
        name = words.pop(0)
        found = command.get_command(context, name)
        if found is None:
            raise Wrong(f"no command {name!r} in {typed!r}")
        command = found
    meant = command.make_context("", list(words), resilient_parsing=True).command  # audit may turn out as audit diff
    parser = meant.make_parser(click.Context(meant))
    parser.parse_args(words if meant is command else words[1:])


def main(pages: list[str]) -> int:
    """Run each page in a process and a folder of its own."""
    if len(pages) == 2 and pages[0] == "--here":
        print(json.dumps(vars(run_page(Path(pages[1])))), file=sys.__stdout__)
        return 0
    wrong = 0
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "NO_COLOR": "1",
        "TQDM_DISABLE": "1",
    }
    for page in pages:
        with tempfile.TemporaryDirectory() as folder:
            own = [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), "--here", str(Path(page).resolve())]
            ran = subprocess.run(own, cwd=folder, env=environment, capture_output=True, text=True)
        last = (ran.stdout.strip().splitlines() or [""])[-1]
        if ran.returncode or not last.startswith("{"):
            last = json.dumps(vars(Ran(page, error=textwrap.shorten(ran.stderr[-2000:], 2000))))
        wrong += bool(json.loads(last)["error"])
        print(last, flush=True)  # noqa: T201
    return min(wrong, 1)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
