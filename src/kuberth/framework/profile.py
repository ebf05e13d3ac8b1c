"""One scheduler name with its plugins, built from the configuration and then read-only.

In: a profile's configuration, the registry, a handle. Out: a `Profile`: every plugin constructed once, in
order at each of its extension points, with weights and registered events.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kuberth.api.core import Pod
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.selected_labels import SelectedLabels
from kuberth.config.resolve import plugins_named, resolve_profile
from kuberth.config.types import KubeSchedulerProfile
from kuberth.errors import ConfigError, described
from kuberth.framework.cluster_events import (
    ALL_EVENTS,
    Action,
    ClusterEvent,
    Concern,
    EventWithHint,
    HintFunction,
    Resource,
    unheard,
)
from kuberth.framework.extension_points import (
    EXTENSION_POINTS,
    BindPlugin,
    EnqueueExtensions,
    ExtensionPoint,
    FilterPlugin,
    PermitPlugin,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
    points_of,
)
from kuberth.framework.handle import Handle
from kuberth.framework.inputs import Inputs, Signer, checked_inputs, signer
from kuberth.framework.registry import PluginFactory, Registry, UnusablePlugin
from kuberth.framework.status import Status
from kuberth.text.decoding import Decoder

_IMPLIED_BY_NODE_ADD: Final = {
    # A new node is usually not ready at first; its pods must be retried when the taint is removed.
    True: (Action.UPDATE_NODE_TAINT,),
    # Without hints, the addition only requeues pods that fit on the node; others must be requeued when its
    # labels or taints change.
    False: (Action.UPDATE_NODE_LABEL, Action.UPDATE_NODE_TAINT),
}
"""The events that registering for new nodes implies, with hints and without."""
GANG_PLUGIN: Final = "GangScheduling"
"""The plugin and its feature gate: only with both are new pods without a node events."""
EXTENDER: Final = "Extender"
"""The plugin name under which rejections by extenders are recorded."""
_MAY_REJECT = (PreEnqueuePlugin, PreFilterPlugin, FilterPlugin, ReservePlugin, PermitPlugin)


class RegisteredHint(NamedTuple):
    """A plugin's registration for an event; without a hint function, every such event requeues the pod."""

    plugin: str
    event: ClusterEvent
    hint: HintFunction | None
    implied: bool = False
    """Whether the framework registered it, not the plugin itself."""
    concern: Concern | None = None
    """The pods for which the hint has to be called; None: all."""
    gate: Callable[[Pod], Status | None] | None = None
    """The plugin's PreEnqueue: while it rejects a pod that it gates, no event moves the pod."""
    sign: Signer | None = None
    """Pods with equal signatures get equal hints; None if the plugin does not state what it reads."""
    labels: SelectedLabels | None = None
    """When its version grows, earlier signatures are invalid."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The plugins of one scheduler name, by extension point and in order."""

    scheduler_name: str
    percentage_of_nodes_to_score: int | None
    plugins: dict[str, Plugin]
    pre_enqueue: Sequence[PreEnqueuePlugin]
    queue_sort: QueueSortPlugin
    pre_filter: Sequence[PreFilterPlugin]
    filter: Sequence[FilterPlugin]
    post_filter: Sequence[PostFilterPlugin]
    pre_score: Sequence[PreScorePlugin]
    score: Sequence[ScorePlugin]
    score_weights: dict[str, int]
    reserve: Sequence[ReservePlugin]
    permit: Sequence[PermitPlugin]
    pre_bind: Sequence[PreBindPlugin]
    bind: Sequence[BindPlugin]
    post_bind: Sequence[PostBindPlugin]
    placement_generate: Sequence[PlacementGeneratePlugin]
    placement_score: Sequence[PlacementScorePlugin]
    placement_score_weights: dict[str, int]
    hints: Sequence[RegisteredHint]
    statements: Statements
    """The statements of the plugins."""
    warnings: Sequence[str] = ()
    """Warnings for plugin authors, one sentence each."""


