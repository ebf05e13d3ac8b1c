"""`kuberth explain`: why a pod is pending and what would help, or why it runs where it does."""

from __future__ import annotations

import click

from kuberth.cli import options
from kuberth.cli.context import runs


@click.command(short_help="Explain why a pod is pending, or why it runs where it does.")
@click.argument("target", nargs=-1)
@click.option(
    "-f",
    "--filename",
    type=options.FILE,
    help="Manifest of one pod or workload; it does not have to exist in the cluster.",
)
@click.option("-n", "--namespace", help="Namespace of the target.  [default: that of the kubeconfig]")
@options.connection
@click.option(
    "--cluster",
    "dump",
    type=options.FILE_OR_FOLDER,
    help="Read the cluster from files instead (kubectl get ... -A -o yaml).",
)
@options.server
@click.option("--dry-run", is_flag=True, help="Only read the cluster; do not query a running Kuberth.")
@click.option(
    "--config", "config_path", type=options.FILE, help="KubeSchedulerConfiguration for the dry run."
)
@options.feature_gates
@click.option("--names", is_flag=True, help="List every node by name.")
@options.output("text", "json")
@options.plugin
@runs("kuberth.cli.explain_sources:run_explain")
def explain() -> None:
    """Explain why a pod is pending and what would help, or why it runs where it does.

    TARGET is `pod NAME`, `deployment/NAME` or any other kind with a pod template. Nothing is written: for the
    pods of another scheduler this is a dry run with the given or the default configuration.
    """
