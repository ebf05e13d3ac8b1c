"""What commands share: plugins and a queue given by code or by `module:Name` options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import click

from kuberth.errors import ConfigError
from kuberth.framework.registry import PluginFactory, Registry, resolve_reference
from kuberth.queue.interface import QueueFactory


@dataclass(frozen=True, slots=True)
class Extras:
    """What the caller of `kuberth.cli.main` added."""

    plugins: Mapping[str, PluginFactory] = field(default_factory=dict)
    queue: QueueFactory | None = None


plugin_option = click.option(
    "--plugin",
    "plugin_references",
    metavar="MODULE:CLASS",
    multiple=True,
    help="Add a plugin class; repeatable. Enable it in the configuration.",
)

queue_option = click.option(
    "--queue",
    "queue_reference",
    metavar="MODULE:FACTORY",
    help="Replace the scheduling queue, e.g. kuberth.queue.fair_share:FairShareQueue.",
)


def build_registry(extras: Extras, references: Sequence[str]) -> Registry:
    """In-tree plugins, installed packages, the caller's own, and those named on the command line."""
    from kuberth.assembly.profiles import (
        full_registry,  # the drop-in entry point stays light until plugins are needed
    )

    registry = full_registry(extras.plugins)
    for reference in references:
        registry.load_reference(reference)
    return registry


def queue_factory(extras: Extras, reference: str | None) -> QueueFactory | None:
    if reference is None:
        return extras.queue
    factory = resolve_reference(reference, option="--queue")
    if not callable(factory):
        raise ConfigError(f"--queue {reference}: {factory!r} cannot be called; expected a queue factory")
    return factory  # type: ignore[no-any-return]  # whatever it makes is checked when it has made it