def build_profile(config: KubeSchedulerProfile, registry: Registry, handle: Handle) -> Profile:
    """Construct the profile's plugins; errors name the plugin and the profile."""
    args = {entry.name: entry.args for entry in config.plugin_config}
    plugins: dict[str, Plugin] = {}
    for name in plugins_named(config):
        if name not in registry:
            raise ConfigError(f"profile {config.scheduler_name!r}: plugin {name!r} is not registered")
        plugins[name] = _instantiate(name, registry, args.get(name), handle)
    resolved = resolve_profile(config, {name: points_of(type(plugin)) for name, plugin in plugins.items()})

    def at(point: ExtensionPoint) -> tuple[Plugin, ...]:
        for name in resolved.plugins[point.key]:
            if not isinstance(plugins[name], point.interface):
                raise ConfigError(
                    f"profile {resolved.scheduler_name!r}: plugin {name!r} is enabled at {point.key} "
                    f"but is no {point.interface.__name__}"
                )
        return tuple(plugins[name] for name in resolved.plugins[point.key])

    # One field of a profile for every point; the table of points says which type each has.
    by_point: dict[str, Any] = {point.attribute: at(point) for point in EXTENSION_POINTS}
    queue_sorts = by_point["queue_sort"]
    if len(queue_sorts) != 1:
        names = ", ".join(plugin.name for plugin in queue_sorts) or "none"
        raise ConfigError(
            f"profile {resolved.scheduler_name!r} needs exactly one queue sort plugin, but has: {names}"
        )
    by_point["queue_sort"] = queue_sorts[0]
    if not by_point["bind"]:
        raise ConfigError(f"profile {resolved.scheduler_name!r} needs at least one bind plugin")
    hints_enabled = handle.feature_gates.enabled("SchedulerQueueingHints")
    statements = Statements(plugins.values())
    hints = [
        hint
        for plugin in plugins.values()
        for hint in _registered_hints(plugin, statements, hints_enabled=hints_enabled)
    ]
    if handle.extenders:
        # Extenders register no events, so any event may help a pod that one of them rejected.
        hints += (RegisteredHint(EXTENDER, each.event, None) for each in ALL_EVENTS)
    return Profile(
        scheduler_name=resolved.scheduler_name,
        percentage_of_nodes_to_score=resolved.percentage_of_nodes_to_score,
        plugins=plugins,
        score_weights=dict(resolved.score_weights),
        placement_score_weights=dict(resolved.placement_score_weights),
        hints=tuple(hints),
        statements=statements,
        warnings=tuple(_warnings(plugins, hints, gangs=handle.feature_gates.enabled(GANG_PLUGIN))),
        **by_point,
    )


def _instantiate(name: str, registry: Registry, args: object, handle: Handle) -> Plugin:
    factory = registry[name]
    if isinstance(factory, UnusablePlugin):
        raise ConfigError(factory.problem)
    _expect_two_arguments(name, factory)
    try:
        plugin = factory(_decode_args(args, getattr(factory, "args_type", None)), handle)
    except Exception as exc:
        raise ConfigError(f"plugin {name!r} cannot be initialized: {described(exc)}") from exc
    if not isinstance(plugin, Plugin):
        raise ConfigError(
            f"plugin {name!r}: its factory returned {plugin!r}, which is not a kuberth.framework.Plugin"
        )
    if (own_name := getattr(plugin, "name", None)) != name:
        # Weights and skips are looked up by the plugin's own name.
        raise ConfigError(
            f"plugin {name!r}: its factory returned a plugin called {own_name!r}; "
            "register it under the name it has"
        )
    _expect_methods(plugin)
    return plugin


def _expect_two_arguments(name: str, factory: PluginFactory) -> None:
    is_class = inspect.isclass(factory)
    if not _accepts(factory, 2):
        raise ConfigError(
            f"plugin {name!r} cannot be initialized: "
            f"{_describe(factory.__init__ if is_class else factory)}, but it is called with the plugin's "
            f"arguments and the handle: expected {'(self, args, handle)' if is_class else '(args, handle)'}"
        )


def _expect_methods(plugin: Plugin) -> None:
    """ConfigError for a method that cannot be called as its extension point does."""
    interfaces = [each for each in type(plugin).__mro__ if each.__module__ == Plugin.__module__]
    for name, contract in (
        (name, each) for interface in interfaces for name, each in vars(interface).items()
    ):
        method = getattr(plugin, name)
        if name.startswith("_") or not inspect.isfunction(contract) or not callable(method):
            continue
        expected = [each for each in inspect.signature(contract).parameters if each != "self"]
        if not _accepts(method, len(expected)):
            raise ConfigError(
                f"plugin {plugin.name!r}: {_describe(method)}, but it is called with ({', '.join(expected)})"
            )
        if inspect.iscoroutinefunction(method) and name not in _MAY_BE_ASYNC:
            raise ConfigError(
                f"plugin {plugin.name!r}: {name} is `async def`, but the scheduler does not wait for it; "
                "write it with a plain `def`, and do work that has to wait in pre_bind, bind or a coroutine "
                "passed to handle.spawn"
            )


_MAY_BE_ASYNC: Final = frozenset({"start", "close", "post_filter_waiting", "pre_bind", "bind"})


