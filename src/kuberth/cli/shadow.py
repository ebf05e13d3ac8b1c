"""`kuberth shadow`: compare decisions with those of a cluster's scheduler, read-only."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click

from kuberth.cli.context import (
    FILE,
    DurationType,
    Extras,
    build_registry,
    configuration,
    connection_options,
    default_option,
    feature_gates_option,
    notices,
    output_option,
    plugin_option,
)


@click.command(short_help="Compare decisions with a cluster's scheduler, read-only.")
@connection_options
@default_option(
    "--scheduler-name", None, "default-scheduler", "Decide the pods with this spec.schedulerName."
)
@click.option(
    "--config",
    "config_file",
    type=FILE,
    help="KubeSchedulerConfiguration to use.  [default: the default configuration]",
)
@feature_gates_option
@plugin_option
@click.option("--for", "duration", type=DurationType(positive=True), help="Stop after this time, e.g. 10m.")
@click.option("--pods", type=click.IntRange(min=1), help="Stop after this number of placed pods.")
@default_option(
    "--settle",
    DurationType(positive=True),
    "2s",
    "Time within which bindings may arrive in a different order than the decisions.",
)
@output_option(
    "text", "json", text="Output format; json prints one line per decision and the report as the last line."
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="Port for Prometheus metrics over HTTPS; 0 picks a free port.  [default: none]",
)
@default_option("--metrics-address", None, "127.0.0.1", "Address for metrics; clients are not authenticated.")
@click.pass_obj
def shadow(
    extras: Extras | None,
    /,
    kubeconfig: str | None,
    context: str | None,
    scheduler_name: str,
    config_file: Path | None,
    feature_gates: str,
    plugin_references: tuple[str, ...],
    duration: timedelta | None,
    pods: int | None,
    settle: timedelta,
    output: str,
    metrics_port: int | None,
    metrics_address: str,
) -> None:
    """Compare Kuberth's decision for every pod with that of the cluster's scheduler.

    Writes nothing, and needs only the verbs get, list and watch. Prints a report on Ctrl-C, or after --for or
    --pods.
    """
    from kuberth.cli.context import run_on_fastest_loop
    from kuberth.cli.shadow_display import display_for
    from kuberth.config.feature_gates import parse_settings
    from kuberth.programs.shadow.program import ShadowSettings, run_shadow

    registry = build_registry(extras or Extras(), plugin_references)
    config = configuration(config_file, registry, parse_settings(feature_gates))
    display = display_for(output)
    for notice in notices(config, registry, references=plugin_references):
        display.message(notice)
    settings = ShadowSettings(
        config=config,
        registry=registry,
        scheduler_name=scheduler_name,
        kubeconfig=kubeconfig,
        context=context,
        for_seconds=None if duration is None else duration.total_seconds(),
        pods=pods,
        settle_seconds=settle.total_seconds(),
        metrics_host=metrics_address,
        metrics_port=metrics_port,
    )
    with display:
        report = run_on_fastest_loop(
            run_shadow(settings, on_decision=display.decided, on_message=display.message)
        )
    display.end(report)
