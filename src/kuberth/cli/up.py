"""`kuberth up`: one command to a working cluster that kubectl talks to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from kuberth.cli.context import Extras, build_registry, notices, plugin_option, queue_factory, queue_option


def default_data() -> Path:
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "kuberth"


@click.command()
@click.option(
    "--nodes",
    type=click.IntRange(0, 20_000),
    help="How many hollow nodes.  [default: those that are kept; 5 in a new cluster]",
)
@click.option(
    "--remove-nodes",
    is_flag=True,
    help="Remove kept hollow nodes beyond --nodes or --shapes, with the pods on them.",
)
@click.option(
    "--shapes",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A YAML file with the shapes of the nodes.",
)
@click.option(
    "--devices",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A YAML file with the devices of the nodes, which drivers publish.",
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
    "--page-port",
    type=click.IntRange(0, 65535),
    help="Port of the page, for browsers on this machine alone.  [default: 6480, or any that is free]",
)
@click.option("--no-page", is_flag=True, help="Serve no page, and nothing for kuberth top.")
@click.option(
    "--kubeconfig-out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the kubeconfig there; merged into what the file has.",
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
@click.option(
    "--reload",
    "reload_modules",
    is_flag=True,
    help="Read the modules of --plugin and --queue again when their files change.",
)
@plugin_option
@queue_option
@click.pass_obj
def up(extras: Extras | None, /, **flags: Any) -> None:
    """Start a small Kubernetes API server, hollow nodes and the scheduler, until Ctrl-C."""
    # Heavy, and not for --help.
    from kuberth.cli.event_loops import run_on_fastest_loop
    from kuberth.cli.up_display import run_cluster
    from kuberth.cli.up_rules import RuleReader, configuration
    from kuberth.config import FeatureGates, default_configuration
    from kuberth.config.feature_gates import parse_settings
    from kuberth.local.manifests import read_manifests
    from kuberth.programs.up.cluster import ClusterSettings, PageSettings

    if flags["no_page"] and flags["page_port"] is not None:
        raise click.UsageError("--no-page serves no page, so --page-port has no meaning")
    if flags["remove_nodes"] and flags["nodes"] is None and flags["shapes"] is None:
        raise click.UsageError("--remove-nodes needs --nodes or --shapes to know which nodes stay")
    extras = extras or Extras()
    registry = build_registry(extras, flags["plugin_references"])
    gates = parse_settings(flags["feature_gates"])
    path: Path | None = flags["config_path"]
    given = None if path is None else configuration(path, registry, gates)
    wanted = given or default_configuration(FeatureGates(gates))
    for notice in notices(wanted, registry, references=flags["plugin_references"]):
        click.echo(f"Warning: {notice}", err=True)
    reading = RuleReader(
        extras,
        registry,
        plugins=flags["plugin_references"],
        queue=flags["queue_reference"],
        path=path,
        gates=gates,
        reloads_modules=flags["reload_modules"],
    )
    page = None
    if not flags["no_page"]:
        port = flags["page_port"]
        page = PageSettings() if port is None else PageSettings(port, or_any=False)
    settings = ClusterSettings(
        nodes=flags["nodes"],
        remove_nodes=flags["remove_nodes"],
        shapes=flags["shapes"],
        devices=flags["devices"],
        data=None if flags["memory"] else flags["data"] or default_data(),
        host=flags["host"],
        port=flags["port"],
        kubeconfig_out=flags["kubeconfig_out"],
        manifests=tuple(manifest for path in flags["filenames"] for manifest in read_manifests(path)),
        config=given,
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
