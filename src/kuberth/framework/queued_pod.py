"""A pod in the queue, with its history."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any

from kuberth.api.core import Pod
from kuberth.cluster.pod_info import PodInfo


@dataclass(slots=True, eq=False, repr=False)
class QueuedPod:
    """A pending pod with its history. One object follows the pod through all queues and cycles."""

    info: PodInfo
    """The pod, with values derived from it."""
    timestamp_ns: int = field(kw_only=True)
    """When the pod entered the queue or returned from its last attempt."""
    attempts: int = field(default=0, init=False)
    """The number of attempts, that is, how often the pod was popped."""
    unschedulable_count: int = field(default=0, init=False)
    """The number of attempts that ended in a rejection; determines the backoff."""
    rejections_since_event: int = field(default=0, init=False)
    """The number of rejections since an event last requeued the pod; the end of a backoff or a flush is
    not an event."""
    consecutive_errors: int = field(default=0, init=False)
    """The number of consecutive attempts that ended in an error; determines the error backoff."""
    backoff_expires_ns: int | None = field(default=None, init=False)
    """When its backoff ends; None until computed."""
    first_attempt_ns: int | None = field(default=None, init=False)
    """When the pod first became ready to be tried."""
    unschedulable_plugins: Set[str] = field(default=frozenset(), init=False)
    """The plugins that rejected the pod in its last attempt; only their hints can requeue it."""
    pending_plugins: Set[str] = field(default=frozenset(), init=False)
    """The rejecting plugins that returned Pending."""
    gating_plugin: str = field(default="", init=False)
    """The PreEnqueue plugin that gates the pod, if any; events of other plugins cannot open its gate."""
    was_flushed: bool = field(default=False, init=False)
    """Whether the last move was caused by the flush rather than an event."""
    _flushed_ns: int = field(default=0, init=False)
    index_entry: Any = field(default=None, init=False)
    """The pod's place among the unschedulable pods, current or former; internal to the queue."""
    reported: Any = field(default=None, init=False)
    """What was recorded of the last rejection; internal to the failure handler."""

    @property
    def pod(self) -> Pod:
        """The pod's object."""
        return self.info.pod

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return self.info.key

    @property
    def uid(self) -> str:
        """The pod's UID."""
        return self.info.uid

    @property
    def gated(self) -> bool:
        """Whether a PreEnqueue plugin gates the pod."""
        return self.gating_plugin != ""

    @property
    def rejectors(self) -> Set[str]:
        """All plugins that rejected the pod in its last attempt."""
        if not self.pending_plugins:
            return self.unschedulable_plugins
        return self.unschedulable_plugins | self.pending_plugins

    @property
    def waits_after_error(self) -> bool:
        """Whether the pod's last attempt ended with an error, so that the error backoff applies."""
        return not self.unschedulable_plugins and not self.pending_plugins

    @property
    def waiting_since_ns(self) -> int:
        """Since when the pod has been unschedulable, including flushes."""
        return max(self.timestamp_ns, self._flushed_ns)

    def record_flush(self, now_ns: int) -> None:
        """Record that the pod was flushed without an event."""
        self.was_flushed = True
        self._flushed_ns = now_ns

    def clear_flush(self) -> None:
        """Record the end of the next attempt, which restarts the time until the flush."""
        self.was_flushed = False
        self._flushed_ns = 0

    def clear_flush_flag(self) -> None:
        """Record that a gate holds the flushed pod, so that no attempt follows."""
        self.was_flushed = False

    def __copy__(self) -> QueuedPod:
        # One by one: every pod that enters a queue is copied, and a loop over names takes three times as
        # long.
        twin = QueuedPod.__new__(QueuedPod)
        twin._flushed_ns = self._flushed_ns
        twin.attempts = self.attempts
        twin.backoff_expires_ns = self.backoff_expires_ns
        twin.consecutive_errors = self.consecutive_errors
        twin.index_entry = self.index_entry
        twin.first_attempt_ns = self.first_attempt_ns
        twin.gating_plugin = self.gating_plugin
        twin.info = self.info
        twin.pending_plugins = self.pending_plugins
        twin.rejections_since_event = self.rejections_since_event
        twin.reported = self.reported
        twin.timestamp_ns = self.timestamp_ns
        twin.unschedulable_count = self.unschedulable_count
        twin.unschedulable_plugins = self.unschedulable_plugins
        twin.was_flushed = self.was_flushed
        return twin

    def __repr__(self) -> str:
        return f"<QueuedPod {self.key} attempts={self.attempts}>"
