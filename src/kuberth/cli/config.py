"""`kuberth config`: validate or print a scheduler configuration.

In: a KubeSchedulerConfiguration file, or `-` for standard input. Out: `validate` lists every problem, one a
line; `print` writes the configuration with all defaults.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from kuberth.cli import options
from kuberth.cli.context import Extras, build_registry, notices, queue_factory
from kuberth.errors import ConfigError, KuberthError
from kuberth.text.figures import count

if TYPE_CHECKING:
    from kuberth.config import KubeSchedulerConfiguration
    from kuberth.framework.registry import Registry
    from kuberth.queue.interface import QueueFactory


@click.group("config", help="Validate and print scheduler configurations.")
def config_group() -> None:
    pass


@config_group.command("validate", short_help="List every problem of a configuration.")
@click.argument("file", metavar="FILE")
@options.feature_gates
@options.plugin
@options.queue
@click.pass_obj
def validate_command(extras: Extras | None, /, file: str, **flags: Any) -> None:
    """Validate FILE (- for standard input), list every problem, and exit with 1 if there is one.

    Plugins and the queue are constructed, as a scheduler would, but not started.
    """
    import asyncio

    from kuberth.config import resolve_profile

    config, registry = _load(extras or Extras(), file, flags)
    try:
        factory = queue_factory(extras or Extras(), flags["queue_reference"])
        warnings = asyncio.run(_construct(config, registry, factory))
    except KuberthError as error:
        _fail(_title(file), [str(error)])
    for notice in (*notices(config, registry, references=flags["plugin_references"]), *warnings):
        click.echo(f"{_title(file)}: {notice}", err=True)
    names = {
        name
        for profile in config.profiles
        for name in resolve_profile(profile, registry.extension_points()).names()
    }
    click.echo(
        f"{_title(file)}: valid, {count(len(config.profiles), 'profile')}, {count(len(names), 'plugin')}"
    )


@config_group.command("print", short_help="Print a configuration with all defaults.")
@click.argument("file", metavar="[FILE]", required=False)
@options.feature_gates
@options.plugin
@options.output("yaml", "json")
@click.pass_obj
def print_command(extras: Extras | None, /, file: str | None, output: str, **flags: Any) -> None:
    """Print FILE (- for standard input) with all defaults, or the default configuration."""
    from kuberth.config import to_json, to_yaml

    config, _ = _load(extras or Extras(), file, flags)
    click.echo(to_json(config) if output == "json" else to_yaml(config), nl=False)


async def _construct(
    config: KubeSchedulerConfiguration, registry: Registry, queue: QueueFactory | None
) -> list[str]:
    """Construct a scheduler that never runs; return its profiles' warnings.

    KuberthError if it cannot be constructed.
    """
    from kuberth.assembly.scheduler import Scheduler
    from kuberth.local.memory_api import MemoryApi

    scheduler = Scheduler(MemoryApi(), config=config, registry=registry, queue=queue)
    await scheduler.discard()
    return [warning for runner in scheduler.runners.values() for warning in runner.profile.warnings]


def _load(
    extras: Extras, file: str | None, flags: Mapping[str, Any]
) -> tuple[KubeSchedulerConfiguration, Registry]:
    from kuberth.assembly.profiles import load_configuration
    from kuberth.config import InvalidConfiguration
    from kuberth.config.feature_gates import parse_settings

    try:
        overrides = parse_settings(flags["feature_gates"])
    except InvalidConfiguration as error:
        _fail("--feature-gates", [str(one.message) for one in error.errors])
    try:
        registry = build_registry(extras, flags["plugin_references"])
        source = None if file is None else sys.stdin.buffer.read() if file == "-" else Path(file)
        config = load_configuration(source, registry, feature_gates=overrides)
    except InvalidConfiguration as error:
        _fail(_title(file), [str(one) for one in error.errors])
    except ConfigError as error:
        _fail("kuberth config", [str(error)])
    return config, registry


def _fail(title: str, problems: list[str]) -> NoReturn:
    for problem in problems:
        click.echo(f"{title}: {problem}", err=True)
    sys.exit(1)


def _title(file: str | None) -> str:
    return "defaults" if file is None else "<stdin>" if file == "-" else file
