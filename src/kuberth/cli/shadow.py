"""`kuberth shadow`: beside a cluster's real scheduler, read-only, would this one have done the same?"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kuberth.cli.context import Extras, build_registry, notices, plugin_option
from kuberth.errors import ConfigError
from kuberth.text.durations import parse_duration

if TYPE_CHECKING:
    from kuberth.config import KubeSchedulerConfiguration
    from kuberth.framework.registry import Registry


class _Positive(click.ParamType[timedelta]):
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        try:
            duration = value if isinstance(value, timedelta) else parse_duration(str(value))
        except ValueError as exc:
            self.fail(str(exc), param, ctx)
        if duration <= timedelta():
            self.fail("expected a duration above zero", param, ctx)
        return duration


@click.command()
@click.option(
    "--kubeconfig", help="Kubeconfig file; without one: $KUBECONFIG, ~/.kube/config, or in-cluster."
)
@click.option("--context", help="The kubeconfig's context, if not the current one.")
@click.option(
    "--scheduler-name",
    default="default-scheduler",
    show_default=True,
    help="Whose pods to decide: those with this spec.schedulerName.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The KubeSchedulerConfiguration to try; without one, the default.",
)
@click.option(
    "--feature-gates", "feature_gates", default="", metavar="A=true,B=false", help="Override feature gates."
)
@plugin_option
@click.option("--for", "duration", type=_Positive(), help="End after so long, such as 10m.")
@click.option("--pods", type=click.IntRange(min=1), help="End after so many placed pods.")
@click.option(
    "--settle",
    type=_Positive(),
    default="2s",
    show_default=True,
    help="Bindings that are seen within so long of each other may have been decided in another order.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json: a line for every decision, and the report as the last one.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="Serve Prometheus metrics over HTTPS there; 0: on any free port.",
)
@click.option(
    "--metrics-address",
    default="127.0.0.1",
    show_default=True,
    help="Address to serve them on, to whoever reaches it.",
)
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
    """Decide every pod beside the cluster's scheduler, write nothing, and report where the two agree.

    Needs only the rights to get, list and watch. Ends with a report on Ctrl-C, or after --for or --pods.
    """
    from kuberth.cli.event_loops import run_on_fastest_loop
    from kuberth.cli.shadow_display import display_for
    from kuberth.programs.shadow.program import ShadowSettings, run_shadow

    registry = build_registry(extras or Extras(), plugin_references)
    config = _configuration(config_file, feature_gates, registry)
    display = display_for(output)
    for notice in notices(config, registry, references=plugin_references):
        display.say(notice)
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
        report = run_on_fastest_loop(run_shadow(settings, told=display.told, say=display.say))
    display.end(report)


def _configuration(file: Path | None, feature_gates: str, registry: Registry) -> KubeSchedulerConfiguration:
    from kuberth.config import InvalidConfiguration, load
    from kuberth.config.feature_gates import parse_settings
    from kuberth.config.types import API_VERSION, KIND

    try:
        return load(
            file or {"apiVersion": API_VERSION, "kind": KIND},
            feature_gates=parse_settings(feature_gates),
            known_plugins=registry.names(),
            extension_points=registry.extension_points(),
            args_types=registry.args_types(),
        )
    except InvalidConfiguration as exc:
        raise ConfigError("\n".join(f"{file or '--feature-gates'}: {error}" for error in exc.errors)) from exc
