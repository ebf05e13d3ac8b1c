"""Observers of pods moving between the scheduling queues.

In: every move, from a queue and its guard. Out: calls of the observer. Without an observer, a move costs one
check of an attribute.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kuberth.framework.cluster_events import ClusterEvent
from kuberth.framework.queued_pod import QueuedPod


class MoveCause(NamedTuple):
    """Why a pod moves to a queue."""

    label: str
    """The event label of kube-scheduler's metrics."""
    event: ClusterEvent | None = None
    """The cluster event, if one caused the move."""
    about: object = None
    """The object of the event."""
    plugin: str = ""
    """The plugin whose hint returned Queue."""

    @classmethod
    def of(cls, event: ClusterEvent, about: object = None, *, plugin: str = "") -> MoveCause:
        """The cause of moves by a cluster event."""
        return cls(event.label, event, about, plugin)


UNREPORTED = MoveCause("")
"""The cause of a move that the queue did not report; only the destination is known."""


class QueueObserver(Protocol):
    """Receives every move, in order. Its methods must be quick, and must not call the queue."""

    def pod_moved(self, queued: QueuedPod, queue: str, cause: MoveCause) -> None:
        """The pod is in this queue now; it may have been there before, for another reason."""
        ...

    def pod_popped(self, queued: QueuedPod) -> None:
        """An attempt begins, so the pod is in flight."""
        ...

    def pod_done(self, uid: str) -> None:
        """An in-flight pod will not be requeued: it is being bound, or does not need scheduling."""
        ...

    def pod_deleted(self, uid: str) -> None:
        """The pod has left the queue: it is deleted or bound."""
        ...
