"""`kuberth explain`: why a pod waits and what would free it, or why it is where it is."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kuberth.cli.context import Extras, build_registry, plugin_option

if TYPE_CHECKING:
    from kuberth.cli.explain_sources import Inquiry

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_CLUSTER = click.Path(exists=True, path_type=Path)


@click.command()
@click.argument("target", nargs=-1)
@click.option("-f", "--filename", type=_FILE, help="A manifest of one pod or workload, created or not.")
@click.option("-n", "--namespace", help="The namespace.  [default: that of the kubeconfig]")
@click.option("--kubeconfig", metavar="FILE", help="The cluster to read, as for kubectl.")
@click.option("--context", help="The kubeconfig's context.")
@click.option(
    "--cluster",
    "dump",
    type=_CLUSTER,
    help="Objects of a cluster, a file or a folder, instead of one that runs: kubectl get ... -A -o yaml.",
)
@click.option(
    "--server",
    metavar="URL",
    help="Ask the Kuberth that serves there (https://host:10259) with the kubeconfig's credentials.",
)
@click.option("--certificate-authority", metavar="FILE", help="Whom to trust for --server.")
@click.option("--insecure-skip-tls-verify", "insecure", is_flag=True, help="Trust anybody for --server.")
@click.option("--dry-run", is_flag=True, help="Read the cluster alone, also if a Kuberth runs there.")
@click.option("--config", "config_path", type=_FILE, help="A KubeSchedulerConfiguration for the dry run.")
@click.option("--feature-gates", default="", metavar="A=true,B=false", help="Turn features on or off.")
@click.option("--names", is_flag=True, help="Name every node.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@plugin_option
@click.pass_obj
def explain(extras: Extras | None, /, **flags: Any) -> None:
    """Say why a pod waits and what would free it, or why it is where it is.

    TARGET is `pod NAME`, `deployment/NAME` or any other kind with a pod template. Nothing is written: on a
    cluster of another scheduler this is a dry run with the given or the default configuration.
    """
    # Heavy, and not for --help.
    from kuberth.cli.explain_sources import answer_tree

    inquiry = _inquiry(extras or Extras(), flags)
    # One question and the end: a cluster is trees without a cycle, there is nothing to collect.
    gc.disable()
    try:
        _print(answer_tree(inquiry), flags["output"], names=flags["names"])
    finally:
        gc.enable()


def _inquiry(extras: Extras, flags: dict[str, Any]) -> Inquiry:
    from kuberth.cli.explain_sources import Inquiry
    from kuberth.cli.up_rules import configuration
    from kuberth.config import FeatureGates
    from kuberth.config.feature_gates import parse_settings
    from kuberth.explaining.targets import read_target

    if bool(flags["target"]) == (flags["filename"] is not None):
        raise click.UsageError("give either a TARGET such as `pod NAME`, or -f FILE")
    if flags["server"] and (flags["filename"] or flags["dump"] or flags["dry_run"] or flags["config_path"]):
        raise click.UsageError("--server explains pods that it knows, by its own configuration")
    registry = build_registry(extras, flags["plugin_references"])
    gates = parse_settings(flags["feature_gates"])
    path: Path | None = flags["config_path"]
    return Inquiry(
        target=read_target(flags["target"]) if flags["target"] else None,
        manifest=flags["filename"],
        namespace=flags["namespace"],
        kubeconfig=flags["kubeconfig"],
        context=flags["context"],
        dump=flags["dump"],
        server=flags["server"],
        certificate_authority=flags["certificate_authority"],
        insecure=flags["insecure"],
        dry_run=flags["dry_run"] or path is not None,
        config=None if path is None else configuration(path, registry, gates),
        registry=registry,
        feature_gates=FeatureGates(gates),
    )


def _print(tree: dict[str, Any], output: str, *, names: bool) -> None:
    import json
    import time

    from rich.console import Console

    from kuberth.cli.explain_display import tell

    if output == "json":
        click.echo(json.dumps(tree, indent=2, ensure_ascii=False))
    else:
        tell(tree, Console(highlight=False, markup=False, emoji=False), names=names, now=time.time())
