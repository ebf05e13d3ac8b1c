"""A framework around the plugins under test, and short ways to write such plugins."""

from __future__ import annotations

import types
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

from kuberth.api.core import Binding, Node, ObjectReference, Pod
from kuberth.api.meta import ObjectMeta
from kuberth.clock import Clock
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.config import FeatureGates, KubeSchedulerProfile
from kuberth.config.types import PluginConfig, PluginRef, Plugins, PluginSet
from kuberth.framework import BindPlugin, CycleState, Plugin, QueuedPod, QueueSortPlugin, Registry, Runner
from kuberth.framework.handle import Handle, PodEvent
from kuberth.framework.inputs import PHASES, DependsOn, Inputs, checked_inputs
from kuberth.framework.nominator import Nominator
from kuberth.framework.profile import Profile, build_profile
from kuberth.framework.registry import PluginFactory
from kuberth.framework.waiting_pods import WaitingPods
from kuberth.informers.store import Stores
from kuberth.local.memory_api import MemoryApi
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.testing import FakeClock, make_node


class Arrival(QueueSortPlugin):
    name = "Arrival"

    def less(self, first: QueuedPod, second: QueuedPod) -> bool:
        return first.timestamp_ns < second.timestamp_ns


class ApiBinder(BindPlugin):
    name = "ApiBinder"

    def __init__(self, _args: object, handle: Handle) -> None:
        self._api = handle.api

    async def bind(self, _state: CycleState, pod: Pod, node_name: str) -> None:
        metadata = ObjectMeta(namespace=pod.metadata.namespace, name=pod.metadata.name, uid=pod.metadata.uid)
        await self._api.bind(Binding(metadata=metadata, target=ObjectReference(kind="Node", name=node_name)))


def plugin(name: str, *points: type[Plugin], log: list[str] | None = None, **methods: Any) -> type[Plugin]:
    """A plugin class. A method given as a function is called, an exception is raised, else it is the answer.

    Every call is noted in `log` as "name.method".
    """
    body = {method: _method(f"{name}.{method}", answer, log) for method, answer in methods.items()}
    made = types.new_class(name, points, {}, lambda namespace: namespace.update(body, name=name))
    return cast("type[Plugin]", made)


def _method(label: str, answer: Any, log: list[str] | None) -> Callable[..., Any]:
    def method(_self: Plugin, *args: Any) -> Any:
        if log is not None:
            log.append(label)
        if isinstance(answer, BaseException):
            raise answer
        if callable(answer):
            return answer(*args)
        return answer

    return method


def restated(*, only: str = "", **phases: Any) -> Callable[[Plugin, Iterable[str]], Inputs | None]:
    """Patched in for `checked_inputs`: statements that a node is judged by itself say this instead."""

    def stated(plugin: Plugin, served: Iterable[str]) -> Inputs | None:
        served = tuple(served)
        inputs = checked_inputs(plugin, served)
        if inputs is None or only not in ("", plugin.name):
            return inputs
        given = {phase: getattr(inputs, phase) for phase in PHASES}
        for phase, scope in phases.items():
            if given[phase] not in (None, DependsOn.CLUSTER, DependsOn.ANYTHING):
                given[phase] = scope
        return Inputs(
            inputs.pod, only_with=inputs.only_with, idle=inputs.idle, versions=inputs.versions, **given
        )

    return stated


class Recorded(NamedTuple):
    pod: str
    reason: str
    note: str


@dataclass
class Outside:
    """What a handle reaches beyond the framework, noted down."""

    events: list[Recorded] = field(default_factory=list)
    activated: list[str] = field(default_factory=list)
    spawned: list[Coroutine[Any, Any, None]] = field(default_factory=list)

    def record(self, event: PodEvent) -> None:
        self.events.append(Recorded(event.regarding.metadata.name, event.reason, event.note))

    def activate(self, pods: Mapping[str, Pod]) -> None:
        self.activated.extend(pods)

    def spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        self.spawned.append(work)


