"""`kuberth up`: start a local cluster for kubectl."""

from __future__ import annotations

from pathlib import Path

import click

from kuberth.cli import options
from kuberth.cli.context import runs


@click.command(short_help="Run a local cluster with simulated nodes.")
@click.option(
    "--nodes",
    type=click.IntRange(0, 20_000),
    help="Number of simulated nodes.  [default: unchanged; 5 in a new cluster]",
)
@click.option(
    "--remove-nodes",
    is_flag=True,
    help="Remove simulated nodes beyond --nodes or --shapes, with the pods on them.",
)
@click.option("--shapes", type=options.FILE, help="YAML file with node shapes.")
@click.option("--devices", type=options.FILE, help="YAML file with devices that simulated drivers publish.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder that stores the cluster.  [default: ~/.local/share/kuberth]",
)
@click.option("--memory", is_flag=True, help="Keep the cluster in memory only; it is lost at the end.")
@options.with_default(
    "--host", None, "127.0.0.1", "Address to listen on. Everyone with the credentials is an administrator."
)
@options.with_default(
    "--port", click.IntRange(0, 65535), 6443, "Port of the API server; 0 picks a free port."
)
@click.option(
    "--page-port",
    type=click.IntRange(0, 65535),
    help="Port of the web page, on the loopback interface only.  [default: 6480, or a free port]",
)
@click.option("--no-page", is_flag=True, help="Do not serve the web page and the data for `kuberth top`.")
@click.option(
    "--kubeconfig-out",
    type=options.NEW_FILE,
    help="File to write the kubeconfig to; an existing kubeconfig is merged.",
)
@click.option(
    "-f",
    "--filename",
    "filenames",
    multiple=True,
    type=options.FILE_OR_FOLDER,
    help="File or folder of manifests to apply; repeatable.",
)
@click.option("--config", "config_path", type=options.FILE, help="Path to a KubeSchedulerConfiguration file.")
@click.option("--no-scheduler", is_flag=True, help="Do not start a scheduler; run another one instead.")
@click.option("--without", multiple=True, metavar="CONTROLLER", help="Controller to disable; repeatable.")
@options.feature_gates
@options.reload
@options.plugin
@options.queue
@runs("kuberth.cli.up_display:run")
def up() -> None:
    """Run a local cluster until Ctrl-C: a Kubernetes API server, simulated nodes and the scheduler."""
