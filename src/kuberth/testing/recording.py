"""Checks that plugins read only what their `inputs` state.

In: plugins, pods and nodes. Out: the same plugins, called with pods and nodes that record which fields are
read; a field outside the plugin's `inputs` is reported.

    def test_my_statement() -> None:
        assert_reads_only(MyPlugin, make_pod("p", labels={"app": "a"}), objects=[make_node("n1")])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any, Final, NamedTuple

import msgspec

from kuberth.api.core import Pod
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.config import load
from kuberth.evaluation import Evaluator
from kuberth.framework.cluster_events import ClusterEvent
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.extension_points import EnqueueExtensions, Plugin
from kuberth.framework.handle import Handle
from kuberth.framework.inputs import DependsOn, Inputs
from kuberth.framework.registry import PluginFactory, Registry
from kuberth.testing.harness import configuration, profile

_REQUESTS: Final = (
    "spec.containers",
    "spec.init_containers",
    "spec.overhead",
    "spec.resources",
    "status.container_statuses",
    "status.init_container_statuses",
    "status.resources",
)
_DERIVED_FROM: Final[Mapping[str, Sequence[str]]] = {
    "attachable_volumes": ("spec.volumes",),
    "device_claims": ("status.node_allocatable_resource_claim_statuses",),
    "disks": ("spec.volumes",),
    "group": ("spec.scheduling_group", "metadata.namespace"),
    "host_ports": ("spec.containers", "spec.init_containers"),
    "key": ("metadata.namespace", "metadata.name"),
    "labels": ("metadata.labels",),
    "namespace": ("metadata.namespace",),
    "node_name": ("spec.node_name",),
    "pod_class": ("metadata.namespace", "metadata.labels", "metadata.deletion_timestamp"),
    "preferred_terms": ("spec.affinity", "metadata.namespace"),
    "priority": ("spec.priority",),
    "problems": (*_REQUESTS, "spec.affinity"),
    "request": _REQUESTS,
    "selecting_controller": ("metadata.owner_references",),
    "required_affinity": ("spec.affinity", "metadata.namespace"),
    "required_anti_affinity": ("spec.affinity", "metadata.namespace"),
    "uid": ("metadata.uid",),
    "volume_claims": ("spec.volumes", "metadata.namespace"),
}
"""Derived values of a pod that a plugin may read if it states all their sources."""

_NARROWED: Final[Mapping[str, str]] = {"metadata.owner_references": "info.selecting_controller"}
"""Fields that a plugin may read if it states the only part of them that matters."""

_OF_OBJECTS: Final = frozenset(
    {
        "allocatable",
        "allowed_pods",
        "declared_features",
        "image_column",
        "images",
        "label_column",
        "labels",
        "live",
        "names",
        "node_at",
        "node_named",
        "problems",
        "resource_index",
        "resources",
        "row_of",
        "slots",
        "taints",
        "unschedulable",
    }
)
_OF_REQUESTS: Final = _OF_OBJECTS | {"nonzero_requested", "pod_count", "requested"}
_OF_PODS: Final = _OF_REQUESTS | {"claims", "device_claims", "disks", "pods_at", "port_users"}
_ALLOWED: Final[Mapping[DependsOn, frozenset[str]]] = {
    DependsOn.POD: frozenset({"slots"}),
    DependsOn.NODE_OBJECT: _OF_OBJECTS,
    DependsOn.REQUESTS: _OF_REQUESTS,
    DependsOn.NODE: _OF_PODS,
}
"""Parts of the cluster table that a phase may read, by stated dependency."""

_PHASES: Final = {
    "pre_filter": "pre_filter",
    "add_pod": "",
    "remove_pod": "",
    "filter": "filter",
    "filter_nodes": "filter",
    "pre_score": "pre_score",
    "score": "score",
    "score_nodes": "score",
    "normalize_scores": "score",
}
"""The recorded methods, with the phase of a statement that covers each."""


HINT: Final = "its hint"
"""Stands for the hints of a plugin among the names of its methods."""


def like_factory(make: PluginFactory, factory: PluginFactory) -> PluginFactory:
    """Give `make` the attributes of another factory that a registry reads."""
    return update_wrapper(make, factory, assigned=("args_type", "name"), updated=())


def replace_methods(
    plugin: Plugin, methods: Iterable[str], replaced: Callable[[str, Callable[..., Any]], Callable[..., Any]]
) -> None:
    """Replace the methods that the plugin has, and its hints, which `replaced` gets as "its hint"."""
    for method in methods:
        original = getattr(plugin, method, None)
        if original is not None:
            setattr(plugin, method, replaced(method, original))
    if isinstance(plugin, EnqueueExtensions):
        registered = plugin.events_to_register
        plugin.events_to_register = lambda: [  # type: ignore[method-assign]  # the same events
            each if each.hint is None else each._replace(hint=replaced(HINT, each.hint))
            for each in registered()
        ]


class OutsideRead(NamedTuple):
    """A field that a plugin read and does not state."""

    plugin: str
    """The plugin's name."""
    method: str
    """Where it read the field: a method of the plugin, or "its hint"."""
    field: str
    """The field as `Inputs` names it; "table.…" for the cluster table."""

    def __str__(self) -> str:
        return (
            f"plugin {self.plugin!r} reads {self.field!r} in {self.method}, which its `inputs` do not state"
        )


