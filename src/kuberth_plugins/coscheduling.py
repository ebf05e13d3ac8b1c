"""Coscheduling: the pods of a PodGroup of scheduler-plugins are bound together or not at all.

In: pods with the label `scheduling.x-k8s.io/pod-group`, and PodGroups (`scheduling.x-k8s.io/v1alpha1`). Out:
each pod waits on Permit until `minMember` pods of its gang have a node; a gang that cannot be completed
releases its nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from kuberth.api import Node, PlainObject, Pod, register_kind
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.framework import (
    SKIP,
    Action,
    ClusterEvent,
    CycleState,
    DependsOn,
    Diagnosis,
    EnqueueExtensions,
    EventWithHint,
    Handle,
    Hint,
    Inputs,
    PermitPlugin,
    PermitResult,
    PostFilterPlugin,
    PostFilterResult,
    PreFilterPlugin,
    QueuedPod,
    QueueSortPlugin,
    ReservePlugin,
    Resource,
    Status,
)
from kuberth.framework.waiting_pods import WaitingPod
from kuberth.informers.store import Store
from kuberth_plugins.amounts import amounts_of, requests_of

LABEL: Final = "scheduling.x-k8s.io/pod-group"
"""The pod label with the name of the PodGroup, in the pod's namespace."""
MAX_MISSING_SHARE: Final = 0.1
"""A gang keeps its nodes after a pod did not fit if at most this share of `minMember` is missing."""
REMEMBERED_SECONDS: Final = 60
"""A failed gang is retried after this time even if no change is known."""
MIN_GANGS_TO_CLEAN_UP: Final = 64
"""Up to this number of deleted gangs, dropping their state is not worth the time."""
_NANOSECONDS: Final = 1_000_000_000


def pod_group_kind() -> type[PlainObject]:
    """The PodGroup of scheduler-plugins, not the one of `scheduling.k8s.io`."""
    return register_kind("PodGroup", group="scheduling.x-k8s.io", version="v1alpha1", plural="podgroups")


class CoschedulingArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    permit_waiting_time_seconds: float = 60
    """How long pods keep their nodes while their gang is incomplete, if the PodGroup does not set it."""
    pod_group_backoff_seconds: float = 0
    """How long no pod of a gang is tried after the gang released its nodes."""


class Failure(NamedTuple):
    """The cluster's state when a gang did not fit: until it changes, the gang does not fit again."""

    at_ns: int
    members: frozenset[str]
    """The UIDs of the gang's pods."""
    changes: tuple[int, int, str]
    """Counts of node changes and of pods that left their nodes, and the version of the PodGroup."""
    holders: tuple[tuple[str, int], ...]
    """Other incomplete gangs that held nodes, and how many nodes each had released by then."""


