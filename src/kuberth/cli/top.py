"""`kuberth top`: watch a running scheduler in a terminal."""

from __future__ import annotations

from typing import Any

import click

from kuberth.cli.context import connection_options, output_option, server_options


@click.command(short_help="Watch a running Kuberth in a terminal.")
@connection_options
@server_options
@click.option(
    "--view",
    type=click.Choice(["nodes", "queue", "pods", "throughput"]),
    help="View to start with, or to print all of with --once.  [default: queue; with --once a summary]",
)
@click.option("--once", is_flag=True, help="Print the state once and exit, as without a terminal.")
@output_option("text", "json")
def top(**flags: Any) -> None:
    """Show the live nodes, scheduling queues, pending pods and throughput of a running Kuberth.

    Press ? for the keys. -o json prints the state once.
    """
    # Heavy, and not for --help.
    from kuberth.cli.explain_sources import serving_at
    from kuberth.cli.top_session import show
    from kuberth.client.identity.kubeconfig import load_client_config
    from kuberth.clock import run_on_fastest_loop

    client = load_client_config(kubeconfig=flags["kubeconfig"], context=flags["context"])
    if flags["server"] is not None:
        client = serving_at(client, flags)
    run_on_fastest_loop(show(client, view=flags["view"], once=flags["once"], output=flags["output"]))
