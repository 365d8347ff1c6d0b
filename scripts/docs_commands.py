"""A Sphinx extension: the directive `corpo-commands`, the help of every command as a section of its own."""

from collections.abc import Iterator
from typing import Any

import click
from docutils import nodes
from docutils.parsers.rst import Directive

from corpo_rl.cli.main import cli


def setup(app: Any) -> dict[str, bool]:
    """Register the directive with Sphinx."""
    app.add_directive("corpo-commands", Commands)
    return {"parallel_read_safe": True}


def every_help() -> Iterator[tuple[str, str]]:
    """Each command as it is typed, and its help as printed on 80 columns."""
    waiting: list[tuple[str, click.Command, click.Context | None]] = [("corpo-rl", cli, None)]
    while waiting:
        typed, command, parent = waiting.pop(0)
        settings = {"terminal_width": 80, **command.context_settings}
        context = click.Context(command, info_name=typed.rpartition(" ")[2], parent=parent, **settings)
        yield typed, context.get_help()
        if isinstance(command, click.Group):
            found = ((name, command.get_command(context, name)) for name in command.list_commands(context))
            children = [(f"{typed} {name}", child, context) for name, child in found if child is not None]
            waiting = children + waiting if parent else waiting + children


class Commands(Directive):
    """A section for each command."""

    def run(self) -> list[nodes.Node]:
        """Sections whose anchors are the commands with hyphens for spaces."""
        sections: list[nodes.Node] = []
        for typed, text in every_help():
            section = nodes.section(ids=[typed.replace(" ", "-")], names=[typed])
            section += nodes.title("", "", nodes.literal(typed, typed))
            section += nodes.literal_block(text, text, language="text")
            sections.append(section)
        return sections
