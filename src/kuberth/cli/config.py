"""`kuberth config`: look at a scheduler configuration without running it.

In: a KubeSchedulerConfiguration file, or `-` for standard input. Out: `validate` says whether it is right,
every problem on a line of its own; `print` shows it complete, with what it leaves to defaults.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple, NoReturn

import click

from kuberth.config import (
    InvalidConfiguration,
    KubeSchedulerConfiguration,
    load,
    resolve_profile,
    to_json,
    to_yaml,
)
from kuberth.config.defaults import IN_TREE_POINTS
from kuberth.config.feature_gates import parse_settings
from kuberth.config.types import API_VERSION, KIND
from kuberth.errors import ConfigError

_NOTHING_SET = {"apiVersion": API_VERSION, "kind": KIND}

_feature_gates_option = click.option(
    "--feature-gates", "feature_gates", default="", metavar="A=true,B=false", help="Override feature gates."
)
_plugin_option = click.option(
    "--plugin", "plugins", multiple=True, metavar="MODULE:CLASS", help="A plugin of your own; repeatable."
)


class KnownPlugins(NamedTuple):
    """What validation needs to know of the plugins there are."""

    names: Collection[str]
    extension_points: Mapping[str, Collection[str]]
    args_types: Mapping[str, type]


@click.group("config", help="Check and show scheduler configurations.")
def config_group() -> None:
    pass


@config_group.command("validate")
@click.argument("file", metavar="FILE")
@_feature_gates_option
@_plugin_option
def validate_command(file: str, feature_gates: str, plugins: tuple[str, ...]) -> None:
    """Check FILE (- for standard input): exit 0 if it is right, else list every problem and exit 1."""
    config, known = _load(file, feature_gates, plugins)
    profiles = len(config.profiles)
    names = {
        name
        for profile in config.profiles
        for name in resolve_profile(profile, known.extension_points).names()
    }
    click.echo(f"{_title(file)}: valid, {_count(profiles, 'profile')}, {_count(len(names), 'plugin')}")


@config_group.command("print")
@click.argument("file", metavar="[FILE]", required=False)
@_feature_gates_option
@_plugin_option
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def print_command(file: str | None, feature_gates: str, plugins: tuple[str, ...], output: str) -> None:
    """Show FILE (- for standard input) with every default filled in; without FILE, the defaults."""
    config, _ = _load(file, feature_gates, plugins)
    click.echo(to_json(config) if output == "json" else to_yaml(config), nl=False)


def known_plugins(references: tuple[str, ...] = ()) -> KnownPlugins:
    """The in-tree plugins, and those named with `--plugin`."""
    names: list[str] = [*IN_TREE_POINTS]
    points: dict[str, Collection[str]] = {**IN_TREE_POINTS}
    args_types: dict[str, type] = {}
    if references:
        # Imported here because the framework brings numpy along, which no file needs to be checked.
        from kuberth.framework.registry import Registry

        # A plugin may live in a file of the working directory, where `python -m` would find it too.
        if "" not in sys.path:
            sys.path.insert(0, "")
        registry = Registry()
        for reference in references:
            registry.load_reference(reference)
        names += registry.names()
        points |= registry.extension_points()
        args_types |= registry.args_types()
    return KnownPlugins(names, points, args_types)


def _load(
    file: str | None, feature_gates: str, plugins: tuple[str, ...]
) -> tuple[KubeSchedulerConfiguration, KnownPlugins]:
    try:
        overrides = parse_settings(feature_gates)
    except InvalidConfiguration as error:
        _fail("--feature-gates", [str(one.message) for one in error.errors])
    try:
        known = known_plugins(plugins)
        config = load(
            _NOTHING_SET if file is None else sys.stdin.buffer.read() if file == "-" else Path(file),
            feature_gates=overrides,
            args_types=known.args_types,
            known_plugins=known.names,
            extension_points=known.extension_points,
        )
    except InvalidConfiguration as error:
        _fail(_title(file), [str(one) for one in error.errors])
    except ConfigError as error:
        _fail("kuberth config", [str(error)])
    return config, known


def _fail(title: str, problems: list[str]) -> NoReturn:
    for problem in problems:
        click.echo(f"{title}: {problem}", err=True)
    sys.exit(1)


def _title(file: str | None) -> str:
    return "defaults" if file is None else "<stdin>" if file == "-" else file


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