class Coscheduling(
    QueueSortPlugin, PreFilterPlugin, PostFilterPlugin, ReservePlugin, PermitPlugin, EnqueueExtensions
):
    """Binds the pods of a gang together, with the name and the arguments of scheduler-plugins."""

    name = "Coscheduling"
    args_type = CoschedulingArgs
    # PreFilter skips pods without a gang: PostFilter has nothing to do for these.
    inputs = Inputs(
        {"metadata.labels", "metadata.namespace", "metadata.name", "metadata.uid"},
        pre_filter=DependsOn.ANYTHING,
        post_filter=DependsOn.POD,
    )

    def __init__(self, args: CoschedulingArgs, handle: Handle) -> None:
        self._args = args
        self._handle = handle
        self._groups = handle.stores.of(pod_group_kind())
        self._pods = handle.stores.of(Pod)
        self._members = GangMembers(self._pods)
        self._nodes = handle.stores.of(Node)
        self._removals = 0
        self._released: dict[str, int] = {}
        self._failures: dict[str, Failure] = {}

    def start(self) -> None:
        self._handle.cluster.observe(self)

    def close(self) -> None:
        self._handle.cluster.unobserve(self)

    def pod_placed(self, info: PodInfo) -> None:
        """Does nothing: a placed pod helps no gang."""

    def pod_removed(self, info: PodInfo) -> None:
        """Record released resources; what a gang releases helps only those that failed while it held it."""
        gang = gang_of(info.pod)
        stored = self._pods.get_by_key(info.key)
        if gang and stored is not None and stored.metadata.uid == info.uid and not stored.spec.node_name:
            self._released[gang] = self._released.get(gang, 0) + 1
        else:
            self._removals += 1

    # The queue

    def sort_key(self, queued: QueuedPod) -> tuple[int, int, str]:
        """By priority, then by the age of the gang or of the pod; pods of one gang are adjacent."""
        key = gang_of(queued.pod)
        group = self._groups.get_by_key(key) if key else None
        created = None if group is None else group.metadata.creation_timestamp
        if created is not None:
            since_ns = int(created.timestamp()) * _NANOSECONDS
        else:
            since_ns = queued.timestamp_ns if queued.first_attempt_ns is None else queued.first_attempt_ns
        return -queued.info.priority, since_ns, key or queued.key

    # The cycle

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        key = gang_of(pod)
        if not key:
            return SKIP
        group = self._groups.get_by_key(key)
        if group is None:
            return _not_found(key)
        if self._has_failed(key, group):
            return Status.unresolvable(f"PodGroup {key} did not fit, and nothing has changed since")
        wanted, present = min_member(group), len(self._members.of(key))
        if present < wanted:
            pods = "1 pod" if present == 1 else f"{present} pods"
            return Status.unresolvable(f"PodGroup {key} has {pods}, and its minMember is {wanted}")
        if missing := self._missing_resources(group, key, nodes):
            return Status.unschedulable(f"PodGroup {key} needs more {missing} than the cluster has left")
        return None

    def post_filter(
        self, state: CycleState, pod: Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status | None]:
        """Handle a pod of the gang that fits nowhere: all release their nodes, unless the others suffice."""
        key = gang_of(pod)
        group = self._groups.get_by_key(key) if key else None
        if group is None:
            reason = f"PodGroup {key} not found" if key else "the pod is in no gang"
            return None, Status.unschedulable(reason)
        if diagnosis.pre_filter is not None and diagnosis.pre_filter.plugin == self.name:
            return None, Status.unschedulable(f"PodGroup {key} was not tried")
        wanted, placed = min_member(group), self._placed(key)
        if placed >= wanted:
            return None, Status.unschedulable(f"PodGroup {key} has the pods that it needs")
        # Pods beyond minMember may fit where this one did not. Without such pods, waiting has no use.
        is_replaceable = len(self._members.of(key)) > wanted
        if is_replaceable and wanted - placed <= wanted * MAX_MISSING_SHARE:
            return None, Status.unschedulable(f"PodGroup {key} waits for its last pods")
        self._reject_waiting(key, f"pod {pod.metadata.name} of the gang fits nowhere")
        self._failures[key] = self._failure_now(key, group)
        self._forget_deleted_groups()
        return None, Status.unschedulable(f"PodGroup {key} was rejected because this pod fits nowhere")

    def _forget_deleted_groups(self) -> None:
        """Drop the state of deleted PodGroups, once these are the majority."""
        remembered: dict[str, int] | dict[str, Failure]
        for remembered in (self._failures, self._released):
            if len(remembered) > 2 * len(self._groups) + MIN_GANGS_TO_CLEAN_UP:
                for key in [key for key in remembered if self._groups.get_by_key(key) is None]:
                    del remembered[key]

    def _failure_now(self, key: str, group: PlainObject) -> Failure:
        others = {gang_of(waiting.pod) for waiting in self._handle.waiting_pods} - {key, ""}
        return Failure(
            self._handle.clock.now_ns(),
            frozenset(member.metadata.uid for member in self._members.of(key)),
            (self._nodes.version, self._removals, group.metadata.resource_version),
            tuple((gang, self._released.get(gang, 0)) for gang in others),
        )

    def _has_failed(self, key: str, group: PlainObject) -> bool:
        """Whether the gang did not fit and cannot fit now. Its remaining pods must not use nodes again."""
        failure = self._failures.get(key)
        if failure is None:
            return False
        now = self._failure_now(key, group)
        seconds = (now.at_ns - failure.at_ns) / _NANOSECONDS
        if seconds < self._args.pod_group_backoff_seconds:
            return True
        is_the_same = (
            seconds < REMEMBERED_SECONDS
            and (now.members, now.changes) == (failure.members, failure.changes)
            and all(self._released.get(gang, 0) == count for gang, count in failure.holders)
        )
        if not is_the_same:
            del self._failures[key]
        return is_the_same

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        if key := gang_of(pod):
            self._reject_waiting(key, f"pod {pod.metadata.name} of the gang was rejected")

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> PermitResult | Status | None:
        key = gang_of(pod)
        if not key:
            return None
        group = self._groups.get_by_key(key)
        if group is None:
            return _not_found(key)
        placed = self._placed(key)  # this pod is counted already
        if placed < min_member(group):
            if placed == 1:
                self._activate_others(key, pod)
            seconds = (
                group.get("spec", {}).get("scheduleTimeoutSeconds") or self._args.permit_waiting_time_seconds
            )
            return PermitResult.wait(seconds, f"waiting for PodGroup {key} to be complete")
        for waiting in self._waiting(key):
            waiting.allow(self.name)
        return None

    def _placed(self, key: str) -> int:
        """The number of pods of the gang with a node, bound or not."""
        cluster = self._handle.cluster
        return sum(cluster.placed(member.metadata.uid) is not None for member in self._members.of(key))

    def _activate_others(self, key: str, pod: Pod) -> None:
        self._handle.activator.activate(
            {
                f"{each.metadata.namespace}/{each.metadata.name}": each
                for each in self._members.of(key)
                if each.metadata.uid != pod.metadata.uid and not each.spec.node_name
            }
        )

    def _waiting(self, key: str) -> Iterator[WaitingPod]:
        for member in self._members.of(key):
            waiting = self._handle.waiting_pods.get(member.metadata.uid)
            if waiting is not None and self.name in waiting.pending_plugins:
                yield waiting

    def _reject_waiting(self, key: str, reason: str) -> None:
        for waiting in tuple(self._waiting(key)):
            waiting.reject(self.name, reason)

    def _missing_resources(self, group: PlainObject, key: str, nodes: Nodes) -> str:
        """The resources of `minResources` that are not free, not counting the gang's own pods."""
        least = amounts_of(group.get("spec", {}).get("minResources"))
        table, live = nodes.table, nodes.live()
        own = [info for member in self._members.of(key) if (info := table.placed(member.metadata.uid))]
        missing = []
        for resource, amount in least.items():
            left = sum(requests_of(info.request).get(resource, 0) for info in own)
            if (index := table.resource_index(resource)) is not None:
                free = nodes.take(table.allocatable[index]) - nodes.take(table.requested[index])
                left += int(free[live].clip(min=0).sum())
            if left < amount:
                missing.append(resource)
        return ", ".join(missing)

    # Back from the queue

    def events_to_register(self) -> Iterable[EventWithHint]:
        node_changes = (
            Action.ADD | Action.UPDATE_NODE_ALLOCATABLE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        )
        groups = "podgroups.v1alpha1.scheduling.x-k8s.io"
        return [
            EventWithHint(ClusterEvent(groups, Action.ADD | Action.UPDATE), self._after_group),
            EventWithHint(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), self._after_change),
            EventWithHint(ClusterEvent(Resource.NODE, node_changes), self._after_change),
        ]

    def _after_group(self, pod: Pod, old: object, new: object) -> Hint:
        metadata = getattr(new, "metadata", None)
        is_own = metadata is not None and f"{metadata.namespace}/{metadata.name}" == gang_of(pod)
        return self._after_change(pod, old, new) if is_own else Hint.SKIP

    def _after_change(self, pod: Pod, old: object, new: object) -> Hint:
        key = gang_of(pod)
        group = self._groups.get_by_key(key)
        if group is None or len(self._members.of(key)) < min_member(group) or self._has_failed(key, group):
            return Hint.SKIP
        return Hint.QUEUE