class ReadRecorder:
    """Gives plugins pods and nodes that record which fields are read."""

    def __init__(self) -> None:
        self.outside: set[OutsideRead] = set()
        """Reads that are not stated."""
        self.read: dict[str, set[str]] = {}
        """By plugin, all fields of a pod that were read."""
        self._reads: dict[tuple[object, ...], _MethodReads] = {}

    def watching(self, factory: PluginFactory) -> PluginFactory:
        """A factory of the same plugin, whose reads are recorded if it gives a statement."""

        def make(args: Any, handle: Handle) -> Plugin:
            plugin = factory(args, handle)
            if isinstance(plugin, Plugin) and isinstance(plugin.inputs, Inputs):
                self._watch(plugin, plugin.inputs)
            return plugin

        return like_factory(make, factory)

    def registry(self, registry: Registry) -> Registry:
        """The same plugins, all recorded."""
        watched = Registry()
        for name in registry:
            watched.register(name, self.watching(registry[name]), origin="recorded")
        return watched

    def check(self) -> None:
        """AssertionError with plugin and field if a plugin read a field that it does not state."""
        if self.outside:
            raise AssertionError("; ".join(sorted(map(str, self.outside))))

    # Wrapping

    def _watch(self, plugin: Plugin, inputs: Inputs) -> None:
        def recorded(method: str, original: Callable[..., Any]) -> Callable[..., Any]:
            if method == HINT:
                hint_reads = self._reads_of(plugin, inputs, method, None)
                return lambda pod, old, new: original(hint_reads.pod(pod), old, new)
            stated = getattr(inputs, _PHASES[method]) if _PHASES[method] else DependsOn.ANYTHING
            reads = self._reads_of(plugin, inputs, method, None if inputs.versions else stated)

            def call(state: CycleState, pod: Pod, *rest: Any) -> Any:
                info, state.pod_info = state.pod_info, reads.info(state.pod_info)
                try:
                    return original(state, reads.pod(pod), *map(reads.nodes, rest))
                finally:
                    state.pod_info = info

            return call

        replace_methods(plugin, _PHASES, recorded)

    def _reads_of(
        self, plugin: Plugin, inputs: Inputs, method: str, stated: DependsOn | None
    ) -> _MethodReads:
        key = (plugin.name, method, inputs.pod, stated)
        if key not in self._reads:
            self._reads[key] = _MethodReads(self, plugin.name, inputs, method, stated)
        return self._reads[key]


