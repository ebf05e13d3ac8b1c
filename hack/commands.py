"""`python -m hack.commands`: write docs/commands.md, every command with its options, from the command line.

In: the commands of `kuberth.cli`. Out: the page, as text: what `--help` prints. A test compares the page with
what this makes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from kuberth.cli import cli

PAGE: Final = Path(__file__).parents[1] / "docs" / "commands.md"
WIDTH: Final = 100
INTRODUCTION: Final = """\
# Commands

What `kuberth COMMAND --help` prints, for every command. `kuberth completion bash|zsh|fish` prints a
completion script for your shell.
"""


def page() -> str:
    context = click.Context(cli, info_name="kuberth", max_content_width=WIDTH, terminal_width=WIDTH)
    return "\n".join([INTRODUCTION, *_sections(cli, context)])


def _sections(command: click.Command, context: click.Context) -> Iterator[str]:
    context.help_option_names = list(cli.context_settings["help_option_names"])
    path = context.command_path
    yield f"{'#' * (1 + len(path.split()))} {path}\n"
    yield f"```text\n{context.get_help()}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from _sections(below, click.Context(below, parent=context, info_name=name))


def main() -> int:
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
