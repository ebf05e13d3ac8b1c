"""What changed between two versions of an object, as cluster events.

In: the old and the new version of a pod or node. Out: the events that plugins may have registered for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from kuberth.api.core import Node, Pod, PodStatus
from kuberth.api.meta import ObjectMeta
from kuberth.api.pod_resources import pod_requests
from kuberth.api.quantity import parse
from kuberth.errors import QuantityError
from kuberth.framework.cluster_events import Action, ClusterEvent, Resource

_POD_SCHEDULED: Final = "PodScheduled"
"""The type of the condition that schedulers write."""


def _scaled_down(old: Pod, new: Pod) -> bool:
    if old.spec == new.spec and (old.status == new.status or not (_is_reported(old) or _is_reported(new))):
        return False
    try:
        before, after = pod_requests(old), pod_requests(new)
    except QuantityError:
        return False
    return any(name not in after or amount > after[name] for name, amount in before.items())


def _is_reported(pod: Pod) -> bool:
    """Whether resources in the pod's status, which the kubelet has allocated, count too."""
    status = pod.status
    return bool(status.container_statuses or status.init_container_statuses or status.resources is not None)


_POD_CHANGES: Final[Sequence[tuple[Action, Callable[[Pod, Pod], bool]]]] = (
    (Action.UPDATE_POD_LABEL, lambda old, new: old.metadata.labels != new.metadata.labels),
    (Action.UPDATE_POD_SCALE_DOWN, _scaled_down),
    (
        Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
        lambda old, new: bool(old.spec.scheduling_gates) and not new.spec.scheduling_gates,
    ),
    (
        Action.UPDATE_POD_TOLERATION,
        lambda old, new: len(old.spec.tolerations) != len(new.spec.tolerations),
    ),
    (
        Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM,
        lambda old, new: (
            old.status.resource_claim_statuses != new.status.resource_claim_statuses
            or old.status.extended_resource_claim_status != new.status.extended_resource_claim_status
        ),
    ),
)

_NODE_CHANGES: Final[Sequence[tuple[Action, Callable[[Node, Node], bool]]]] = (
    # Uncordoning also counts as a change of taints, and both may come together.
    (Action.UPDATE_NODE_TAINT, lambda old, new: old.spec.unschedulable and not new.spec.unschedulable),
    (Action.UPDATE_NODE_ALLOCATABLE, lambda old, new: not _same_amounts(old, new)),
    (Action.UPDATE_NODE_LABEL, lambda old, new: old.metadata.labels != new.metadata.labels),
    (Action.UPDATE_NODE_TAINT, lambda old, new: old.spec.taints != new.spec.taints),
    (Action.UPDATE_NODE_CONDITION, lambda old, new: _condition_statuses(old) != _condition_statuses(new)),
    (Action.UPDATE_NODE_ANNOTATION, lambda old, new: old.metadata.annotations != new.metadata.annotations),
    (
        Action.UPDATE_NODE_DECLARED_FEATURE,
        lambda old, new: old.status.declared_features != new.status.declared_features,
    ),
)


def _same_amounts(old: Node, new: Node) -> bool:
    """Whether both amounts are equal; "1" and "1000m" are."""
    before, after = old.status.allocatable, new.status.allocatable
    if before == after:
        return True
    try:
        return {name: parse(amount) for name, amount in before.items()} == {
            name: parse(amount) for name, amount in after.items()
        }
    except QuantityError:
        return False


def pod_changes(old: Pod, new: Pod) -> Sequence[ClusterEvent]:
    """At least one event: a change without a specific action is a plain Update."""
    resource = Resource.ASSIGNED_POD if new.spec.node_name else Resource.UNSCHEDULABLE_POD
    changes = [ClusterEvent(resource, action) for action, changed in _POD_CHANGES if changed(old, new)]
    return changes or [ClusterEvent(resource, Action.UPDATE)]


def node_changes(old: Node, new: Node) -> Sequence[ClusterEvent]:
    """The events of a node update; none if nothing changed that scheduling reads."""
    return [ClusterEvent(Resource.NODE, action) for action, changed in _NODE_CHANGES if changed(old, new)]


def _condition_statuses(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}


def differs_for_scheduling(old: Pod, new: Pod) -> bool:
    """Whether a new version of a pod differs in more than its status and the API's bookkeeping."""
    return (
        old.spec != new.spec
        or old.status.resource_claim_statuses != new.status.resource_claim_statuses
        or _without_bookkeeping(old.metadata) != _without_bookkeeping(new.metadata)
    )


def is_own_status_write(old: Pod, new: Pod) -> bool:
    """Whether only the scheduler's own fields differ: its condition and the nominated node.

    Otherwise a plugin that registers for all events, and whose messages always differ, would requeue its
    pods by rejecting them.
    """
    return (
        old.status != new.status
        and not differs_for_scheduling(old, new)
        and _without_own_fields(old.status) == _without_own_fields(new.status)
    )


def _without_own_fields(status: PodStatus) -> PodStatus:
    others = tuple(each for each in status.conditions if each.type != _POD_SCHEDULED)
    return msgspec.structs.replace(status, conditions=others, nominated_node_name="")


def _without_bookkeeping(metadata: ObjectMeta) -> ObjectMeta:
    return msgspec.structs.replace(metadata, resource_version="", generation=0, finalizers=())
