"""`kuberth up`: one command to a working cluster that kubectl talks to."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kuberth.cli.context import Extras, build_registry, plugin_option, queue_factory, queue_option
from kuberth.config import FeatureGates, load
from kuberth.config.feature_gates import parse_settings
from kuberth.local.manifests import read_manifests
from kuberth.programs.up.cluster import ClusterSettings, EmbeddedCluster, Summary, running_cluster

SUMMARY_SECONDS = 1.0


def default_data() -> Path:
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "kuberth"


@click.command()
@click.option(
    "--nodes", type=click.IntRange(0, 20_000), default=5, show_default=True, help="How many hollow nodes."
)
@click.option(
    "--shapes",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A YAML file with the shapes of the nodes.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the cluster is kept across restarts.  [default: ~/.local/share/kuberth]",
)
@click.option("--memory", is_flag=True, help="Keep nothing: the cluster is gone at the end.")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to serve on; everyone who reaches it and has the credentials is admin.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=6443,
    show_default=True,
    help="Port of the API server; 0 picks a free one.",
)
@click.option(
    "--kubeconfig-out", type=click.Path(dir_okay=False, path_type=Path), help="Write the kubeconfig there."
)
@click.option(
    "-f",
    "--filename",
    "filenames",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="Manifests to apply, a file or a folder; repeatable.",
)
@click.option(
    "--config",
    "config_path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A KubeSchedulerConfiguration file.",
)
@click.option("--no-scheduler", is_flag=True, help="Start no scheduler: bring your own.")
@click.option("--without", multiple=True, metavar="CONTROLLER", help="Turn a controller off; repeatable.")
@click.option("--feature-gates", default="", metavar="A=true,B=false", help="Turn features on or off.")
@plugin_option
@queue_option
@click.pass_obj
def up(extras: Extras | None, /, **flags: Any) -> None:
    """Start a small Kubernetes API server, hollow nodes and the scheduler, until Ctrl-C."""
    extras = extras or Extras()
    registry = build_registry(extras, flags["plugin_references"])
    gates = parse_settings(flags["feature_gates"])
    config = None
    if flags["config_path"] is not None:
        config = load(
            flags["config_path"],
            feature_gates=gates,
            known_plugins=registry.names(),
            extension_points=registry.extension_points(),
            args_types=registry.args_types(),
        )
    settings = ClusterSettings(
        nodes=flags["nodes"],
        shapes=flags["shapes"],
        data=None if flags["memory"] else flags["data"] or default_data(),
        host=flags["host"],
        port=flags["port"],
        kubeconfig_out=flags["kubeconfig_out"],
        manifests=tuple(_manifests(flags["filenames"])),
        config=config,
        registry=registry,
        queue=queue_factory(extras, flags["queue_reference"]),
        with_scheduler=not flags["no_scheduler"],
        without=frozenset(flags["without"]),
        feature_gates=dict(FeatureGates(gates)),
    )
    asyncio.run(_run(settings))


def _manifests(paths: tuple[Path, ...]) -> Iterator[dict[str, Any]]:
    for path in paths:
        yield from read_manifests(path)


async def _run(settings: ClusterSettings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    console = Console()

    def tell(line: str) -> None:
        console.print(line, highlight=False, markup=False, soft_wrap=True)

    async with running_cluster(settings, progress=tell) as cluster:
        tell(f"Ready. Point kubectl at it:\n  export KUBECONFIG={cluster.kubeconfig_path}")
        if settings.data is not None:
            tell(f"Kept in {settings.data}; Ctrl-C ends it, the next start goes on from here.")
        if console.is_terminal:
            await _live(cluster, console, stop)
        else:
            await _lines(cluster, tell, stop)
        tell("Ending.")


async def _live(cluster: EmbeddedCluster, console: Console, stop: asyncio.Event) -> None:
    with Live(summary_table(await cluster.summary()), console=console, auto_refresh=False) as live:
        while not await _stopped(stop):
            live.update(summary_table(await cluster.summary()), refresh=True)


async def _lines(cluster: EmbeddedCluster, tell: Callable[[str], None], stop: asyncio.Event) -> None:
    last = None
    while True:
        summary = await cluster.summary()
        if summary != last:
            tell(_line(summary))
            last = summary
        if await _stopped(stop):
            return


async def _stopped(stop: asyncio.Event) -> bool:
    try:
        await asyncio.wait_for(stop.wait(), SUMMARY_SECONDS)
    except TimeoutError:
        return False
    return True


def _line(summary: Summary) -> str:
    pods = ", ".join(f"{number} {phase}" for phase, number in sorted(summary.pods.items())) or "none"
    return f"nodes: {summary.nodes}; pods: {pods}"


def summary_table(summary: Summary) -> Table:
    # Objects' own words are text, whatever brackets are in them.
    title = Text(_line(summary))
    table = Table(title=title, title_justify="left", show_header=bool(summary.reasons), box=None)
    table.add_column("pods", justify="right")
    table.add_column("wait because")
    for reason, number in sorted(summary.reasons.items(), key=lambda item: -item[1])[:8]:
        table.add_row(str(number), Text(reason))
    return table