class GangMembers:
    """The unfinished pods of every gang. Follows the store of pods change by change."""

    def __init__(self, pods: Store[Pod]) -> None:
        self._pods = pods
        self._changes = pods.change_reader()
        self._gang_by_pod: dict[str, str] = {}
        self._by_gang: dict[str, dict[str, Pod]] = {}

    def of(self, gang: str) -> tuple[Pod, ...]:
        """The pods of the gang `namespace/name`."""
        if not self._changes.is_current:
            changed = self._changes.read()
            if changed is None:
                self._gang_by_pod.clear()
                self._by_gang.clear()
                changed = self._pods.keys()
            for key in changed:
                self._follow(key)
        return tuple(self._by_gang.get(gang, {}).values())

    def _follow(self, key: str) -> None:
        if (before := self._gang_by_pod.pop(key, "")) and (members := self._by_gang.get(before)):
            members.pop(key, None)
            if not members:
                del self._by_gang[before]
        pod = self._pods.get_by_key(key)
        gang = "" if pod is None or pod.status.phase in ("Succeeded", "Failed") else gang_of(pod)
        if pod is not None and gang:
            self._gang_by_pod[key] = gang
            self._by_gang.setdefault(gang, {})[key] = pod


def gang_of(pod: Pod) -> str:
    """`namespace/name` of the pod's PodGroup; "" if it has none."""
    name = pod.metadata.labels.get(LABEL, "")
    return f"{pod.metadata.namespace}/{name}" if name else ""


def min_member(group: PlainObject) -> int:
    """The number of pods of the gang that must have a node before any is bound."""
    return int(group.get("spec", {}).get("minMember") or 1)


def _not_found(key: str) -> Status:
    return Status.unresolvable(f"PodGroup {key} not found")
