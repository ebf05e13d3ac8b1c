"""A pod on its way through the queue, with what the queue remembers about it."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from kuberth.api.core import Pod
from kuberth.cluster.pod_info import PodInfo


class QueuedPod:
    """A pending pod and its history. One object follows the pod through all queues and cycles."""

    __slots__ = (
        "_flushed_ns",
        "attempts",
        "backoff_expires_ns",
        "consecutive_errors",
        "filing",
        "first_attempt_ns",
        "gating_plugin",
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
        """The pod, with what is derived from it."""
        self.timestamp_ns = timestamp_ns
        """When the pod entered the queue or came back from its last attempt."""
        self.attempts = 0
        """How often it was popped."""
        self.unschedulable_count = 0
        """How many attempts ended in a rejection; decides the backoff."""
        self.rejections_since_event = 0
        """How many of them since an event last brought the pod back; the end of a wait is no event."""
        self.consecutive_errors = 0
        """How many attempts in a row ended in an error; decides the error backoff."""
        self.backoff_expires_ns: int | None = None
        """When its backoff ends; None until it is asked for."""
        self.first_attempt_ns: int | None = None
        """When it first became ready to be tried."""
        self.unschedulable_plugins: Set[str] = frozenset()
        """Plugins that rejected it in its last attempt; only their hints can bring it back."""
        self.pending_plugins: Set[str] = frozenset()
        """Those of them that answered Pending."""
        self.gating_plugin = ""
        """The PreEnqueue plugin that holds it back, if any; other plugins' events cannot open its gate."""
        self.was_flushed = False
        """Whether the last move came from waiting too long rather than from an event."""
        self._flushed_ns = 0
        self.filing: Any = None
        """Where the queue has filed the pod among unschedulable ones, or had; for the queue alone."""
        self.reported: Any = None
        """What was recorded of its last rejection; for the failure handler alone."""

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
        """Whether a PreEnqueue plugin holds it back."""
        return self.gating_plugin != ""

    @property
    def rejectors(self) -> Set[str]:
        """All plugins that rejected it in its last attempt."""
        if not self.pending_plugins:
            return self.unschedulable_plugins
        return self.unschedulable_plugins | self.pending_plugins

    @property
    def waits_after_error(self) -> bool:
        """Came back without a rejecting plugin, so its backoff protects against an error."""
        return not self.unschedulable_plugins and not self.pending_plugins

    @property
    def waiting_since_ns(self) -> int:
        """Since when the pod has been waiting in the unschedulable pool, flushes included."""
        return max(self.timestamp_ns, self._flushed_ns)

    def note_flush(self, now_ns: int) -> None:
        """Record that the pod waited too long and is tried again without an event."""
        self.was_flushed = True
        self._flushed_ns = now_ns

    def clear_flush(self) -> None:
        """Record the end of the next attempt, which restarts the wait."""
        self.was_flushed = False
        self._flushed_ns = 0

    def clear_flush_flag(self) -> None:
        """Record that a gate holds the flushed pod back, so that no attempt follows."""
        self.was_flushed = False

    def __copy__(self) -> QueuedPod:
        # One by one: every pod that enters a queue is copied, and a loop over names takes 3 times as long.
        twin = QueuedPod.__new__(QueuedPod)
        twin._flushed_ns = self._flushed_ns
        twin.attempts = self.attempts
        twin.backoff_expires_ns = self.backoff_expires_ns
        twin.consecutive_errors = self.consecutive_errors
        twin.filing = self.filing
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
