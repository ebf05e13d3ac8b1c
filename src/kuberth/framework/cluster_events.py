"""Cluster events: changes that may make a rejected pod schedulable, and queueing hints (KEP-4247).

In: changes of objects, as intake sees them. Out: `ClusterEvent` values for which plugins register, with a
hint function per plugin and event, the rule for which registrations an event matches, and warnings about
registrations for events that never occur.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from kuberth.api.core import Pod
from kuberth.api.kinds import REGISTRY


class Action(enum.IntFlag):
    """What happened to an object. The order of the bits affects matching, as in upstream."""

    ADD = 1 << 0
    """An object was created."""
    DELETE = 1 << 1
    """An object was deleted."""
    UPDATE_NODE_ALLOCATABLE = 1 << 2
    """A node's allocatable resources changed."""
    UPDATE_NODE_LABEL = 1 << 3
    """Labels of a node changed."""
    UPDATE_NODE_TAINT = 1 << 4
    """Taints of a node changed, or it became schedulable again."""
    UPDATE_NODE_CONDITION = 1 << 5
    """A condition of a node changed its status."""
    UPDATE_NODE_ANNOTATION = 1 << 6
    """Annotations of a node changed."""
    UPDATE_NODE_DECLARED_FEATURE = 1 << 7
    """The declared features of a node changed."""
    UPDATE_POD_LABEL = 1 << 8
    """Labels of a pod changed."""
    UPDATE_POD_SCALE_DOWN = 1 << 9
    """A pod's requests were reduced."""
    UPDATE_POD_TOLERATION = 1 << 10
    """Tolerations of a pod were added or removed."""
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 1 << 11
    """The last scheduling gate of a pod was removed."""
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 1 << 12
    """A resource claim was generated for a pod."""
    UPDATE = (1 << 13) - 1 - 0b11
    """Any change of the object; the only update action of kinds other than Node and Pod."""
    ALL = (1 << 13) - 1
    """Any action."""

    @property
    def label(self) -> str:
        """Upstream's name, e.g. `UpdateNodeTaint`; empty for a combination without a name."""
        return _ACTION_LABELS.get(self.value, "")

    @classmethod
    def from_label(cls, label: str) -> Action:
        """The action with this upstream name."""
        return cls(_ACTIONS_BY_LABEL[label])


_ACTION_LABELS: Final = {
    action.value: "".join(word.capitalize() for word in str(action.name).split("_"))
    for action in Action.__members__.values()
}
_ACTIONS_BY_LABEL: Final = {label: value for value, label in _ACTION_LABELS.items()}


class Resource(enum.StrEnum):
    """Kinds of objects whose changes may move pods; `ASSIGNED_POD` and `UNSCHEDULABLE_POD` are Pods."""

    POD = "Pod"
    """Pods, with or without a node; an event of either kind below matches."""
    ASSIGNED_POD = "AssignedPod"
    """Pods with a node."""
    UNSCHEDULABLE_POD = "UnschedulablePod"
    """Pods without a node."""
    NODE = "Node"
    """Nodes."""
    PERSISTENT_VOLUME = "PersistentVolume"
    """Persistent volumes."""
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    """Persistent volume claims."""
    CSI_NODE = "storage.k8s.io/CSINode"
    """CSI drivers on nodes."""
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    """CSI drivers."""
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    """Attachments of volumes to nodes."""
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    """Storage capacities of CSI drivers."""
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    """Storage classes."""
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    """Resource claims."""
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    """Devices that drivers publish."""
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    """Device classes."""
    POD_GROUP = "scheduling.k8s.io/PodGroup"
    """Pod groups."""
    ANY = "*"
    """Any kind of object."""


class ClusterEvent(NamedTuple):
    """A kind of change.

    `resource` is a `Resource`, or `plural.version.group` for any other kind that Kuberth knows or that you
    registered with `kuberth.api.register_kind`.
    """

    resource: str
    """The kind of object that changed."""
    action: Action
    """The kind of change."""
    custom_label: str = ""
    """The event's label in metrics, for events that no object caused."""

    @property
    def label(self) -> str:
        """The event's name in metrics, e.g. `NodeUpdateNodeTaint`."""
        return self.custom_label or f"{self.resource}{self.action.label}"

    @property
    def description(self) -> str:
        """The event with all its actions, e.g. `Node: Add, UpdateNodeLabel`."""
        rest, labels = self.action, list[str]()
        for action in (Action.ALL, Action.ADD, Action.DELETE, Action.UPDATE, *Action):
            if action and action in rest:
                labels.append(action.label)
                rest &= ~action
        return f"{self.resource}: {', '.join(labels)}"

    @property
    def is_wildcard(self) -> bool:
        """Whether the event matches all registrations."""
        return self.resource == Resource.ANY and self.action == Action.ALL


# Reasons for entering a queue other than cluster events.
SCHEDULE_ATTEMPT_FAILURE: Final = "ScheduleAttemptFailure"
BACKOFF_COMPLETE: Final = "BackoffComplete"
POP_FROM_BACKOFF: Final = "PopFromBackoffQ"
FORCE_ACTIVATE: Final = "ForceActivate"

ASSIGNED_POD_ADD: Final = ClusterEvent(Resource.ASSIGNED_POD, Action.ADD)
ASSIGNED_POD_UPDATE: Final = ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE)
ASSIGNED_POD_DELETE: Final = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
UNSCHEDULED_POD_ADD: Final = ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.ADD)
UNSCHEDULED_POD_UPDATE: Final = ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.UPDATE)
UNSCHEDULED_POD_DELETE: Final = ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.DELETE)
UNSCHEDULABLE_TIMEOUT: Final = ClusterEvent(Resource.ANY, Action.ALL, "UnschedulableTimeout")
CONFIGURATION_CHANGE: Final = ClusterEvent(Resource.ANY, Action.ALL, "ConfigurationChange")
FORCED_ACTIVATION: Final = ClusterEvent(Resource.ANY, Action.ALL, FORCE_ACTIVATE)


