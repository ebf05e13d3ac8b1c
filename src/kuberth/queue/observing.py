"""Observers of pods moving between the scheduling queues.

In: every move, from a queue and the guard before it. Out: nothing; an observer keeps what it needs.
Without an observer a move costs one check of an attribute that is None.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kuberth.framework.cluster_events import ClusterEvent
from kuberth.framework.queued_pod import QueuedPod


class MoveCause(NamedTuple):
    """Why a pod goes to a queue."""

    label: str
    """As metrics have it."""
    event: ClusterEvent | None = None
    """What happened in the cluster, if anything did."""
    about: object = None
    """The object it happened to."""
    plugin: str = ""
    """The plugin whose hint said that the event may help."""

    @classmethod
    def of(cls, event: ClusterEvent, about: object = None, *, plugin: str = "") -> MoveCause:
        """That of an event in the cluster."""
        return cls(event.label, event, about, plugin)


UNTOLD = MoveCause("")
"""The cause of a move that the queue did not report: only the destination is known."""


class QueueObserver(Protocol):
    """Receives every move, in order. It must be quick, and must not call the queue."""

    def pod_moved(self, queued: QueuedPod, queue: str, cause: MoveCause) -> None:
        """The pod waits in this queue now; it may have waited there before, with another reason."""
        ...

    def pod_popped(self, queued: QueuedPod) -> None:
        """An attempt begins: it is in flight."""
        ...

    def pod_done(self, uid: str) -> None:
        """A pod in flight will not come back: it is being bound, or needs no scheduling any more."""
        ...

    def pod_deleted(self, uid: str) -> None:
        """The pod need not wait any more: it is gone, or was bound."""
        ...
