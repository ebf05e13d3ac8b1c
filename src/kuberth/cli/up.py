"""`kuberth up`: start a local cluster for kubectl."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from kuberth.cli.context import (
    FILE,
    FILE_OR_FOLDER,
    NEW_FILE,
    Extras,
    build_registry,
    configuration,
    default_option,
    feature_gates_option,
    notices,
    plugin_option,
    queue_factory,
    queue_option,
    reload_option,
)

_SETTINGS = ("nodes", "remove_nodes", "shapes", "devices", "host", "port", "kubeconfig_out")
"""Flags that are settings of the cluster under the same name."""


def default_data() -> Path:
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "kuberth"


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
@click.option(
    "--shapes",
    type=FILE,
    help="YAML file with node shapes.",
)
@click.option(
    "--devices",
    type=FILE,
    help="YAML file with devices that simulated drivers publish.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder that stores the cluster.  [default: ~/.local/share/kuberth]",
)
@click.option("--memory", is_flag=True, help="Keep the cluster in memory only; it is lost at the end.")
@default_option(
    "--host", None, "127.0.0.1", "Address to listen on. Everyone with the credentials is an administrator."
)
@default_option("--port", click.IntRange(0, 65535), 6443, "Port of the API server; 0 picks a free port.")
@click.option(
    "--page-port",
    type=click.IntRange(0, 65535),
    help="Port of the web page, on the loopback interface only.  [default: 6480, or a free port]",
)
@click.option("--no-page", is_flag=True, help="Do not serve the web page and the data for `kuberth top`.")
@click.option(
    "--kubeconfig-out",
    type=NEW_FILE,
    help="File to write the kubeconfig to; an existing kubeconfig is merged.",
)
@click.option(
    "-f",
    "--filename",
    "filenames",
    multiple=True,
    type=FILE_OR_FOLDER,
    help="File or folder of manifests to apply; repeatable.",
)
@click.option(
    "--config",
    "config_path",
    type=FILE,
    help="Path to a KubeSchedulerConfiguration file.",
)
@click.option("--no-scheduler", is_flag=True, help="Do not start a scheduler; run another one instead.")
@click.option("--without", multiple=True, metavar="CONTROLLER", help="Controller to disable; repeatable.")
@feature_gates_option
@reload_option
@plugin_option
@queue_option
@click.pass_obj
def up(extras: Extras | None, /, **flags: Any) -> None:
    """Run a local cluster until Ctrl-C: a Kubernetes API server, simulated nodes and the scheduler."""
    # Heavy, and not for --help.
    from kuberth.cli.rule_reader import RuleReader
    from kuberth.cli.up_display import run_cluster
    from kuberth.clock import run_on_fastest_loop
    from kuberth.config import FeatureGates, KubeSchedulerConfiguration, default_configuration
    from kuberth.config.feature_gates import parse_settings
    from kuberth.framework.registry import Registry
    from kuberth.local.manifests import read_manifests
    from kuberth.programs.up.cluster import ClusterSettings, PageSettings

    if flags["no_page"] and flags["page_port"] is not None:
        raise click.UsageError("--page-port has no effect with --no-page")
    if flags["remove_nodes"] and flags["nodes"] is None and flags["shapes"] is None:
        raise click.UsageError("--remove-nodes needs --nodes or --shapes to know which nodes stay")
    extras = extras or Extras()
    registry = build_registry(extras, flags["plugin_references"])
    gates = parse_settings(flags["feature_gates"])
    path: Path | None = flags["config_path"]

    def load(text: str | None, plugins: Registry) -> KubeSchedulerConfiguration:
        if text is not None:
            return configuration(text, plugins, gates, name="its config.yaml")
        if path is not None:
            return configuration(path, plugins, gates)
        return default_configuration(FeatureGates(gates))

    wanted = load(None, registry)
    for notice in notices(wanted, registry, references=flags["plugin_references"]):
        click.echo(f"Warning: {notice}", err=True)
    reading = RuleReader(
        extras,
        registry,
        load,
        plugins=flags["plugin_references"],
        queue=flags["queue_reference"],
        path=path,
        reloads_modules=flags["reload_modules"],
    )
    page = None
    if not flags["no_page"]:
        port = flags["page_port"]
        page = PageSettings() if port is None else PageSettings(port, or_any=False)
    settings = ClusterSettings(
        **{name: flags[name] for name in _SETTINGS},
        data=None if flags["memory"] else flags["data"] or default_data(),
        manifests=tuple(manifest for path in flags["filenames"] for manifest in read_manifests(path)),
        config=None if path is None else wanted,
        registry=registry,
        queue=queue_factory(extras, flags["queue_reference"]),
        with_scheduler=not flags["no_scheduler"],
        without=frozenset(flags["without"]),
        feature_gates=dict(FeatureGates(wanted.feature_gates)),
        rules=reading.read,
        rule_sources=reading.sources(),
        page=page,
    )
    run_on_fastest_loop(run_cluster(settings))