@dataclass
class Framework:
    """One profile over one cluster table."""

    handle: Handle
    cluster: ClusterTable
    nominator: Nominator
    waiting_pods: WaitingPods
    metrics: SchedulerMetrics
    profile: Profile
    runner: Runner
    api: MemoryApi
    outside: Outside

    @property
    def nodes(self) -> Nodes:
        return self.cluster.all_nodes()

    def node(self, name: str) -> NodeRow:
        node = self.cluster.node_named(name)
        assert node is not None
        return node

    def place(self, *pods: Pod) -> None:
        for pod in pods:
            self.cluster.add_pod(PodInfo(pod))


def make_handle(
    *, gates: FeatureGates | None = None, clock: Clock | None = None, outside: Outside | None = None
) -> Handle:
    outside = Outside() if outside is None else outside
    return Handle(
        api=MemoryApi(),
        stores=Stores(),
        cluster=ClusterTable(),
        clock=FakeClock() if clock is None else clock,
        feature_gates=FeatureGates() if gates is None else gates,
        waiting_pods=WaitingPods(),
        nominator=Nominator(),
        activator=outside,
        recorder=outside,
        spawn=outside.spawn,
        metrics=SchedulerMetrics(),
    )


def profile_config(
    names: Sequence[str],
    *,
    weights: Mapping[str, int] | None = None,
    args: Mapping[str, Any] | None = None,
    percentage: int | None = None,
    scheduler: str = "default-scheduler",
    **points: Sequence[str],
) -> KubeSchedulerProfile:
    """`names` at all their points; `points` (`reserve=["B", "A"]`) say the order at one."""
    refs = tuple(PluginRef(name=name, weight=(weights or {}).get(name, 0)) for name in names)
    sets = {
        point: PluginSet(enabled=tuple(PluginRef(name=name) for name in own)) for point, own in points.items()
    }
    return KubeSchedulerProfile(
        scheduler_name=scheduler,
        percentage_of_nodes_to_score=percentage,
        plugins=Plugins(multi_point=PluginSet(enabled=refs), **sets),
        plugin_config=tuple(PluginConfig(name=name, args=given) for name, given in (args or {}).items()),
    )


def build(
    *plugins: type[Plugin],
    factories: Mapping[str, PluginFactory] | None = None,
    handle: Handle | None = None,
    sort_and_bind: Sequence[type[Plugin]] = (Arrival, ApiBinder),
    **config: Any,
) -> Profile:
    """The profile of these plugins, in this order, as a scheduler would build it."""
    registry = Registry(factories)
    for each in (*plugins, *sort_and_bind):
        registry.register_class(each, origin="the test")
    return build_profile(
        profile_config(registry.names(), **config), registry, make_handle() if handle is None else handle
    )


def framework(
    *plugins: type[Plugin],
    nodes: Iterable[str | Node] = ("n1", "n2", "n3"),
    clock: Clock | None = None,
    gates: FeatureGates | None = None,
    **config: Any,
) -> Framework:
    """A runner of these plugins over these nodes. A profile needs a bind plugin: without one here it is
    `ApiBinder`."""
    outside = Outside()
    handle = make_handle(gates=gates, clock=clock, outside=outside)
    binds = any(issubclass(each, BindPlugin) for each in plugins)
    profile = build(
        *plugins, handle=handle, sort_and_bind=(Arrival,) if binds else (Arrival, ApiBinder), **config
    )
    nominator = handle.nominator
    runner = Runner(profile, cluster=handle.cluster, nominator=nominator, metrics=handle.metrics)
    made = Framework(
        handle=replace(handle, runner=runner),
        cluster=handle.cluster,
        nominator=nominator,
        waiting_pods=handle.waiting_pods,
        metrics=handle.metrics,
        profile=profile,
        runner=runner,
        api=cast(MemoryApi, handle.api),
        outside=outside,
    )
    for node in nodes:
        made.cluster.set_node(make_node(node) if isinstance(node, str) else node)
    return made


def state_of(pod: Pod) -> CycleState:
    return CycleState(PodInfo(pod))