@dataclass(eq=False)
class _MethodReads:
    """The reads of one method of one plugin."""

    recorder: ReadRecorder
    plugin: str
    inputs: Inputs
    method: str
    stated: DependsOn | None

    def __post_init__(self) -> None:
        self._allowed = None if self.stated is None else _ALLOWED.get(self.stated)
        self._is_hint = self.method == HINT
        self._kinds: dict[str, Any] = {}

    def pod(self, pod: Pod) -> Pod:
        """The same pod; every read of a field is recorded."""
        return msgspec.structs.replace(
            pod,
            metadata=self._section(pod, "metadata"),
            spec=self._section(pod, "spec"),
            status=self._section(pod, "status"),
        )

    def _section(self, pod: Pod, name: str) -> Any:
        section = getattr(pod, name)
        plain: Any = getattr(type(section), "_plain", type(section))  # a method may call another with its pod
        if name not in self._kinds:
            self._kinds[name] = _recording(plain, name, self.read)
        fields = plain.__struct_fields__
        return self._kinds[name](**{each: plain.__getattribute__(section, each) for each in fields})

    def info(self, info: PodInfo | None) -> PodInfo | None:
        return None if info is None else _recording_info(info, self)

    def nodes(self, given: Any) -> Any:
        """Views of nodes, whose reads of the table are recorded; anything else is unchanged."""
        if self._allowed is None or not isinstance(given, Nodes | NodeRow):
            return given
        table: Any = _RecordingTable(given.table, self.read_table)
        if isinstance(given, NodeRow):
            return NodeRow(table, given.row)
        return Nodes(table, given._index, given.places)

    def read(self, field: str) -> None:
        """Record a read of a field of the pod."""
        self.recorder.read.setdefault(self.plugin, set()).add(field)
        if self._is_hint and field in ("metadata.uid", "info.uid"):
            return  # results of events about the pod itself are never reused for equal pods
        stated = self.inputs.pod
        if _NARROWED.get(field) in stated:
            return
        if field in stated or any(each.startswith(f"{field}.") for each in stated):
            return
        sources = _DERIVED_FROM.get(field.removeprefix("info."), ()) if field.startswith("info.") else ()
        if not sources or not stated.issuperset(sources):
            self.recorder.outside.add(OutsideRead(self.plugin, self.method, field))

    def read_table(self, name: str) -> None:
        """Record a read of the cluster table."""
        if self._allowed is not None and name not in self._allowed:
            self.recorder.outside.add(OutsideRead(self.plugin, self.method, f"table.{name}"))


def _recording(kind: type[msgspec.Struct], path: str, record: Callable[[str], None]) -> Any:
    """The same struct type; every read of a field is recorded."""
    fields = frozenset(kind.__struct_fields__)

    def get(self: Any, name: str) -> Any:
        if name in fields:
            record(f"{path}.{name}")
        return kind.__getattribute__(self, name)

    def equals(self: Any, other: object) -> bool:
        record(f"{path} as a whole")
        return bool(kind.__eq__(self, other))

    body = {"__getattribute__": get, "__eq__": equals, "__hash__": kind.__hash__}
    recording: Any = msgspec.StructMeta(kind.__name__, (kind,), body, frozen=True)
    recording._plain = kind
    return recording


class _RecordingInfo(PodInfo):
    """Derived values of a pod; every read of an attribute is recorded."""

    __slots__ = ("reads",)

    reads: _MethodReads

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name in _DERIVED_FROM:
            super().__getattribute__("reads").read(f"info.{name}")
        return value


def _recording_info(info: PodInfo, reads: _MethodReads) -> PodInfo:
    made = _RecordingInfo.__new__(_RecordingInfo)
    for slot in PodInfo.__slots__:
        value = object.__getattribute__(info, slot)
        setattr(made, slot, reads.pod(value) if slot == "pod" else value)
    made.reads = reads
    return made


class _RecordingTable:
    """The cluster table; every read of a column is recorded."""

    def __init__(self, table: Any, record: Callable[[str], None]) -> None:
        self._table = table
        self._record = record

    def __getattr__(self, name: str) -> Any:
        self._record(name)
        return getattr(self._table, name)


def assert_reads_only(
    plugin: type[Plugin],
    *pods: Pod,
    objects: Iterable[Any] = (),
    events: Iterable[tuple[ClusterEvent, object, object]] = (),
    args: Any = None,
) -> None:
    """Call the plugin for the pods, and fail if it reads anything that its `inputs` do not state.

    `objects` are the nodes and everything else in the cluster; `events`, each with the old and the new
    object, are passed to its hints. AssertionError names the plugin and the field, or reports that the plugin
    has no statement.
    """
    if not pods:
        raise AssertionError("give at least one pod to ask the plugin about")
    recorder = ReadRecorder()
    evaluator = Evaluator(
        objects,
        config=load(configuration(profile(plugin.name))),
        plugins={plugin.name: lambda _args, handle: recorder.watching(plugin)(args, handle)},
        with_plans=False,
    )
    if evaluator.runner.profile.statements.of(plugin.name) is None:
        raise AssertionError(f"plugin {plugin.name!r} gives no statement: set `inputs`, or trust nothing")
    for pod in pods:
        answer = evaluator.evaluate(pod)
        if not answer.feasible:
            evaluator.objections(pod)
        for event, old, new in events:
            evaluator.hints(pod, event, old, new)
    recorder.check()
