"""`kuberth shadow`: compare decisions with those of a cluster's scheduler, read-only."""

from __future__ import annotations

import click

from kuberth.cli import options
from kuberth.cli.context import runs


@click.command(short_help="Compare decisions with a cluster's scheduler, read-only.")
@options.connection
@options.with_default(
    "--scheduler-name", None, "default-scheduler", "Decide the pods with this spec.schedulerName."
)
@click.option(
    "--config",
    "config_file",
    type=options.FILE,
    help="KubeSchedulerConfiguration to use.  [default: the default configuration]",
)
@options.feature_gates
@options.plugin
@click.option(
    "--for", "duration", type=options.DurationType(positive=True), help="Stop after this time, e.g. 10m."
)
@click.option("--pods", type=click.IntRange(min=1), help="Stop after this number of placed pods.")
@options.with_default(
    "--settle",
    options.DurationType(positive=True),
    "2s",
    "Time within which bindings may arrive in a different order than the decisions.",
)
@options.output(
    "text", "json", text="Output format; json prints one line per decision and the report as the last line."
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="Port for Prometheus metrics over HTTPS; 0 picks a free port.  [default: none]",
)
@options.with_default(
    "--metrics-address", None, "127.0.0.1", "Address for metrics; clients are not authenticated."
)
@runs("kuberth.cli.shadow_display:run")
def shadow() -> None:
    """Compare Kuberth's decision for every pod with that of the cluster's scheduler.

    Writes nothing, and needs only the verbs get, list and watch. Prints a report on Ctrl-C, or after --for or
    --pods.
    """
