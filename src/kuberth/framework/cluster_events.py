"""Cluster events: what may make a rejected pod schedulable, and the hints that judge it (KEP-4247).

In: changes of objects, as intake sees them. Out: `ClusterEvent` values that plugins register for, with
a hint function per plugin and event, and the rule which registration an event concerns.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from kuberth.api.core import Pod
from kuberth.api.kinds import REGISTRY


class Action(enum.IntFlag):
    """What happened to an object. The order of the bits takes part in matching, as upstream's does."""

    ADD = 1 << 0
    """The object is new."""
    DELETE = 1 << 1
    """The object is gone."""
    UPDATE_NODE_ALLOCATABLE = 1 << 2
    """What a node offers changed, in amount."""
    UPDATE_NODE_LABEL = 1 << 3
    """Labels of a node changed."""
    UPDATE_NODE_TAINT = 1 << 4
    """Taints of a node changed, or it became schedulable again."""
    UPDATE_NODE_CONDITION = 1 << 5
    """A condition of a node changed its status."""
    UPDATE_NODE_ANNOTATION = 1 << 6
    """Annotations of a node changed."""
    UPDATE_NODE_DECLARED_FEATURE = 1 << 7
    """The features a node declares changed."""
    UPDATE_POD_LABEL = 1 << 8
    """Labels of a pod changed."""
    UPDATE_POD_SCALE_DOWN = 1 << 9
    """A pod asks for less of something."""
    UPDATE_POD_TOLERATION = 1 << 10
    """A pod has more tolerations, or fewer."""
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 1 << 11
    """The last scheduling gate of a pod is gone."""
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 1 << 12
    """A claim was made for a pod."""
    UPDATE = (1 << 13) - 1 - 0b11
    """Any change; for kinds besides Node and Pod the only one there is."""
    ALL = (1 << 13) - 1
    """Whatever happens."""

    @property
    def label(self) -> str:
        """Upstream's name, e.g. `UpdateNodeTaint`; empty for a mixture that has no name of its own."""
        return _ACTION_LABELS.get(self.value, "")

    @classmethod
    def from_label(cls, label: str) -> Action:
        """The action that upstream calls so."""
        return cls(_ACTIONS_BY_LABEL[label])


_ACTION_LABELS: Final = {
    action.value: "".join(word.capitalize() for word in str(action.name).split("_"))
    for action in Action.__members__.values()
}
_ACTIONS_BY_LABEL: Final = {label: value for value, label in _ACTION_LABELS.items()}


class Resource(enum.StrEnum):
    """Kinds of objects whose changes may move pods; `ASSIGNED_POD` and `UNSCHEDULABLE_POD` are Pods."""

    POD = "Pod"
    """Pods, wherever they are: events of both kinds below concern it."""
    ASSIGNED_POD = "AssignedPod"
    """Pods that have a node."""
    UNSCHEDULABLE_POD = "UnschedulablePod"
    """Pods that have none yet."""
    NODE = "Node"
    """Nodes."""
    PERSISTENT_VOLUME = "PersistentVolume"
    """Persistent volumes."""
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    """Claims of persistent volumes."""
    CSI_NODE = "storage.k8s.io/CSINode"
    """What CSI drivers say of a node."""
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    """CSI drivers."""
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    """Volumes being attached to nodes."""
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    """How much storage is left where."""
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    """Storage classes."""
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    """Claims of dynamic resource allocation."""
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    """Devices that drivers offer."""
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    """Classes of devices."""
    POD_GROUP = "scheduling.k8s.io/PodGroup"
    """Groups of pods."""
    ANY = "*"
    """Any kind of object."""


class ClusterEvent(NamedTuple):
    """A kind of change.

    `resource` is a `Resource`, or for any other kind that Kuberth knows or you registered with
    `kuberth.api.register_kind`, its `plural.version.group`.
    """

    resource: str
    """What it happened to."""
    action: Action
    """What happened."""
    custom_label: str = ""
    """Another name in metrics, for events that no object caused."""

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
        """Whether every event concerns it."""
        return self.resource == Resource.ANY and self.action == Action.ALL


# Why a pod entered a queue, where no cluster event was the cause.
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
    """Whether `incoming` is one of the events that a plugin `registered` for.

    An event of several actions at once concerns a registration only if it is not wider than it, which
    upstream decides by comparing the bit sets as numbers.
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
    """What intake calls the kind, whichever of its names a plugin used."""
    info = REGISTRY.of_event(resource)
    return resource if info is None else info.event_resource


class Hint(enum.Enum):
    """What a plugin thinks an event means for a pod it rejected."""

    QUEUE = "Queue"
    """It may fit now: try it."""
    SKIP = "QueueSkip"
    """It cannot have become schedulable by this: let it wait."""


HintFunction = Callable[[Pod, object, object], Hint]
"""`hint(pod, old, new)`: old is None for an addition, new is None for a deletion."""


class Concern(NamedTuple):
    """Which waiting pods an event can be about, so that thousands of others need not be asked."""

    of_pod: Callable[[Pod], Iterable[Hashable]]
    """What a waiting pod is known by; of what never changes in a pod."""
    of_event: Callable[[object, object], Iterable[Hashable] | None]
    """What the event is about, of `old` and `new`: the hint skips every pod that is known by nothing of
    this. None: it may be about any pod."""


class EventWithHint(NamedTuple):
    """A registration: the event, and the function that judges it; without one every such event queues."""

    event: ClusterEvent
    """The events to receive."""
    hint: HintFunction | None = None
    """Asked for each waiting pod that the plugin rejected; None: always Queue."""
    concern: Concern | None = None
    """Which of them to ask about; None: all."""


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
"""What a plugin that does not say which events matter is registered for, so that no pod gets stuck.

These are Kubernetes' own kinds; plugins that depend on others have to register for them.
"""