def _accepts(function: Callable[..., Any], number: int) -> bool:
    """Whether it can be called with this number of arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # written in C: the call reports what is wrong
        return True
    try:
        signature.bind(*[None] * number)
    except TypeError:
        return False
    return True


def _describe(function: Callable[..., Any]) -> str:
    """Name, place and parameters of a function, for an error message."""
    function = getattr(function, "__func__", function)  # with `self`, as it is written
    code = getattr(function, "__code__", None)
    where = f" ({code.co_filename}, line {code.co_firstlineno})" if code is not None else ""
    signature = inspect.signature(function)
    parameters = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    return f"{getattr(function, '__qualname__', function)}{where} takes {inspect.Signature(parameters)}"


def _decode_args(args: object, args_type: type | None) -> object:
    """The arguments as the struct that the plugin declares, from any kind of configuration."""
    if args_type is None or isinstance(args, args_type):
        return args
    decoder = Decoder()
    typed = decoder.decode({} if args is None else args, args_type)
    if decoder.errors:
        raise ConfigError(f"wrong arguments: {'; '.join(str(error) for error in decoder.errors)}")
    return typed


def _registered_hints(
    plugin: Plugin, statements: Statements, *, hints_enabled: bool
) -> Sequence[RegisteredHint]:
    if not isinstance(plugin, _MAY_REJECT):
        return ()
    events: Sequence[EventWithHint] = ALL_EVENTS
    if isinstance(plugin, EnqueueExtensions):
        try:
            events = tuple(plugin.events_to_register())
        except Exception as exc:
            raise ConfigError(
                f"plugin {plugin.name!r} failed in events_to_register: {described(exc)}"
            ) from exc
        for event in events:
            if not _is_registration(event):
                raise ConfigError(
                    f"plugin {plugin.name!r}: events_to_register returned {event!r:.200}; expected "
                    "EventWithHint(ClusterEvent(resource, Action), hint function or None)"
                )
    gate = plugin.pre_enqueue if isinstance(plugin, PreEnqueuePlugin) else None
    sign, inputs = _signer_for(plugin.name, statements), statements.of(plugin.name)
    labels = None if inputs is None else inputs.labels
    registered = [
        RegisteredHint(
            plugin.name,
            event,
            hint if hints_enabled else None,
            concern=concern if hints_enabled else None,
            gate=gate,
            sign=sign,
            labels=labels,
        )
        for event, hint, concern in events
    ]
    node_actions = [each.event.action for each in events if each.event.resource == Resource.NODE]
    if any(action & Action.ADD for action in node_actions):
        registered += [
            RegisteredHint(plugin.name, ClusterEvent(Resource.NODE, implied), None, implied=True)
            for implied in _IMPLIED_BY_NODE_ADD[hints_enabled]
            if not any(action & implied for action in node_actions)
        ]
    return registered


def _warnings(
    plugins: Mapping[str, Plugin], hints: Iterable[RegisteredHint], *, gangs: bool
) -> Iterator[str]:
    for name, plugin in plugins.items():
        if isinstance(plugin, EnqueueExtensions) and not isinstance(plugin, _MAY_REJECT):
            yield (
                f"plugin {name!r} registers events, but serves no extension point that rejects pods: "
                "its events move no pod; remove events_to_register"
            )
    for hint in hints:
        if not hint.implied and isinstance(plugins.get(hint.plugin), EnqueueExtensions):
            for problem in unheard(hint.event, gangs=gangs or GANG_PLUGIN in plugins):
                yield f"plugin {hint.plugin!r} registers an event that never comes: {problem}"


def _signer_for(plugin: str, statements: Statements) -> Signer | None:
    """Computes signatures from the plugin's statement, until the statement proves wrong."""
    inputs = statements.of(plugin)
    if inputs is None:
        return None
    labels = inputs.labels
    sign = signer(inputs.signed_fields, labels=labels, plugin=plugin)

    def current(info: PodInfo) -> bytes | None:
        if statements.of(plugin) is None:
            return None
        if labels is not None:
            labels.refresh()
        return sign(info)

    return current


def _is_registration(event: object) -> bool:
    return (
        isinstance(event, EventWithHint)
        and isinstance(event.event, ClusterEvent)
        and isinstance(event.event.resource, str)
        and isinstance(event.event.action, Action)
        and (event.hint is None or callable(event.hint))
        and (event.concern is None or isinstance(event.concern, Concern))
    )


def inputs_of(plugin: Plugin) -> Inputs | None:
    """The statement of one plugin; None if it has none. ConfigError if it is incomplete or wrong."""
    served = (point.attribute for point in EXTENSION_POINTS if isinstance(plugin, point.interface))
    return checked_inputs(plugin, served)


class Statements:
    """The `Inputs` of a profile's plugins; one that a difference proves wrong is ignored from then on."""

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        """ConfigError for a statement that is incomplete or names unknown fields."""
        self._inputs = {
            plugin.name: inputs for plugin in plugins if (inputs := inputs_of(plugin)) is not None
        }
        self.version = 0
        """Grows whenever a statement proves wrong."""

    def of(self, plugin: str) -> Inputs | None:
        """The plugin's statement; None if it has none, or a wrong one."""
        return self._inputs.get(plugin)

    def distrust(self, plugin: str) -> bool:
        """Ignore the plugin's statement from now on. False if it is ignored already."""
        if self._inputs.pop(plugin, None) is None:
            return False
        self.version += 1
        return True