@lru_cache(maxsize=4096)
def concerns(registered: ClusterEvent, incoming: ClusterEvent) -> bool:
    """Whether `incoming` matches an event for which a plugin `registered`.

    An event with several actions matches only a registration that is at least as wide; like upstream, this
    compares the bit sets as numbers.
    """
    if registered.is_wildcard:
        return True
    same_resource = _name(registered.resource) in (Resource.ANY, incoming.resource) or (
        registered.resource == Resource.POD
        and incoming.resource in (Resource.ASSIGNED_POD, Resource.UNSCHEDULABLE_POD)
    )
    return (
        same_resource
        and bool(registered.action & incoming.action)
        and incoming.action.value <= registered.action.value
    )


def _name(resource: str) -> str:
    """Intake's name for the kind, for any name that a plugin used."""
    info = REGISTRY.of_event(resource)
    return resource if info is None else info.event_resource


class Hint(enum.Enum):
    """A plugin's answer to whether an event may make a rejected pod schedulable."""

    QUEUE = "Queue"
    """The pod may fit now: retry it."""
    SKIP = "QueueSkip"
    """The event does not help the pod: leave it where it is."""


HintFunction = Callable[[Pod, object, object], Hint]
"""`hint(pod, old, new)`: `old` is None for an addition, `new` is None for a deletion."""


class Concern(NamedTuple):
    """Limits an event to the pending pods that it concerns, so that hints do not run for all others."""

    of_pod: Callable[[Pod], Iterable[Hashable]]
    """Returns the keys of a pending pod; may read only what never changes in a pod."""
    of_event: Callable[[object, object], Iterable[Hashable] | None]
    """Returns the keys of the event from `old` and `new`. The hint skips pods that share none of them. None:
    the event may concern any pod."""


class EventWithHint(NamedTuple):
    """A registered event with its hint; without a hint, every such event requeues the pod."""

    event: ClusterEvent
    """The registered event."""
    hint: HintFunction | None = None
    """Called for each pending pod that the plugin rejected; None: always Queue."""
    concern: Concern | None = None
    """The pods for which to call the hint; None: all."""


ALL_EVENTS: Final = tuple(
    EventWithHint(ClusterEvent(resource, Action.ALL))
    for resource in (
        Resource.POD,
        Resource.NODE,
        Resource.PERSISTENT_VOLUME,
        Resource.PERSISTENT_VOLUME_CLAIM,
        Resource.CSI_NODE,
        Resource.CSI_DRIVER,
        Resource.CSI_STORAGE_CAPACITY,
        Resource.STORAGE_CLASS,
        Resource.RESOURCE_CLAIM,
        Resource.DEVICE_CLASS,
    )
)
"""The events for plugins that register none, so that no pod gets stuck: those of Kubernetes' own kinds.
Plugins that depend on other kinds have to register their events.
"""


_NODE_UPDATES: Final = (
    Action.UPDATE_NODE_ALLOCATABLE
    | Action.UPDATE_NODE_LABEL
    | Action.UPDATE_NODE_TAINT
    | Action.UPDATE_NODE_CONDITION
    | Action.UPDATE_NODE_ANNOTATION
    | Action.UPDATE_NODE_DECLARED_FEATURE
)
_POD_UPDATES: Final = Action.UPDATE & ~_NODE_UPDATES
_COMING: Final = {
    Resource.POD: Action.ADD | Action.DELETE | _POD_UPDATES,
    Resource.ASSIGNED_POD: Action.ADD
    | Action.DELETE
    | (_POD_UPDATES & ~Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
    Resource.UNSCHEDULABLE_POD: _POD_UPDATES,
    Resource.NODE: Action.ADD | Action.DELETE | _NODE_UPDATES,
}
"""The actions of kinds whose updates have specific names; pending pods are handled separately."""
_INSTEAD: Final = {
    Resource.ASSIGNED_POD: "only pending pods have scheduling gates: use Resource.UNSCHEDULABLE_POD",
    Resource.UNSCHEDULABLE_POD: (
        "pods that come or go before they have a node move no other pod: use Resource.ASSIGNED_POD for "
        "pods with a node, or call handle.activator.activate"
    ),
    Resource.POD: "a pod has no such change: use an action UPDATE_POD_..., or Resource.NODE",
    Resource.NODE: "a node has no such change: use an action UPDATE_NODE_..., or Resource.ASSIGNED_POD",
}
_OTHERS: Final = "updates of this kind are not distinguished: use Action.UPDATE"


def unheard(event: ClusterEvent, *, gangs: bool) -> Iterator[str]:
    """The warnings for a registered event: which part of it never occurs, and what to use instead.

    `gangs`: the gang plugin is enabled, with which new pending pods are events.
    """
    if event.resource == Resource.ANY:
        return
    coming = _COMING.get(Resource(event.resource)) if event.resource in _COMING else None
    instead = _INSTEAD[Resource(event.resource)] if event.resource in _COMING else _OTHERS
    action = event.action
    if coming is None:
        coming = Action.ADD | Action.DELETE
    elif gangs and event.resource == Resource.UNSCHEDULABLE_POD:
        coming |= Action.ADD
    if action & Action.UPDATE == Action.UPDATE:
        action &= ~Action.UPDATE  # any change matches
    missing = action & ~coming
    if missing:
        labels = ", ".join(each.label for each in Action if each & missing and each.value.bit_count() == 1)
        yield f"{event.resource} {labels} never comes; {instead}"
