"""Dispatches every change of the cluster to the cluster table, the queue, or both.

In: old and new versions of objects, as informers deliver them. Out: updated columns; pods added to, updated
in or removed from the queue; and cluster events that may make pending pods schedulable.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kuberth.api.core import Namespace, Node, Pod
from kuberth.api.kinds import REGISTRY
from kuberth.api.pod_resources import pod_priority
from kuberth.api.pods import FINISHED
from kuberth.api.taints import find_untolerated
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.config import FeatureGates
from kuberth.errors import ConfigError
from kuberth.framework import cluster_events
from kuberth.framework.cluster_events import Action, ClusterEvent, Resource
from kuberth.framework.nominator import Nominator
from kuberth.framework.object_changes import node_changes, pod_changes
from kuberth.framework.profile import GANG_PLUGIN, RegisteredHint
from kuberth.framework.runner import Runner
from kuberth.framework.waiting_pods import WaitingPods
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.queue.interface import PreCheck, SchedulingQueue

logger = logging.getLogger(__name__)

_ALWAYS_EVENTS: Final = frozenset(map(str, Resource))
"""Kinds with a Kuberth event name; changes of other kinds are events if a plugin registered for them."""
_NO_KINDS: Final = frozenset({Resource.ANY, Resource.ASSIGNED_POD, Resource.UNSCHEDULABLE_POD})

ADMISSION_FILTERS: Final = frozenset({"NodeResourcesFit", "NodeAffinity", "NodeName", "NodePorts"})
"""Filters that depend only on the node, as a kubelet applies them; no other change can make them pass."""


def event_kinds(runners: Iterable[Runner]) -> frozenset[type[Any]]:
    """The kinds whose events plugins registered for; ConfigError for an unknown kind."""
    return frozenset(
        _event_kind(registered)
        for runner in runners
        for registered in runner.profile.hints
        if registered.event.resource not in _NO_KINDS
    )


def _event_kind(registered: RegisteredHint) -> type[Any]:
    resource = registered.event.resource
    info = REGISTRY.of_event(resource)
    if info is None:
        raise ConfigError(
            f"plugin {registered.plugin!r} registers events of {str(resource)!r}, which is not a known "
            "kind: write a member of kuberth.framework.Resource; or have the plugin's module register "
            'the kind, kuberth.api.register_kind("Widget", group="example.com", version="v1", '
            'plural="widgets"), and write "widgets.v1.example.com", which is plural.version.group'
        )
    return info.type


@dataclass(eq=False, kw_only=True)
class Intake:
    """Handles the events of all informers."""

    cluster: ClusterTable
    queue: SchedulingQueue
    nominator: Nominator
    waiting_pods: WaitingPods
    runners: Mapping[str, Runner]
    metrics: SchedulerMetrics
    feature_gates: FeatureGates
    derive: Callable[[Pod], PodInfo] = PodInfo
    _labels: dict[ClusterEvent, tuple[str]] = field(default_factory=dict, init=False)
    """Event labels, cached in the form that metrics need; there are only a few."""

    def __post_init__(self) -> None:
        self._queueing_hints = self.feature_gates.enabled("SchedulerQueueingHints")
        self._compare_tolerations = self.feature_gates.enabled("TaintTolerationComparisonOperators")
        self._gangs = self.feature_gates.enabled(GANG_PLUGIN)
        self._read_profiles()

    def handler(self, kind: type[Any]) -> Callable[[Any, Any], None]:
        """The callback with which an informer of `kind` reports the old and the new version of an object."""
        if kind is Pod:
            return self.pod
        if kind is Node:
            return self.node
        resource = REGISTRY.of(kind).event_resource

        def handle(old: Any, new: Any) -> None:
            if kind is Namespace:
                self.namespace(old, new)
            if resource in _ALWAYS_EVENTS or kind in self._event_kinds:
                self._other(resource, old, new)

        return handle

    def _read_profiles(self) -> None:
        profiles = [runner.profile for runner in self.runners.values()]
        self._event_kinds = event_kinds(self.runners.values())
        self._pods_complete_gangs = self._gangs or any(GANG_PLUGIN in each.plugins for each in profiles)

    def apply_profiles(self, pods: Iterable[Pod]) -> None:
        """Apply new profiles: queue pods whose scheduler name is new, and drop those whose name is gone.

        Assumed pods are bound even if their profile is gone.
        """
        self._read_profiles()
        in_flight = {pod.metadata.uid for pod in self.queue.in_flight()}
        for pod in pods:
            metadata = pod.metadata
            if pod.spec.node_name or metadata.uid in in_flight or self.cluster.is_assumed(metadata.uid):
                continue
            waits = self.queue.get(f"{metadata.namespace}/{metadata.name}") is not None
            if waits and not self._is_ours(pod):
                self.queue.delete(pod)
                self.nominator.withdraw(pod)
                if pod.spec.scheduling_group is not None:
                    self.cluster.pod_groups.leave(self.derive(pod))
            elif self._is_ours(pod) and not waits:
                self._add_pending(pod)

    # Nodes and namespaces

    def node(self, old: Node | None, new: Node | None) -> None:
        started = time.perf_counter()
        if new is None:
            assert old is not None
            event = ClusterEvent(Resource.NODE, Action.DELETE)
            self.queue.move(event, old, None)
            self.cluster.remove_node(old.metadata.name)
            self._observe(event, started)
            return
        self.cluster.set_node(new)
        if (problem := self.cluster.problems.get(new.metadata.name)) is not None:
            logger.warning("node %s: %s; it counts as zero", new.metadata.name, problem)
        changes = [ClusterEvent(Resource.NODE, Action.ADD)] if old is None else node_changes(old, new)
        self._move_all(changes, old, new, started, pre_check=self._may_take(new.metadata.name))

    def _may_take(self, node_name: str) -> PreCheck | None:
        """The pre-check for a node's change without hints: only pods that the node's own filters accept.

        Taints count in every profile: a pod that waits for other nodes must not be tried at each change of a
        node whose taint it does not tolerate.
        """
        if self._queueing_hints:
            return None

        def admits(pod: Pod) -> bool:
            runner = self.runners.get(pod.spec.scheduler_name)
            node = self.cluster.node_named(node_name)
            if runner is None or node is None:
                return True
            taint = find_untolerated(
                node.node.spec.taints, pod.spec.tolerations, comparison_operators=self._compare_tolerations
            )
            return taint is None and runner.filtering.admits(
                self.derive(pod), node, filters=ADMISSION_FILTERS
            )

        return admits

    def namespace(self, old: Namespace | None, new: Namespace | None) -> None:
        if new is not None:
            self.cluster.set_namespace(new.metadata.name, new.metadata.labels)
        elif old is not None:
            self.cluster.set_namespace(old.metadata.name, None)

    def _other(self, resource: str, old: Any, new: Any) -> None:
        started = time.perf_counter()
        action = Action.ADD if old is None else Action.DELETE if new is None else Action.UPDATE
        event = ClusterEvent(resource, action)
        self.queue.move(event, old, new)
        self._observe(event, started)

    # Pods

    def pod(self, old: Pod | None, new: Pod | None) -> None:
        old_node = old.spec.node_name if old is not None else ""
        new_node = new.spec.node_name if new is not None else ""
        if new is not None and new.status.phase in FINISHED and new_node:
            # A finished pod uses no resources any more, even while its object still exists.
            new = None
        if old is not None and old_node:
            self._assigned(old, new)
        elif new is not None and new_node:
            self._add_assigned(new)
            if old is not None and self._is_ours(old):
                # Bound, by this scheduler or another one: no longer pending.
                self.queue.delete(old)
                self.nominator.withdraw(old)
        elif old is None and new is not None:
            if self._is_ours(new):
                self._add_pending(new)
        elif old is not None and self._is_ours(old):
            if new is None:
                self._remove_pending(old)
            else:
                self._update_pending(old, new)

    def _is_ours(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name in self.runners

    def _assigned(self, old: Pod, new: Pod | None) -> None:
        started = time.perf_counter()
        if new is None:
            if self.cluster.placed(old.metadata.uid) is None:
                return
            self.cluster.remove_pod(old.metadata.uid)
            self.queue.move(cluster_events.ASSIGNED_POD_DELETE, old, None)
            self._observe(cluster_events.ASSIGNED_POD_DELETE, started)
            return
        if not self.cluster.renew_pod(new):
            self.cluster.update_pod(self.derive(new))
        self._move_all(pod_changes(old, new), old, new, started)
        self._observe(cluster_events.ASSIGNED_POD_UPDATE, started)

    def _add_assigned(self, pod: Pod) -> None:
        started = time.perf_counter()
        if not self.cluster.renew_pod(pod):
            assumed = self.cluster.placed(pod.metadata.uid)
            if assumed is not None and assumed.node_name != pod.spec.node_name:
                logger.warning(
                    "pod %s was assumed on node %s but is bound to %s",
                    assumed.key,
                    assumed.node_name,
                    pod.spec.node_name,
                )
            self.cluster.add_pod(self.derive(pod))
        self.queue.move(cluster_events.ASSIGNED_POD_ADD, None, pod)
        self._observe(cluster_events.ASSIGNED_POD_ADD, started)

    def _add_pending(self, pod: Pod) -> None:
        started = time.perf_counter()
        info = self.derive(pod)
        self.nominator.adopt(info)
        if info.group:
            self.cluster.pod_groups.arrive(info)
        self.queue.add(info)
        if self._pods_complete_gangs:
            self.queue.move(cluster_events.UNSCHEDULED_POD_ADD, None, pod)
        self._observe(cluster_events.UNSCHEDULED_POD_ADD, started)

    def _update_pending(self, old: Pod, new: Pod) -> None:
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        started = time.perf_counter()
        if new.spec.scheduling_group is not None:
            self.cluster.pod_groups.arrive(self.derive(new))
        if self.cluster.is_assumed(new.metadata.uid):
            # The pod is being bound; only its deletion matters now.
            if new.metadata.deletion_timestamp is not None and old.metadata.deletion_timestamp is None:
                self._drop_assumed(new)
            return
        info = self.derive(new)
        self.nominator.update(old, info)
        self.queue.update(old, info)
        nominated = old.status.nominated_node_name
        if nominated and nominated != new.status.nominated_node_name:
            self._nomination_ended(old)
        self._observe(cluster_events.UNSCHEDULED_POD_UPDATE, started)
        for event in pod_changes(old, new):
            if event != cluster_events.UNSCHEDULED_POD_UPDATE:
                self._observe(event, started)

    def _remove_pending(self, pod: Pod) -> None:
        started = time.perf_counter()
        self.queue.delete(pod)
        self.nominator.withdraw(pod)
        if pod.spec.scheduling_group is not None:
            self.cluster.pod_groups.leave(self.derive(pod))
        if self.cluster.is_assumed(pod.metadata.uid):
            self._drop_assumed(pod)
        elif pod.status.nominated_node_name:
            self._nomination_ended(pod)
        self._observe(cluster_events.UNSCHEDULED_POD_DELETE, started)

    def _drop_assumed(self, pod: Pod) -> None:
        """Release the place of a pod that is deleted while it is being bound."""
        placed = self.cluster.placed(pod.metadata.uid)
        if placed is None:
            return
        # The binding cycle of a waiting pod removes it from its node.
        if not self.waiting_pods.reject(pod.metadata.uid, "removed"):
            self.cluster.forget_pod(pod.metadata.uid)
        self.queue.move(cluster_events.ASSIGNED_POD_DELETE, placed.pod, None)

    def _nomination_ended(self, pod: Pod) -> None:
        """Handle a removed nomination: other pods of at most this priority may fit now."""
        priority, uid = pod_priority(pod), pod.metadata.uid
        self.queue.move(
            cluster_events.ASSIGNED_POD_DELETE,
            pod,
            None,
            pre_check=lambda other: pod_priority(other) <= priority and other.metadata.uid != uid,
        )

    def _move_all(
        self,
        events: Iterable[ClusterEvent],
        old: Any,
        new: Any,
        started: float,
        *,
        pre_check: PreCheck | None = None,
    ) -> None:
        """Move pods for every event of one change; the duration of each includes what came before it."""
        before = time.perf_counter() - started
        for event in events:
            moving = time.perf_counter()
            self.queue.move(event, old, new, pre_check=pre_check)
            self._observe(event, moving - before)

    def _observe(self, event: ClusterEvent, started: float) -> None:
        took = time.perf_counter() - started
        labels = self._labels.get(event)
        if labels is None:
            labels = self._labels[event] = (event.label,)
        self.metrics.event_handling_duration.observe(labels, took)
