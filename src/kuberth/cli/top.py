"""`kuberth top`: watch a running scheduler in a terminal."""

from __future__ import annotations

import click

from kuberth.cli import options
from kuberth.cli.context import runs


@click.command(short_help="Watch a running Kuberth in a terminal.")
@options.connection
@options.server
@click.option(
    "--view",
    type=click.Choice(["nodes", "queue", "pods", "throughput"]),
    help="View to start with, or to print all of with --once.  [default: queue; with --once a summary]",
)
@click.option("--once", is_flag=True, help="Print the state once and exit, as without a terminal.")
@options.output("text", "json")
@runs("kuberth.cli.top_session:run_top")
def top() -> None:
    """Show the live nodes, scheduling queues, pending pods and throughput of a running Kuberth.

    Press ? for the keys. -o json prints the state once.
    """
