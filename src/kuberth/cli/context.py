"""What commands share: plugins and a queue given by code or by `module:Name` options.

Importing this is cheap; what it needs of the scheduler it imports when a command runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from kuberth.errors import ConfigError, KuberthError

if TYPE_CHECKING:
    from kuberth.config import KubeSchedulerConfiguration
    from kuberth.framework.registry import PluginFactory, Registry
    from kuberth.queue.interface import QueueContext, QueueFactory, SchedulingQueue


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
    from kuberth.assembly.profiles import full_registry

    registry = full_registry(extras.plugins)
    for reference in references:
        registry.load_reference(reference)
    return registry


def queue_factory(extras: Extras, reference: str | None) -> QueueFactory | None:
    from kuberth.framework.registry import resolve_reference
    from kuberth.queue.interface import SchedulingQueue

    if reference is None:
        return extras.queue
    factory = resolve_reference(reference, option="--queue")
    if not callable(factory):
        raise ConfigError(f"--queue {reference}: {factory!r} cannot be called; expected a queue factory")

    def make(context: QueueContext) -> SchedulingQueue:
        try:
            queue: object = factory(context)
        except KuberthError:
            raise
        except Exception as exc:  # whatever a factory does
            raise ConfigError(f"--queue {reference} failed: {type(exc).__name__}: {exc}") from exc
        if not isinstance(queue, SchedulingQueue):
            raise ConfigError(
                f"--queue {reference} made {queue!r}, which is no kuberth.queue.interface.SchedulingQueue"
            )
        return queue

    return make


def notices(
    config: KubeSchedulerConfiguration, registry: Registry, *, references: Sequence[str]
) -> Iterator[str]:
    """What was asked for but will not happen, a sentence each: told at the start, never silent."""
    from kuberth.config import resolve_profile
    from kuberth.framework.registry import installed_plugins, resolve_reference

    points = registry.extension_points()
    enabled = {name for profile in config.profiles for name in resolve_profile(profile, points).names()}
    for reference in references:
        name = resolve_reference(reference, option="--plugin").name
        if name not in enabled:
            yield (
                f"plugin {name}, given with --plugin {reference}, is enabled in no profile and does nothing; "
                f"add it to profiles[].plugins.multiPoint.enabled in the configuration"
            )
    for entry in installed_plugins():
        factory = registry[entry.name]
        own_name = getattr(factory, "name", entry.name) if inspect.isclass(factory) else entry.name
        if own_name != entry.name:
            yield (
                f"the installed plugin {entry.value} is called {own_name} by its class but {entry.name} by "
                f"its entry point; the configuration must call it {entry.name}"
            )
