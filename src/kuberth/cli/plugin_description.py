"""Describes plugins for `kuberth plugin list`.

In: a registry. Out: where a plugin comes from, its extension points, arguments, events and statement.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kuberth.config.in_tree import IN_TREE_ARGS
from kuberth.config.types import (
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginRef,
    Plugins,
    PluginSet,
)
from kuberth.errors import KuberthError
from kuberth.evaluation import Evaluator
from kuberth.framework.extension_points import EnqueueExtensions, Plugin, QueueSortPlugin, points_of
from kuberth.framework.inputs import PHASES, Inputs
from kuberth.framework.registry import Registry

IN_TREE: Final = "in-tree"
ALL_EVENTS: Final = "every event (it registers none itself)"
_SCHEDULER: Final = "default-scheduler"


@dataclass(frozen=True, slots=True)
class PluginDescription:
    name: str
    origin: str
    """In-tree, a package, or an option of the command line."""
    factory: str
    """The class or function that makes it."""
    points: Sequence[str] = ()
    args: Sequence[str] = ()
    """The arguments, each with its type and default."""
    events: Sequence[str] = ()
    """Events that bring back pods that it rejected."""
    statement: Sequence[str] = ()
    """Inputs that its answers depend on."""
    problem: str = ""
    """Why it cannot be made without arguments."""

    def tree(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def describe(name: str, registry: Registry) -> PluginDescription:
    """The plugin of this name, made with default arguments."""
    factory = registry[name]
    origin = registry.origin(name)
    where = f"{getattr(factory, '__module__', '')}:{getattr(factory, '__qualname__', factory)}"
    base = PluginDescription(
        name,
        IN_TREE if origin == "kuberth" else origin,
        where,
        args=tuple(_args({**IN_TREE_ARGS, **registry.args_types()}.get(name))),
    )
    points = points_of(factory) if inspect.isclass(factory) and issubclass(factory, Plugin) else ()
    try:
        profile = Evaluator(config=_alone(name, factory), registry=registry).runner.profile
    except KuberthError as error:
        return _with(base, points=points, problem=str(error))
    plugin = profile.plugins[name]
    events = tuple(
        dict.fromkeys(
            each.event.description for each in profile.hints if each.plugin == name and not each.implied
        )
    )
    if events and not isinstance(plugin, EnqueueExtensions):
        events = (ALL_EVENTS,)
    inputs = profile.statements.of(name)
    return _with(
        base,
        points=points_of(type(plugin)),
        events=events,
        statement=() if inputs is None else tuple(_statement(inputs)),
    )


def _with(base: PluginDescription, **more: Any) -> PluginDescription:
    return PluginDescription(**{**base.tree(), **more})


def _alone(name: str, factory: object) -> KubeSchedulerConfiguration:
    """A configuration with this plugin and what every profile needs."""
    sorts = inspect.isclass(factory) and issubclass(factory, QueueSortPlugin)
    names = dict.fromkeys([name, *([] if sorts else ["PrioritySort"]), "DefaultBinder"])
    enabled = tuple(PluginRef(name=each) for each in names)
    profile = KubeSchedulerProfile(
        scheduler_name=_SCHEDULER, plugins=Plugins(multi_point=PluginSet(enabled=enabled))
    )
    return KubeSchedulerConfiguration(profiles=(profile,))


def _args(args_type: Any) -> Iterator[str]:
    if args_type is None:
        return
    for field in msgspec.structs.fields(args_type):
        kind = inspect.formatannotation(field.type)
        if field.default is not msgspec.NODEFAULT:
            yield f"{field.encode_name}: {kind} = {field.default!r}"
        elif field.default_factory is not msgspec.NODEFAULT:
            yield f"{field.encode_name}: {kind} = {field.default_factory()!r}"
        else:
            yield f"{field.encode_name}: {kind} (required)"


def _statement(inputs: Inputs) -> Iterator[str]:
    yield f"pod: {', '.join(sorted(inputs.pod)) or 'nothing'}"
    for phase in PHASES:
        depends_on = getattr(inputs, phase)
        if depends_on is not None:
            yield f"{phase}: {depends_on.value}"
