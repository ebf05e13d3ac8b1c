"""Describes plugins and queues for `kuberth plugin list`.

In: a registry. Out: a plugin's origin, extension points, arguments, events and inputs.
"""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from importlib.metadata import entry_points
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec

from kuberth.api.wire import to_builtins
from kuberth.config.in_tree import IN_TREE_ARGS
from kuberth.config.types import (
    DEFAULT_SCHEDULER_NAME,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginRef,
    Plugins,
    PluginSet,
)
from kuberth.errors import described
from kuberth.evaluation import Evaluator
from kuberth.framework.extension_points import EnqueueExtensions, Plugin, QueueSortPlugin, points_of
from kuberth.framework.inputs import PHASES, Inputs
from kuberth.framework.registry import Registry, UnusablePlugin

IN_TREE: Final = "in-tree"
ALL_EVENTS: Final = "every event (it registers none itself)"
QUEUE: Final = "queue"
"""The entry for the extension points of a scheduling queue."""
QUEUE_GROUP: Final = "kuberth.queues"
"""The entry point group of queues."""
_WORDS: Final[Mapping[Any, str]] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    dict: "mapping",
    list: "list",
    timedelta: "duration",
}
_MACHINE_BOUNDS: Final = frozenset({-(2**31), 2**31 - 1, -(2**63), 2**63 - 1})


@dataclass(frozen=True, slots=True)
class PluginDescription:
    name: str
    origin: str
    """In-tree, a package, or a command line option."""
    factory: str
    """Its class or factory function."""
    points: Sequence[str] = ()
    args: Sequence[str] = ()
    """The arguments, each with its type and default."""
    events: Sequence[str] = ()
    """Events that requeue pods that it rejected."""
    statement: Sequence[str] = ()
    """The inputs of its answers."""
    problem: str = ""
    """Why it cannot be constructed without arguments."""


def describe(name: str, registry: Registry) -> PluginDescription:
    """The plugin with this name, constructed with default arguments."""
    factory = registry[name]
    origin = registry.origin(name)
    where = factory.reference if isinstance(factory, UnusablePlugin) else _reference_of(factory)
    base = PluginDescription(
        name,
        IN_TREE if origin == "kuberth" else origin,
        where,
        args=tuple(_args({**IN_TREE_ARGS, **registry.args_types()}.get(name))),
    )
    points = points_of(factory) if inspect.isclass(factory) and issubclass(factory, Plugin) else ()
    try:
        profile = Evaluator(config=_minimal_configuration(name, factory), registry=registry).runner.profile
    except Exception as error:  # a plugin's constructor may raise anything
        return replace(base, points=points, problem=described(error))
    plugin = profile.plugins[name]
    events = tuple(
        dict.fromkeys(
            each.event.description for each in profile.hints if each.plugin == name and not each.implied
        )
    )
    if events and not isinstance(plugin, EnqueueExtensions):
        events = (ALL_EVENTS,)
    inputs = profile.statements.of(name)
    return replace(
        base,
        points=points_of(type(plugin)),
        events=events,
        statement=() if inputs is None else tuple(_statement(inputs)),
    )


def _minimal_configuration(name: str, factory: object) -> KubeSchedulerConfiguration:
    """A configuration with this plugin and what every profile needs."""
    sorts = inspect.isclass(factory) and issubclass(factory, QueueSortPlugin)
    names = dict.fromkeys([name, *([] if sorts else ["PrioritySort"]), "DefaultBinder"])
    enabled = tuple(PluginRef(name=each) for each in names)
    profile = KubeSchedulerProfile(
        scheduler_name=DEFAULT_SCHEDULER_NAME, plugins=Plugins(multi_point=PluginSet(enabled=enabled))
    )
    return KubeSchedulerConfiguration(profiles=(profile,))


def queues() -> Sequence[PluginDescription]:
    """Scheduling queues: the included ones, and those that installed packages declare, for `--queue`."""
    from kuberth.queue import FairShareQueue, PriorityQueue, ReservedShareQueue

    found = [_queue(kind, IN_TREE) for kind in (PriorityQueue, FairShareQueue, ReservedShareQueue)]
    for entry in entry_points(group=QUEUE_GROUP):
        origin = f"package {entry.dist.name}" if entry.dist else f"entry point {entry.value}"
        try:
            found.append(_queue(entry.load(), origin))
        except Exception as error:  # a module may raise anything when it is imported
            problem = f"cannot be loaded: {described(error)}; fix or uninstall the package"
            found.append(PluginDescription(entry.name, origin, entry.value, points=(QUEUE,), problem=problem))
    return found


def _queue(kind: type, origin: str) -> PluginDescription:
    args = tuple(_queue_args(kind))
    return PluginDescription(kind.__name__, origin, _reference_of(kind), points=(QUEUE,), args=args)


def _reference_of(factory: object) -> str:
    return f"{getattr(factory, '__module__', '')}:{getattr(factory, '__qualname__', factory)}"


def _queue_args(kind: type) -> Iterator[str]:
    for each in inspect.signature(kind).parameters.values():
        if each.name in ("share", "weights"):  # the others are functions, which `--queue` cannot express
            words = "number (0 to 1)" if each.name == "share" else "mapping of number"
            yield f"{each.name}: {words}{_default(each.default)}"


def _args(args_type: Any) -> Iterator[str]:
    if args_type is None:
        return
    for field in msgspec.structs.fields(args_type):
        default = field.default
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        given = " (required)" if default is msgspec.NODEFAULT else _default(default)
        yield f"{field.encode_name}: {type_in_words(field.type)}{given}"


def _default(value: Any) -> str:
    if value is None:
        return " (optional)"
    return f" = {json.dumps(to_builtins(value), ensure_ascii=False)}"


def type_in_words(kind: Any) -> str:
    """A type in terms of a configuration file: `integer (0 to 100)`, `list of string`."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return type_in_words(parts[0]) + _range(parts[1:])
    if origin in (Union, types.UnionType):
        return " or ".join(type_in_words(each) for each in parts if each is not type(None))
    if origin is Literal:
        return " or ".join(map(str, parts))
    if inspect.isclass(origin) and issubclass(origin, Mapping):
        return f"mapping of {type_in_words(parts[-1])}"
    if inspect.isclass(origin) and issubclass(origin, Collection):
        return f"list of {type_in_words(parts[0])}"
    return _WORDS.get(kind) or str(getattr(kind, "__name__", kind))


def _range(notes: Sequence[Any]) -> str:
    """The bounds in annotations, except those of machine integers."""
    low = next((each.ge for each in notes if isinstance(each, msgspec.Meta) and each.ge is not None), None)
    high = next((each.le for each in notes if isinstance(each, msgspec.Meta) and each.le is not None), None)
    low = None if low in _MACHINE_BOUNDS else low
    high = None if high in _MACHINE_BOUNDS else high
    if low is None and high is None:
        return ""
    if high is None:
        return f" (at least {low})"
    return f" (at most {high})" if low is None else f" ({low} to {high})"


def _statement(inputs: Inputs) -> Iterator[str]:
    yield f"pod: {', '.join(sorted(inputs.pod)) or 'nothing'}"
    for phase in PHASES:
        depends_on = getattr(inputs, phase)
        if depends_on is not None:
            yield f"{phase}: {depends_on.value}"
