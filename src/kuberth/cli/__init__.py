"""The command line: one file per command.

In: words. Out: settings for the programs. A command's module is imported when the command is used, and the
scheduler only when it runs, so that help and completion are fast. A distribution with its own plugins wraps
it:

    from kuberth.cli import main
    main(plugins={"Coscheduling": Coscheduling}, queue=MyQueue)
"""

from __future__ import annotations

import gc
import importlib
import io
import logging
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import click

import kuberth
from kuberth.cli.context import Extras
from kuberth.errors import KuberthError, first_error

if TYPE_CHECKING:
    from kuberth.framework.registry import PluginFactory
    from kuberth.queue.interface import QueueFactory

COMMANDS: Final = {
    "bench": "kuberth.cli.bench:bench",
    "completion": "kuberth.cli.completion:completion",
    "config": "kuberth.cli.config:config_group",
    "demo": "kuberth.cli.demo:demo",
    "explain": "kuberth.cli.explain:explain",
    "plugin": "kuberth.cli.plugin:plugin_group",
    "run": "kuberth.cli.run:run",
    "shadow": "kuberth.cli.shadow:shadow",
    "simulate": "kuberth.cli.simulate:simulate",
    "top": "kuberth.cli.top:top",
    "tune": "kuberth.cli.tune:tune",
    "up": "kuberth.cli.up:up",
    "version": "kuberth.cli.version:version_command",
}


COLLECTED_AFTER: Final = (20_000, 10, 20)
"""Allocations, and collections of the younger generation, between two garbage collections."""


class LazyGroup(click.Group):
    """Imports a command from `module:attribute` when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*COMMANDS, *super().list_commands(ctx)])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, attribute = COMMANDS[cmd_name].split(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(kuberth.__version__, prog_name="kuberth")
@click.option("-v", "--verbose", count=True, help="Increase log verbosity: -v adds INFO, -vv adds DEBUG.")
def cli(verbose: int) -> None:
    """Kuberth: the Kubernetes scheduler in Python."""
    levels = (logging.ERROR, logging.INFO, logging.DEBUG)
    logging.basicConfig(
        level=levels[min(verbose, 2)], format="%(levelname).1s %(name)s: %(message)s", stream=sys.stderr
    )


def main(
    plugins: Mapping[str, PluginFactory] | None = None,
    queue: QueueFactory | None = None,
    args: list[str] | None = None,
    *,
    prog_name: str = "kuberth",
) -> None:
    """Run the command line; `plugins` and `queue` are available as if they were built in."""
    error: BaseException | None = None
    # A cluster is hundreds of thousands of objects without reference cycles, and imported modules stay:
    # frequent collections would waste time.
    gc.set_threshold(*COLLECTED_AFTER)
    for stream in (sys.stdout, sys.stderr):
        # Where the encoding lacks a letter, its number is shown.
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(errors="backslashreplace")
    try:
        cli.main(args=args, prog_name=prog_name, obj=Extras(plugins or {}, queue))
    except* KuberthError as group:
        # Tasks fail in groups; report the first error.
        error = first_error(group)
    if error is not None:
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)


def kubectl_plugin() -> None:
    """The program kubectl-kuberth, which kubectl runs for `kubectl kuberth ...`."""
    main(prog_name="kubectl kuberth")
