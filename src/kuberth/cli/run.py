"""`kuberth run`: in place of kube-scheduler, with its flags."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import click
import msgspec

from kuberth.cli.context import Extras, build_registry, plugin_option, queue_factory, queue_option
from kuberth.cli.logs import set_up_logging
from kuberth.config import KubeSchedulerConfiguration, load, to_yaml
from kuberth.config.feature_gates import parse_settings
from kuberth.config.types import API_VERSION, KIND
from kuberth.errors import ConfigError
from kuberth.text.durations import parse_duration

F = TypeVar("F", bound=Callable[..., Any])

EX_FAILURE: Final = 1


class _GoDuration(click.ParamType[timedelta]):
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        try:
            return parse_duration(str(value))
        except (ConfigError, ValueError) as exc:
            self.fail(str(exc), param, ctx)


DURATION = _GoDuration()
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def _flag(name: str, help_text: str, **options: Any) -> Callable[[F], F]:
    """A boolean flag that also takes a value, as Go's do: `--leader-elect`, `--leader-elect=false`."""
    return click.option(name, is_flag=False, flag_value=True, type=click.BOOL, help=help_text, **options)


_IGNORED: Final = {
    "--allow-metric-labels": "",
    "--authentication-skip-lookup": "",
    "--authentication-tolerate-lookup-failure": "",
    "--authentication-token-webhook-cache-ttl": "",
    "--authorization-webhook-cache-authorized-ttl": "",
    "--authorization-webhook-cache-unauthorized-ttl": "",
    "--cert-dir": "",
    "--contention-profiling": "",
    "--disable-http2-serving": "",
    "--emulated-version": "",
    "--http2-max-streams-per-connection": "",
    "--kube-api-content-type": "",
    "--permit-address-sharing": "",
    "--permit-port-sharing": "",
    "--profiling": "",
    "--requestheader-allowed-names": "",
    "--requestheader-client-ca-file": "",
    "--requestheader-extra-headers-prefix": "",
    "--requestheader-group-headers": "",
    "--requestheader-username-headers": "",
    "--show-hidden-metrics-for-version": "",
    "--tls-cipher-suites": "",
    "--tls-min-version": "",
    "--tls-sni-cert-key": "",
    "--vmodule": "",
    "--log-flush-frequency": "",
    "--log-json-info-buffer-size": "",
    "--log-json-split-stream": "",
    "--log-text-info-buffer-size": "",
    "--log-text-split-stream": "",
}
"""kube-scheduler's flags that have no meaning here: accepted, so that its manifests keep working."""


