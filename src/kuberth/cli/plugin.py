"""`kuberth plugin`: create, list and check plugins.

In: a name and extension points, or `module:Class`. Out: a package with a working plugin; a table of plugins;
a finding for each rule of the contract, and exit code 1 if one is broken.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kuberth.cli import options
from kuberth.cli.context import Extras, build_registry
from kuberth.cli.plugin_scaffold import POINTS, refuse_taken_names, scaffold
from kuberth.errors import ConfigError
from kuberth.text.figures import count

if TYPE_CHECKING:
    from kuberth.cli.plugin_description import PluginDescription
    from kuberth.testing.plugin_contract import PluginReport

_MARKS = {"ok": "ok", "skipped": "-", "warning": "warning", "failed": "FAILED"}


@click.group("plugin")
def plugin_group() -> None:
    """Create, list and check scheduler plugins."""


@plugin_group.command("new", short_help="Create a package with a plugin, its tests and a configuration.")
@click.argument("name")
@options.with_default(
    "--points", None, "filter,score", f"Extension points to serve: {', '.join(POINTS)}.", metavar="A,B"
)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to create the package.  [default: a new folder named after the plugin]",
)
def new_command(name: str, points: str, directory: Path | None) -> None:
    """Create an installable package with a plugin called NAME, its tests and a configuration."""
    made = scaffold(name, [point.strip() for point in points.split(",") if point.strip()])
    refuse_taken_names(made)
    folder = directory or Path(made.distribution)
    try:
        if folder.exists() and any(folder.iterdir()):
            raise ConfigError(f"{folder} is not empty; choose another NAME or --directory")
        for path, text in made.files.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    except OSError as error:
        problem = f"{error.strerror or error} ({error.filename})"
        raise ConfigError(f"cannot create {folder}: {problem}; choose another --directory") from error
    click.echo(f"Created {folder} with plugin {made.class_name} ({', '.join(made.points)}). Try it:\n")
    click.echo(f"  cd {folder}")
    click.echo("  pip install --editable '.[test]'")
    click.echo("  pytest")
    click.echo(f"  kuberth plugin check {made.module}:{made.class_name}")
    click.echo("  kuberth up --config config.yaml --reload")


@plugin_group.command("list", short_help="List plugins and queues, or describe the named ones.")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@options.plugin
@options.output("table", "json")
@click.pass_obj
def list_command(
    extras: Extras | None, names: Sequence[str], plugin_references: Sequence[str], output: str
) -> None:
    """List all plugins and queues, or show the arguments, events and inputs of the named ones.

    -o json prints all details of all plugins and queues.
    """
    from kuberth.api.wire import encode
    from kuberth.cli.plugin_description import describe, queues

    registry, own_queues = build_registry(extras or Extras(), plugin_references), queues()
    by_name = {each.name: each for each in own_queues}
    unknown = [name for name in names if name not in registry and name not in by_name]
    if unknown:
        raise ConfigError(f"there is no plugin {unknown[0]!r}; `kuberth plugin list` shows all")
    everything = [*sorted(registry.names()), *by_name]
    found = [by_name.get(name) or describe(name, registry) for name in names or everything]
    if output == "json":
        click.echo(encode([asdict(each) for each in found]).decode())
    elif names:
        for each in found:
            _show_one(each)
    else:
        _show_all(found)


def _show_all(found: Sequence[PluginDescription]) -> None:
    width = max(len(each.name) for each in found)
    for each in found:
        origin = "" if each.origin == "in-tree" else f" ({each.origin})"
        line = f"{', '.join(each.points)}{origin}"
        if each.problem:
            line = f"{line}: {each.problem}" if each.points else each.problem
        head = f"{each.name:<{width}}  "
        click.echo(click.wrap_text(line, width=80, initial_indent=head, subsequent_indent=" " * len(head)))
    click.echo("\n`kuberth plugin list NAME` shows class, arguments, events and statement.")
    click.echo("--queue takes the class of a queue.")


def _show_one(each: PluginDescription) -> None:
    click.echo(f"{each.name}\n  from       {each.origin}\n  class      {each.factory}")
    if each.problem:
        click.echo(f"  problem    {each.problem}")
    click.echo(f"  points     {', '.join(each.points) or 'none'}")
    for title, lines in (("args", each.args), ("events", each.events), ("statement", each.statement)):
        for number, line in enumerate(lines or ["none"]):
            head = f"  {title if not number else '':<10} "
            click.echo(click.wrap_text(line, width=80, initial_indent=head, subsequent_indent=" " * 15))


@plugin_group.command("check")
@click.argument("reference", metavar="MODULE:CLASS")
@click.option("--args", "args_file", type=options.FILE, help="YAML file with the plugin's arguments.")
@click.option(
    "--pods", "pods_file", type=options.FILE, help="YAML file with pods to test besides random ones."
)
@options.with_default("--clusters", click.IntRange(min=1), 40, "Random clusters to try.")
@options.with_default("--seed", int, 1, "Seed of the first random cluster.")
@options.output("table", "json")
def check_command(
    reference: str, args_file: Path | None, pods_file: Path | None, clusters: int, seed: int, output: str
) -> None:
    """Check a plugin against the framework's contract on random clusters.

    Exits with 1 if a rule is broken. A queue class is checked against the contract of queues.
    """
    from kuberth.api.wire import encode
    from kuberth.explaining.sources import read_pods
    from kuberth.framework.extension_points import Plugin
    from kuberth.framework.registry import plugin_name, resolve_reference
    from kuberth.queue.interface import SchedulingQueue
    from kuberth.testing.plugin_contract import check_plugin, check_queue

    target = resolve_reference(reference, option="MODULE:CLASS")
    if not (inspect.isclass(target) and issubclass(target, Plugin | SchedulingQueue)):
        raise ConfigError(
            f"{reference}: {target!r} is not a class derived from kuberth.framework.Plugin, or from "
            "kuberth.queue.SchedulingQueue"
        )
    if issubclass(target, SchedulingQueue):
        report = check_queue(target, target.__name__)
    else:
        plugin_name(target, reference)
        report = check_plugin(
            target,
            args=None if args_file is None else _mapping(args_file),
            pods=() if pods_file is None else read_pods(pods_file),
            clusters=clusters,
            start=seed,
        )
    if output == "json":
        click.echo(encode(_tree(report)).decode())
    else:
        _show_report(report)
    sys.exit(0 if report.is_kept else 1)


def _show_report(report: PluginReport) -> None:
    for finding in report.findings:
        lines = click.wrap_text(finding.message, width=58).splitlines()
        click.echo(f"{_MARKS[finding.outcome]:<8} {finding.rule:<13} {lines[0]}")
        for line in lines[1:]:
            click.echo(f"{'':<22} {line}")
    for timing in report.timings:
        click.echo(
            f"{'time':<8} {timing.point:<13} {timing.microseconds:.2f} µs a node of 5,000 "
            f"({timing.reference}: {timing.reference_microseconds:.2f} µs)"
        )
    broken = sum(finding.outcome == "failed" for finding in report.findings)
    click.echo(f"{report.plugin}: {count(broken, 'broken rule') if broken else 'keeps the contract'}")


def _tree(report: PluginReport) -> dict[str, Any]:
    return {
        "plugin": report.plugin,
        "points": list(report.points),
        "kept": report.is_kept,
        "findings": [each._asdict() for each in report.findings],
        "timings": [each._asdict() for each in report.timings],
    }


def _mapping(file: Path) -> dict[str, Any]:
    from kuberth.text.documents import read_file

    tree = read_file(file, "the plugin's arguments")
    if not isinstance(tree, dict):
        raise ConfigError(f"{file}: expected a mapping of arguments")
    return tree
