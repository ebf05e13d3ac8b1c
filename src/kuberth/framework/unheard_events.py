"""Finds registrations for events that never occur, to warn plugin authors.

In: what a plugin registered. Out: a sentence for every part of it that no change of the cluster matches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kuberth.framework.cluster_events import Action, ClusterEvent, Resource

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