class _RunCommand(click.Command):
    """Accepts kube-scheduler's flags without effect, and suggests the nearest one for an unknown flag."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        kept: list[str] = []
        rest = iter(args)
        for arg in rest:
            if arg.startswith("-v="):
                # One dash and an equals sign, as Go's flags allow.
                kept += ["-v", arg.removeprefix("-v=")]
                continue
            name, equals, _value = arg.partition("=")
            if name not in _IGNORED:
                kept.append(arg)
            elif not equals and name not in (
                "--profiling",
                "--contention-profiling",
                "--permit-port-sharing",
            ):
                next(rest, None)
        try:
            return super().parse_args(ctx, kept)
        except click.NoSuchOption as exc:
            self._suggest(exc)

    def _suggest(self, error: click.NoSuchOption) -> NoReturn:
        known = [name for param in self.params for name in param.opts] + list(_IGNORED)
        near = difflib.get_close_matches(error.option_name, known, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]}?" if near else "; see kuberth run --help"
        raise click.UsageError(f"unknown flag {error.option_name}{hint}", error.ctx) from None


@click.command(cls=_RunCommand)
@click.option(
    "--config",
    "config_path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A KubeSchedulerConfiguration file.",
)
@click.option(
    "--write-config-to",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the complete configuration there and exit.",
)
@click.option("--master", help="Address of the API server, over the one in the kubeconfig.")
@click.option(
    "--kubeconfig", help="Kubeconfig file; without one: $KUBECONFIG, ~/.kube/config, or in-cluster."
)
@click.option(
    "--secure-port",
    type=click.IntRange(0, 65535),
    default=10259,
    show_default=True,
    help="Port for health and metrics over HTTPS; 0: nothing is served.",
)
@click.option("--bind-address", default="0.0.0.0", show_default=True, help="Address to serve on.")
@click.option(
    "--tls-cert-file", type=FILE, help="Certificate to serve with; without one a self-signed one is made."
)
@click.option("--tls-private-key-file", type=FILE, help="Its key.")
@click.option("--client-ca-file", type=FILE, help="Accept client certificates of this CA.")
@click.option(
    "--authentication-kubeconfig", help="Kubeconfig for TokenReviews; default: the scheduler's own."
)
@click.option(
    "--authorization-kubeconfig", help="Kubeconfig for SubjectAccessReviews; default: the scheduler's own."
)
@click.option(
    "--authorization-always-allow-paths",
    default="/healthz,/readyz,/livez",
    show_default=True,
    help="Paths anyone may read.",
)
@_flag("--leader-elect", "Hold a lease before scheduling.", default=None)
@click.option(
    "--leader-elect-lease-duration", type=DURATION, help="How long others wait for a silent leader."
)
@click.option("--leader-elect-renew-deadline", type=DURATION, help="How long the leader tries to renew.")
@click.option("--leader-elect-retry-period", type=DURATION, help="How often everyone tries.")
@click.option("--leader-elect-resource-lock", help="Kind of the lock; only leases.")
@click.option("--leader-elect-resource-name", help="Name of the lease.")
@click.option("--leader-elect-resource-namespace", help="Namespace of the lease.")
@click.option("--feature-gates", default="", metavar="A=true,B=false", help="Turn features on or off.")
@click.option("--kube-api-qps", type=float, help="Requests a second, if no --config is given.")
@click.option("--kube-api-burst", type=int, help="Requests at once, if no --config is given.")
@click.option(
    "--pod-max-in-unschedulable-pods-duration",
    type=DURATION,
    default="5m",
    show_default=True,
    help="After so long a rejected pod is tried again whatever happens.",
)
@click.option(
    "-v",
    "--v",
    "verbosity",
    type=int,
    default=0,
    help="How much to log: 2 tells of every failure, 4 of everything.",
)
@click.option("--logging-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@plugin_option
@queue_option
@click.pass_obj
def run(extras: Extras | None, /, **flags: Any) -> None:
    """Schedule pods on a Kubernetes cluster, in place of kube-scheduler or beside it."""
    set_up_logging(flags["verbosity"], flags["logging_format"])
    from kuberth.programs.run.daemon import ServingSettings, Settings  # heavy: only this command needs it
    from kuberth.programs.run.daemon import run as run_daemon

    extras = extras or Extras()
    registry = build_registry(extras, flags["plugin_references"])
    config = _configuration(flags, registry)
    if flags["write_config_to"] is not None:
        flags["write_config_to"].write_text(to_yaml(config), encoding="utf-8")
        return
    serving = None
    if flags["secure_port"]:
        serving = ServingSettings(
            host=flags["bind_address"],
            port=flags["secure_port"],
            cert_file=flags["tls_cert_file"],
            key_file=flags["tls_private_key_file"],
            client_ca_file=flags["client_ca_file"],
            open_paths=frozenset(filter(None, flags["authorization_always_allow_paths"].split(","))),
            authentication_kubeconfig=flags["authentication_kubeconfig"],
            authorization_kubeconfig=flags["authorization_kubeconfig"],
        )
    settings = Settings(
        config=config,
        registry=registry,
        queue=queue_factory(extras, flags["queue_reference"]),
        kubeconfig=flags["kubeconfig"],
        master=flags["master"],
        max_unschedulable_seconds=flags["pod_max_in_unschedulable_pods_duration"].total_seconds(),
        serving=serving,
        flags={name.replace("_", "-"): str(value) for name, value in sorted(flags.items())},
    )
    code = _run_on_fastest_loop(run_daemon(settings))
    raise SystemExit(code)


def _run_on_fastest_loop(main: Any) -> int:
    try:
        import uvloop
    except ImportError:
        return int(asyncio.run(main))
    return int(uvloop.run(main))


def _configuration(flags: Mapping[str, Any], registry: Any) -> KubeSchedulerConfiguration:
    """The file, with the flags that go over it; other flags count only without a file, as upstream's."""
    config = load(
        flags["config_path"] or {"apiVersion": API_VERSION, "kind": KIND},
        feature_gates=parse_settings(flags["feature_gates"]),
        known_plugins=registry.names(),
        extension_points=registry.extension_points(),
        args_types=registry.args_types(),
    )
    replace = msgspec.structs.replace
    election = {
        field: flags[flag]
        for field, flag in {
            "leader_elect": "leader_elect",
            "lease_duration": "leader_elect_lease_duration",
            "renew_deadline": "leader_elect_renew_deadline",
            "retry_period": "leader_elect_retry_period",
            "resource_lock": "leader_elect_resource_lock",
            "resource_name": "leader_elect_resource_name",
            "resource_namespace": "leader_elect_resource_namespace",
        }.items()
        if flags[flag] is not None
    }
    config = replace(config, leader_election=replace(config.leader_election, **election))
    if flags["config_path"] is None:
        connection = {
            field: flags[f"kube_api_{field}"]
            for field in ("qps", "burst")
            if flags[f"kube_api_{field}"] is not None
        }
        config = replace(config, client_connection=replace(config.client_connection, **connection))
    return config
