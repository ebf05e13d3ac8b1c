"""A queue that reserves a share of the attempts for pods that were rejected least often.

In: the same as the default queue. Out: the same pods in the same order, except that a share of the attempts
goes to the pod with the fewest rejections since an event last brought it back, first come first served among
equals. Pods that may fit now are tried even where urgent pods that fit nowhere take every other attempt.

Use it as it is (one attempt in ten), or with another share:

    kuberth run --queue kuberth.queue.reserved_share:ReservedShareQueue
    kuberth run --queue 'kuberth.queue.reserved_share:ReservedShareQueue(share=0.25)'
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Final

from kuberth.errors import ConfigError
from kuberth.framework.queued_pod import QueuedPod
from kuberth.queue.interface import QueueContext
from kuberth.queue.priority_queue import PriorityQueue
from kuberth.queue.sub_queues import OrderedSubQueue, SortValue

DEFAULT_SHARE: Final = 0.1


class ReservedShareQueue(PriorityQueue):
    """The default queue, with a share of the attempts reserved for pods that were rejected least often."""

    def __init__(self, context: QueueContext, *, share: float = DEFAULT_SHARE) -> None:
        """`share`: of all attempts, between 0 (none is reserved) and 1 (priorities do not count at all)."""
        if not isinstance(share, int | float) or not 0 <= share <= 1:
            raise ConfigError(f"the reserved share is {share!r}; it must be between 0 and 1")
        super().__init__(context, sub_queue=lambda sort_value: ReservedShareSubQueue(sort_value, share=share))


class ReservedShareSubQueue:
    """Pods in two orders at once. Implements `kuberth.queue.sub_queues.SubQueue`."""

    def __init__(self, sort_value: SortValue, *, share: float) -> None:
        self._earned, self._price = Fraction(str(float(share))).as_integer_ratio()
        """What an attempt adds to the credit, and the credit that a reserved attempt takes: integers, so that
        no share is lost to rounding."""
        self._credit = 0
        self._by_order = OrderedSubQueue(sort_value)
        self._by_rejections = OrderedSubQueue(lambda queued: queued.rejections_since_event)

    def add(self, queued: QueuedPod) -> None:
        self._by_order.add(queued)
        if self._by_rejections.get(queued.key) is not queued:  # another version keeps its place
            self._by_rejections.add(queued)

    def pop(self) -> QueuedPod | None:
        queue, other = self._by_order, self._by_rejections
        is_reserved = self._credit + self._earned >= self._price
        if is_reserved:
            queue, other = other, queue
        queued = queue.pop()
        if queued is not None:
            self._credit += self._earned - (self._price if is_reserved else 0)
            other.remove(queued.key)
        return queued

    def remove(self, key: str) -> QueuedPod | None:
        self._by_rejections.remove(key)
        return self._by_order.remove(key)

    def get(self, key: str) -> QueuedPod | None:
        return self._by_order.get(key)

    def lines(self) -> Sequence[OrderedSubQueue]:
        """All pods in the order of the QueueSort plugin."""
        return self._by_order.lines()

    def __contains__(self, key: object) -> bool:
        return key in self._by_order

    def __len__(self) -> int:
        return len(self._by_order)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(self._by_order)
