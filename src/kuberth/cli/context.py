"""What commands share: plugins and queues from `module:Name` options, configurations and warnings.

Importing this is cheap: parts of the scheduler are imported when a command runs.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from kuberth.errors import ConfigError, KuberthError

if TYPE_CHECKING:
    from kuberth.config import KubeSchedulerConfiguration
    from kuberth.config.types import KubeSchedulerProfile
    from kuberth.framework.registry import PluginFactory, Registry
    from kuberth.queue.interface import QueueContext, QueueFactory, SchedulingQueue


Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Extras:
    """Plugins and a queue from the caller of `kuberth.cli.main`."""

    plugins: Mapping[str, PluginFactory] = field(default_factory=dict)
    queue: QueueFactory | None = None


def runs(function: str) -> Callable[[Command], Command]:
    """Let a command run a function, `module:name`, which is imported only then, so that help is fast.

    The function receives the plugins and the queue of the caller of `main`, and the flags.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        @click.pass_context
        def run(ctx: click.Context, /, **flags: Any) -> None:
            if ctx.invoked_subcommand is None:
                module, _, name = function.partition(":")
                getattr(importlib.import_module(module), name)(ctx.obj or Extras(), flags)

        return cast(Command, run)

    return decorate


def configuration(
    source: Path | str | None, registry: Registry, gates: Mapping[str, bool], *, name: str = ""
) -> KubeSchedulerConfiguration:
    """Load a file, or a text called `name`; None is the default configuration."""
    from kuberth.assembly.profiles import load_configuration
    from kuberth.config import InvalidConfiguration

    try:
        return load_configuration(source, registry, feature_gates=gates)
    except InvalidConfiguration as exc:
        title = name or source or "--feature-gates"
        raise ConfigError("\n".join(f"{title}: {error}" for error in exc.errors)) from exc


def build_registry(extras: Extras, references: Sequence[str]) -> Registry:
    """In-tree plugins, installed packages, the caller's plugins, and those given on the command line."""
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
    path, arguments = _parse_reference(reference)
    factory = resolve_reference(path, option="--queue")
    if not callable(factory):
        raise ConfigError(f"--queue {reference}: {factory!r} is not callable; expected a queue factory")

    def make(context: QueueContext) -> SchedulingQueue:
        try:
            queue: object = factory(context, **arguments)
        except KuberthError:
            raise
        except Exception as exc:  # a factory may raise anything
            raise ConfigError(f"--queue {reference} failed: {type(exc).__name__}: {exc}") from exc
        if not isinstance(queue, SchedulingQueue):
            raise ConfigError(
                f"--queue {reference} returned {queue!r}, which is not a "
                "kuberth.queue.interface.SchedulingQueue"
            )
        return queue

    return make


def _parse_reference(reference: str) -> tuple[str, Mapping[str, Any]]:
    """The path and the arguments of `module:Factory(name=value)`; the arguments are Python literals."""
    path, parenthesis, rest = reference.partition("(")
    if not parenthesis:
        return reference, {}
    try:
        call = ast.parse(f"factory({rest}", mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            raise ValueError("only keyword arguments are allowed")
        return path, {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
    except (SyntaxError, ValueError) as exc:
        raise ConfigError(
            f"--queue {reference}: cannot read its arguments ({exc}); write them as Python literals: "
            f"{path}(name=0.25)"
        ) from exc


def notices(
    config: KubeSchedulerConfiguration, registry: Registry, *, references: Sequence[str]
) -> Iterator[str]:
    """Warnings about options that have no effect or a surprising one, one sentence each."""
    from kuberth.config import resolve_profile
    from kuberth.framework.registry import UnusablePlugin, installed_plugins, resolve_reference

    points = registry.extension_points()
    enabled = {name for profile in config.profiles for name in resolve_profile(profile, points).names()}
    for reference in references:
        name = resolve_reference(reference, option="--plugin").name
        if name not in enabled:
            yield (
                f"plugin {name}, given with --plugin {reference}, is enabled in no profile and does nothing; "
                f"add it to profiles[].plugins.multiPoint.enabled in the configuration"
            )
    for profile in config.profiles:
        yield from _weights_of_zero(profile, points)
    for entry in installed_plugins():
        factory = registry[entry.name]
        if isinstance(factory, UnusablePlugin):
            yield f"ignoring an installed plugin: {factory.problem}"
            continue
        own_name = getattr(factory, "name", entry.name) if inspect.isclass(factory) else entry.name
        if own_name != entry.name:
            yield (
                f"the installed plugin {entry.value} is called {own_name} by its class but {entry.name} by "
                f"its entry point; the configuration must call it {entry.name}"
            )


def _weights_of_zero(profile: KubeSchedulerProfile, points: Mapping[str, Sequence[str]]) -> Iterator[str]:
    from kuberth.config.types import SCORING_POINTS, plugin_set

    for point in ("multiPoint", *SCORING_POINTS):
        for ref in plugin_set(profile.plugins, point).enabled:
            scores = not set(SCORING_POINTS).isdisjoint(points.get(ref.name, SCORING_POINTS))
            if ref.weight == 0 and scores:
                yield (
                    f"profile {profile.scheduler_name}, plugins.{point}: {ref.name} has weight 0, which "
                    "counts as 1, as in kube-scheduler; to turn its scores off, add it to "
                    "plugins.score.disabled"
                )
