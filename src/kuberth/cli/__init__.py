"""The command line: one file a command, no logic of its own.

Before a pod's way: words become settings. A distribution with plugins of its own wraps it:

    from kuberth.cli import main
    main(plugins={"Coscheduling": Coscheduling}, queue=MyQueue)
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping

import click

import kuberth
from kuberth.cli.config import config_group
from kuberth.cli.context import Extras
from kuberth.cli.run import run
from kuberth.cli.up import up
from kuberth.errors import KuberthError
from kuberth.framework.registry import PluginFactory
from kuberth.queue.interface import QueueFactory


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(kuberth.__version__, prog_name="kuberth")
@click.option("-v", "--verbose", count=True, help="Log more; twice for every detail.")
def cli(verbose: int) -> None:
    """Kuberth finds every pod its berth: the Kubernetes scheduler in Python."""
    levels = (logging.ERROR, logging.INFO, logging.DEBUG)
    logging.basicConfig(
        level=levels[min(verbose, 2)], format="%(levelname).1s %(name)s: %(message)s", stream=sys.stderr
    )


cli.add_command(config_group, "config")
cli.add_command(run)
cli.add_command(up)


def main(
    plugins: Mapping[str, PluginFactory] | None = None,
    queue: QueueFactory | None = None,
    args: list[str] | None = None,
) -> None:
    """Run the command line; `plugins` and `queue` are there as if they came with Kuberth."""
    error: BaseException | None = None
    try:
        cli.main(args=args, prog_name="kuberth", obj=Extras(plugins or {}, queue))
    except* KuberthError as group:
        # Tasks fail in groups; the first failure is the one that tells what to do.
        error = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is not None:
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)
