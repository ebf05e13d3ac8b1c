"""`kuberth up`: a small cluster in memory, scheduled before your eyes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from kuberth.api.core import Pod
from kuberth.cli.context import Extras, build_registry, plugin_option, queue_factory, queue_option
from kuberth.demo import DemoResult, run_demo


@click.command()
@click.option(
    "--nodes", type=click.IntRange(0, 100_000), default=6, show_default=True, help="How many nodes."
)
@click.option("--pods", type=click.IntRange(0, 100_000), default=20, show_default=True, help="How many pods.")
@click.option(
    "--config",
    "config_path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A KubeSchedulerConfiguration file.",
)
@click.option("-o", "output", type=click.Choice(["table", "json"]), default="table", help="How to print.")
@plugin_option
@queue_option
@click.pass_obj
def up(
    extras: Extras | None,
    nodes: int,
    pods: int,
    config_path: Path | None,
    output: str,
    plugin_references: tuple[str, ...],
    queue_reference: str | None,
) -> None:
    """Schedule a few pods on a few nodes in memory and print where they went."""
    extras = extras or Extras()
    result = asyncio.run(
        run_demo(
            nodes=nodes,
            pods=pods,
            config_path=config_path,
            registry=build_registry(extras, plugin_references),
            queue=queue_factory(extras, queue_reference),
        )
    )
    if output == "json":
        click.echo(json.dumps(_as_json(result), indent=2))
    else:
        _print_tables(result)


def _as_json(result: DemoResult) -> dict[str, object]:
    return {
        "placements": {_key(pod): pod.spec.node_name for pod in result.pods if pod.spec.node_name},
        "pending": {_key(pod): _why(pod) for pod in result.pods if not pod.spec.node_name},
    }


def _print_tables(result: DemoResult) -> None:
    console = Console()
    table = Table(title="Placements", title_justify="left")
    for heading in ("node", "zone", "cpu", "pods"):
        table.add_column(heading, overflow="fold")
    for node in result.nodes:
        placed = [pod for pod in result.pods if pod.spec.node_name == node.metadata.name]
        row = result.cluster.node_named(node.metadata.name)
        used = "-" if row is None else f"{row.requested('cpu') / 1000:g}/{row.allocatable('cpu') / 1000:g}"
        zone = node.metadata.labels.get("topology.kubernetes.io/zone", "-")
        names = " ".join(sorted(pod.metadata.name for pod in placed)) or "-"
        table.add_row(node.metadata.name, zone, used, names)
    console.print(table)
    pending = [pod for pod in result.pods if not pod.spec.node_name]
    placed_count = len(result.pods) - len(pending)
    console.print(f"{placed_count} of {len(result.pods)} pods placed in {result.seconds * 1000:.0f} ms.")
    for pod in pending:
        console.print(f"[bold]{_key(pod)}[/bold] is pending: {_why(pod)}", highlight=False)


def _key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def _why(pod: Pod) -> str:
    if pod.spec.scheduling_gates:
        gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
        return f"waiting for scheduling gates: {gates}"
    scheduled = (condition for condition in pod.status.conditions if condition.type == "PodScheduled")
    return next((condition.message for condition in scheduled), "not tried yet")
