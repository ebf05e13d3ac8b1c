"""`kuberth explain`: why a pod is pending and what would help, or why it runs where it does."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kuberth.cli.context import (
    FILE,
    FILE_OR_FOLDER,
    Extras,
    build_registry,
    configuration,
    connection_options,
    feature_gates_option,
    output_option,
    plugin_option,
    server_options,
)

if TYPE_CHECKING:
    from kuberth.cli.explain_sources import Inquiry


@click.command(short_help="Explain why a pod is pending, or why it runs where it does.")
@click.argument("target", nargs=-1)
@click.option(
    "-f",
    "--filename",
    type=FILE,
    help="Manifest of one pod or workload; it does not have to exist in the cluster.",
)
@click.option("-n", "--namespace", help="Namespace of the target.  [default: that of the kubeconfig]")
@connection_options
@click.option(
    "--cluster",
    "dump",
    type=FILE_OR_FOLDER,
    help="Read the cluster from files instead (kubectl get ... -A -o yaml).",
)
@server_options
@click.option("--dry-run", is_flag=True, help="Only read the cluster; do not query a running Kuberth.")
@click.option("--config", "config_path", type=FILE, help="KubeSchedulerConfiguration for the dry run.")
@feature_gates_option
@click.option("--names", is_flag=True, help="List every node by name.")
@output_option("text", "json")
@plugin_option
@click.pass_obj
def explain(extras: Extras | None, /, **flags: Any) -> None:
    """Explain why a pod is pending and what would help, or why it runs where it does.

    TARGET is `pod NAME`, `deployment/NAME` or any other kind with a pod template. Nothing is written: for the
    pods of another scheduler this is a dry run with the given or the default configuration.
    """
    # Heavy, and not for --help.
    from kuberth.cli.explain_sources import answer_tree

    inquiry = _inquiry(extras or Extras(), flags)
    # The process ends after one answer, and a cluster has no reference cycles: garbage collection is not
    # needed.
    gc.disable()
    try:
        _print(answer_tree(inquiry), flags["output"], names=flags["names"])
    finally:
        gc.enable()


def _inquiry(extras: Extras, flags: dict[str, Any]) -> Inquiry:
    from kuberth.cli.explain_sources import Inquiry
    from kuberth.config import FeatureGates
    from kuberth.config.feature_gates import parse_settings
    from kuberth.explaining.targets import read_target

    if bool(flags["target"]) == (flags["filename"] is not None):
        raise click.UsageError("give either a TARGET such as `pod NAME`, or -f FILE")
    if flags["server"] and (flags["filename"] or flags["dump"] or flags["dry_run"] or flags["config_path"]):
        raise click.UsageError("--server explains only pods that it knows, with its own configuration")
    registry = build_registry(extras, flags["plugin_references"])
    gates = parse_settings(flags["feature_gates"])
    path: Path | None = flags["config_path"]
    return Inquiry(
        read_target(flags["target"]) if flags["target"] else None,
        config=None if path is None else configuration(path, registry, gates),
        registry=registry,
        feature_gates=FeatureGates(gates),
        flags={**flags, "dry_run": flags["dry_run"] or path is not None},
    )


def _print(tree: dict[str, Any], output: str, *, names: bool) -> None:
    import json
    import time

    from rich.console import Console

    from kuberth.cli.explain_display import print_explanation

    if output == "json":
        click.echo(json.dumps(tree, indent=2, ensure_ascii=False))
    else:
        console = Console(highlight=False, markup=False, emoji=False)
        print_explanation(tree, console, names=names, now=time.time())
