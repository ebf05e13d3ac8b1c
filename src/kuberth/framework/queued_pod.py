"""A pod in the queue, with its history."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from kuberth.api.core import Pod
from kuberth.cluster.pod_info import PodInfo


class QueuedPod:
    """A pending pod with its history. One object follows the pod through all queues and cycles."""

    __slots__ = (
        "_flushed_ns",
        "attempts",
        "backoff_expires_ns",
        "consecutive_errors",
        "first_attempt_ns",
        "gating_plugin",
        "index_entry",
        "info",
        "pending_plugins",
        "rejections_since_event",
        "reported",
        "timestamp_ns",
        "unschedulable_count",
        "unschedulable_plugins",
        "was_flushed",
    )

    def __init__(self, info: PodInfo, *, timestamp_ns: int) -> None:
        self.info = info
        """The pod, with values derived from it."""
        self.timestamp_ns = timestamp_ns
        """When the pod entered the queue or returned from its last attempt."""
        self.attempts = 0
        """The number of attempts, that is, how often the pod was popped."""
        self.unschedulable_count = 0
        """The number of attempts that ended in a rejection; determines the backoff."""
        self.rejections_since_event = 0
        """The number of rejections since an event last requeued the pod; the end of a backoff or a flush is
        not an event."""
        self.consecutive_errors = 0
        """The number of consecutive attempts that ended in an error; determines the error backoff."""
        self.backoff_expires_ns: int | None = None
        """When its backoff ends; None until computed."""
        self.first_attempt_ns: int | None = None
        """When the pod first became ready to be tried."""
        self.unschedulable_plugins: Set[str] = frozenset()
        """The plugins that rejected the pod in its last attempt; only their hints can requeue it."""
        self.pending_plugins: Set[str] = frozenset()
        """The rejecting plugins that returned Pending."""
        self.gating_plugin = ""
        """The PreEnqueue plugin that gates the pod, if any; events of other plugins cannot open its gate."""
        self.was_flushed = False
        """Whether the last move was caused by the flush rather than an event."""
        self._flushed_ns = 0
        self.index_entry: Any = None
        """The pod's place among the unschedulable pods, current or former; internal to the queue."""
        self.reported: Any = None
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
