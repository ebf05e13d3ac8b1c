"""`kuberth top`: what a scheduler is doing right now, in a terminal."""

from __future__ import annotations

from typing import Any

import click


@click.command()
@click.option("--kubeconfig", metavar="FILE", help="The cluster of `kuberth up`, as for kubectl.")
@click.option("--context", help="The kubeconfig's context.")
@click.option(
    "--server",
    metavar="URL",
    help="Ask the `kuberth run --page` that serves there (https://host:10259), with the same credentials.",
)
@click.option("--certificate-authority", metavar="FILE", help="Whom to trust for --server.")
@click.option("--insecure-skip-tls-verify", "insecure", is_flag=True, help="Trust anybody for --server.")
@click.option(
    "--view",
    type=click.Choice(["nodes", "queue", "pods", "pace"]),
    default="queue",
    show_default=True,
    help="What to show first.",
)
@click.option("--once", is_flag=True, help="Print one frame and end; so it is where there is no terminal.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def top(**flags: Any) -> None:
    """Show nodes, the scheduling queues, waiting pods and the pace of a Kuberth that runs, live.

    ? tells the keys. With -o json the state is printed once.
    """
    # Heavy, and not for --help.
    from kuberth.cli.event_loops import run_on_fastest_loop
    from kuberth.cli.explain_sources import serving_at
    from kuberth.cli.top_session import show
    from kuberth.client.identity.kubeconfig import load_client_config

    client = load_client_config(kubeconfig=flags["kubeconfig"], context=flags["context"])
    if flags["server"] is not None:
        client = serving_at(
            client,
            flags["server"],
            certificate_authority=flags["certificate_authority"],
            insecure=flags["insecure"],
        )
    run_on_fastest_loop(show(client, view=flags["view"], once=flags["once"], output=flags["output"]))
