"""backoffQ: pods wait for a delay that doubles with every failed attempt.

In: rejected and failed pods. Out: pods whose backoff has completed, or the next one early (KEP-5142). Pods
whose attempt ended with an error wait in a separate queue: their backoff protects the API server and is never
shortened.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kuberth.clock import NANOSECONDS, Clock
from kuberth.framework.queued_pod import QueuedPod
from kuberth.queue.sub_queues import OrderedSubQueue, SortValue, SubQueue, SubQueueFactory

NO_BACKOFF: Final = -1
"""Earlier than any time of a clock; a virtual clock may begin at 0."""


class Backoff:
    """Computes backoffs. With `windows`, all times are cut to whole seconds, so that pods whose backoff ends
    in the same second leave in the order of their priority."""

    def __init__(self, clock: Clock, *, initial_seconds: float, max_seconds: float, windows: bool) -> None:
        self._clock = clock
        self._initial_ns = round(initial_seconds * NANOSECONDS)
        self._max_ns = round(max_seconds * NANOSECONDS)
        self._windows = windows

    def expires_ns(self, queued: QueuedPod) -> int:
        """When the pod's backoff ends; `NO_BACKOFF` if it has none. Computed once after each failure."""
        failures = queued.consecutive_errors or queued.unschedulable_count
        if self._max_ns == 0 or failures == 0:
            return NO_BACKOFF
        if queued.backoff_expires_ns is None:
            queued.backoff_expires_ns = self._align(queued.timestamp_ns + self._delay_ns(failures))
        return queued.backoff_expires_ns

    def is_waiting(self, queued: QueuedPod) -> bool:
        """Whether the pod's backoff has not completed."""
        return self.expires_ns(queued) >= self._align(self._clock.now_ns())

    def _delay_ns(self, failures: int) -> int:
        shift = failures - 1
        # Compared by shifting the limit down, so that no number of failures overflows.
        return self._max_ns if self._initial_ns > self._max_ns >> shift else self._initial_ns << shift

    def _align(self, time_ns: int) -> int:
        return time_ns - time_ns % NANOSECONDS if self._windows else time_ns


class BackoffQueue:
    """backoffQ and the separate queue for pods after an error."""

    def __init__(
        self,
        backoff: Backoff,
        *,
        sort_value: SortValue,
        windows: bool,
        sub_queue: SubQueueFactory = OrderedSubQueue,
        keeps_groups: bool = False,
    ) -> None:
        """With `keeps_groups`, pods of a group are not popped early either.

        Other pods are here because of an event that may help them. A group enters after every attempt: popped
        early, it would have no backoff, and the scheduler would try nothing else.
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
        """Sort a pod again that has a new version."""
        (self._failed if queued.key in self._failed else self._rejected).add(queued)

    def remove(self, key: str) -> QueuedPod | None:
        return self._rejected.remove(key) or self._failed.remove(key)

    def get(self, key: str) -> QueuedPod | None:
        return self._rejected.get(key) or self._failed.get(key)

    def pop_early(self) -> QueuedPod | None:
        """Remove and return the next rejected pod before its backoff has completed; None if there is none."""
        return self._rejected.pop()

    def pop_completed(self) -> Iterator[QueuedPod]:
        """Remove all pods whose backoff has completed."""
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
