"""Not a plugin: registers events with typed queueing hints.

In: a kind of object, actions, and a function that returns whether such a change may help a pod. Out: an
`EventWithHint`. Given an object of another kind, the hint raises TypeError; the queue then retries the pod.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kuberth.api.core import Pod
from kuberth.api.kinds import REGISTRY
from kuberth.framework.cluster_events import Action, ClusterEvent, Concern, EventWithHint, Hint
from kuberth.framework.hint_objects import before_and_after, expect

T = TypeVar("T")


def on_any(kind: type[Any], actions: Action) -> EventWithHint:
    """Every such event requeues the pod."""
    return EventWithHint(_event(kind, actions))


def on_change(
    kind: type[T],
    actions: Action,
    helps: Callable[[Pod, T | None, T | None], bool],
    concern: Concern | None = None,
) -> EventWithHint:
    """`helps(pod, before, after)`: `before` is None for an addition, `after` for a deletion, never both."""

    def hint(pod: Pod, old: object, new: object) -> Hint:
        before, after = before_and_after(kind, old, new)
        if before is None and after is None:
            raise TypeError(f"a hint about a {kind.__name__} was called without one")
        return _hint(helps(pod, before, after))

    return EventWithHint(_event(kind, actions), hint, concern)


def on_new(
    kind: type[T],
    actions: Action,
    helps: Callable[[Pod, T | None, T], bool],
    concern: Concern | None = None,
) -> EventWithHint:
    """For additions and updates: `helps(pod, before, after)`; `before` is None for an addition."""

    def hint(pod: Pod, old: object, new: object) -> Hint:
        before = None if old is None else expect(kind, old)
        return _hint(helps(pod, before, expect(kind, new)))

    return EventWithHint(_event(kind, actions), hint, concern)


def on_deletion(kind: type[T], helps: Callable[[Pod, T], bool]) -> EventWithHint:
    """`helps(pod, deleted)`."""

    def hint(pod: Pod, old: object, _new: object) -> Hint:
        return _hint(helps(pod, expect(kind, old)))

    return EventWithHint(_event(kind, Action.DELETE), hint)


def has_node(pod: Pod) -> bool:
    """Whether the pod has a node or a nominated one, so that it takes up resources there."""
    return bool(pod.spec.node_name or pod.status.nominated_node_name)


def is_same_pod(pod: Pod, other: Pod) -> bool:
    """Whether both are versions of one pod."""
    return pod.metadata.uid == other.metadata.uid


def _event(kind: type[Any], actions: Action) -> ClusterEvent:
    return ClusterEvent(REGISTRY.of(kind).event_resource, actions)


def _hint(helps: bool) -> Hint:
    return Hint.QUEUE if helps else Hint.SKIP
