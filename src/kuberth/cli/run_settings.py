"""Runs `kuberth run`.

In: flags, plugins and a queue. Out: the configuration written to a file, or the exit code of a scheduler.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from kuberth.cli.context import Extras, build_registry, notices, queue_factory
from kuberth.cli.context import configuration as load_configuration
from kuberth.cli.rule_reader import RuleReader
from kuberth.cli.run_flags import Flags
from kuberth.clock import run_on_fastest_loop
from kuberth.config import KubeSchedulerConfiguration, to_yaml
from kuberth.config.feature_gates import parse_settings
from kuberth.errors import ConfigError
from kuberth.framework.registry import Registry
from kuberth.programs.memory import collecting_in_portions
from kuberth.programs.run.daemon import ServingSettings, Settings
from kuberth.programs.run.daemon import run as run_daemon

logger = logging.getLogger(__name__)

_ELECTION = {
    "leader_elect": "leader-elect",
    "lease_duration": "leader-elect-lease-duration",
    "renew_deadline": "leader-elect-renew-deadline",
    "retry_period": "leader-elect-retry-period",
    "resource_lock": "leader-elect-resource-lock",
    "resource_name": "leader-elect-resource-name",
    "resource_namespace": "leader-elect-resource-namespace",
}
_CONNECTION = {"qps": "kube-api-qps", "burst": "kube-api-burst"}


def run_scheduler(
    flags: Flags,
    extras: Extras,
    *,
    plugin_references: Sequence[str] = (),
    queue_reference: str | None = None,
    check_plans_every: int,
    page: bool = False,
    reload_modules: bool = False,
) -> int:
    """Run the scheduler, or write its configuration; the keywords are options that kube-scheduler lacks."""
    registry = build_registry(extras, plugin_references)
    config = configuration(flags, registry)
    target = flags["write-config-to"]
    if target is not None:
        target.write_text(to_yaml(config), encoding="utf-8")
        return 0
    if page and not flags["secure-port"]:
        raise ConfigError("--page is served on the secure port: set it with --secure-port")
    for notice in notices(config, registry, references=plugin_references):
        logger.warning("%s", notice)
    reader = RuleReader(
        extras,
        registry,
        lambda _text, plugins: configuration(flags, plugins),
        plugins=plugin_references,
        queue=queue_reference,
        path=flags["config"],
        reloads_modules=reload_modules,
    )
    settings = Settings(
        config=config,
        registry=registry,
        queue=queue_factory(extras, queue_reference),
        kubeconfig=flags["kubeconfig"],
        master=flags["master"],
        rules=reader.read,
        rule_sources=reader.sources(),
        max_unschedulable_seconds=flags["pod-max-in-unschedulable-pods-duration"].total_seconds(),
        check_plans_every=check_plans_every,
        serving=_serving(flags),
        page=page,
        flags={
            **flags.shown(),
            "plugin": f"[{','.join(plugin_references)}]",
            "queue": queue_reference or "",
            "check-plans-every": str(check_plans_every),
            "page": str(page).lower(),
            "reload": str(reload_modules).lower(),
        },
    )
    try:
        with collecting_in_portions():
            return run_on_fastest_loop(run_daemon(settings))
    except (SystemExit, KeyboardInterrupt) as end:
        # Signals arrive differently: code in the process, most likely a plugin, raised this.
        logger.error("%r was raised inside the scheduler; exiting, so that it can be restarted", end)
        return 1


def configuration(flags: Flags, registry: Registry) -> KubeSchedulerConfiguration:
    """The file, overridden by flags; as upstream, other flags only count without a file."""
    file = flags["config"]
    config = load_configuration(file, registry, parse_settings(",".join(flags["feature-gates"])))
    replace = msgspec.structs.replace
    config = replace(config, leader_election=replace(config.leader_election, **_given(flags, _ELECTION)))
    if file is None:
        connection = replace(config.client_connection, **_given(flags, _CONNECTION))
        config = replace(config, client_connection=connection)
    return config


def _given(flags: Flags, fields: dict[str, str]) -> dict[str, Any]:
    return {field: flags.given(name) for field, name in fields.items() if flags.given(name) is not None}


def _serving(flags: Flags) -> ServingSettings | None:
    if not flags["secure-port"]:
        return None
    return ServingSettings(
        host=flags["bind-address"],
        port=flags["secure-port"],
        cert_file=flags["tls-cert-file"],
        key_file=flags["tls-private-key-file"],
        client_ca_file=flags["client-ca-file"],
        open_paths=frozenset(flags["authorization-always-allow-paths"]),
        authentication_kubeconfig=flags["authentication-kubeconfig"],
        authorization_kubeconfig=flags["authorization-kubeconfig"],
    )
