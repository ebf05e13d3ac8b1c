"""Waiting out a delay that doubles with every failed attempt.

In: pods that failed. Out: those whose delay is over, or, when asked, the next one early (KEP-5142).
Pods that failed by an error wait apart: their delay protects the API server and is never cut short.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kuberth.clock import NANOSECONDS, Clock
from kuberth.framework.queued_pod import QueuedPod
from kuberth.queue.sub_queues import OrderedSubQueue, SortValue, SubQueue, SubQueueFactory

NO_BACKOFF: Final = -1
"""Before any time a clock can show; a virtual clock may begin at 0."""


class Backoff:
    """How long a pod waits. With `windows` all times are cut to whole seconds, so that pods whose delay
    ends in the same second leave by priority and not by milliseconds."""

    def __init__(self, clock: Clock, *, initial_seconds: float, max_seconds: float, windows: bool) -> None:
        self._clock = clock
        self._initial_ns = round(initial_seconds * NANOSECONDS)
        self._max_ns = round(max_seconds * NANOSECONDS)
        self._windows = windows

    def expires_ns(self, queued: QueuedPod) -> int:
        """When the pod's delay ends; `NO_BACKOFF` if it has none. Worked out once after each failure."""
        failures = queued.consecutive_errors or queued.unschedulable_count
        if self._max_ns == 0 or failures == 0:
            return NO_BACKOFF
        if queued.backoff_expires_ns is None:
            queued.backoff_expires_ns = self._align(queued.timestamp_ns + self._delay_ns(failures))
        return queued.backoff_expires_ns

    def is_waiting(self, queued: QueuedPod) -> bool:
        """Whether its backoff is not over yet."""
        return self.expires_ns(queued) >= self._align(self._clock.now_ns())

    def _delay_ns(self, failures: int) -> int:
        shift = failures - 1
        # Compared by shifting the limit down, so that no number of failures overflows.
        return self._max_ns if self._initial_ns > self._max_ns >> shift else self._initial_ns << shift

    def _align(self, time_ns: int) -> int:
        return time_ns - time_ns % NANOSECONDS if self._windows else time_ns


class BackoffQueue:
    """The backoff queue and its twin for errors."""

    def __init__(
        self,
        backoff: Backoff,
        *,
        sort_value: SortValue,
        windows: bool,
        sub_queue: SubQueueFactory = OrderedSubQueue,
        keeps_groups: bool = False,
    ) -> None:
        """With `keeps_groups`, pods of a group wait out their delay too.

        Others are here because something happened that may help them. A group comes here after every attempt:
        cut short, its delay would be none, and the scheduler would try nothing else.
        """
        self._backoff = backoff
        self._keeps_groups = keeps_groups

        def by_expiry(queued: QueuedPod) -> int:
            return backoff.expires_ns(queued)

        def by_window_then_order(queued: QueuedPod) -> tuple[int, Any]:
            return backoff.expires_ns(queued), sort_value(queued)

        self._rejected: SubQueue = sub_queue(by_window_then_order if windows else by_expiry)
        self._failed: SubQueue = OrderedSubQueue(by_expiry)

    def add(self, queued: QueuedPod) -> None:
        if queued.waits_after_error or (self._keeps_groups and queued.info.group):
            self._rejected.remove(queued.info.key)
            self._failed.add(queued)
        else:
            self._failed.remove(queued.info.key)
            self._rejected.add(queued)

    def resort(self, queued: QueuedPod) -> None:
        """The pod has a new version; it stays where it is."""
        (self._failed if queued.key in self._failed else self._rejected).add(queued)

    def remove(self, key: str) -> QueuedPod | None:
        return self._rejected.remove(key) or self._failed.remove(key)

    def get(self, key: str) -> QueuedPod | None:
        return self._rejected.get(key) or self._failed.get(key)

    def pop_early(self) -> QueuedPod | None:
        """The next rejected pod, its delay not being over."""
        return self._rejected.pop()

    def pop_completed(self) -> Iterator[QueuedPod]:
        """Take out all pods whose delay is over."""
        for queue in (self._rejected, self._failed):
            for line in queue.lines():
                while (first := line.peek()) is not None and not self._backoff.is_waiting(first):
                    queue.remove(first.key)
                    yield first

    def __contains__(self, key: object) -> bool:
        return key in self._rejected or key in self._failed

    def __len__(self) -> int:
        return len(self._rejected) + len(self._failed)

    def __iter__(self) -> Iterator[QueuedPod]:
        yield from self._rejected
        yield from self._failed
