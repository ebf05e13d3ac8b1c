"""A queue with an order: add, take the first, and take out anyone, each in logarithmic time.

In: queued pods and a value to sort them by. Out: the first one. Taking a pod out leaves a dead heap
entry behind, which is dropped when it comes up or when the dead outnumber the living.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, Final, Protocol

from kuberth.errors import reraise_interrupt
from kuberth.framework.extension_points import QueueSortPlugin
from kuberth.framework.queued_pod import QueuedPod

logger = logging.getLogger(__name__)

SortValue = Callable[[QueuedPod], Any]


class SubQueue(Protocol):
    """Pods that may be popped, in some order."""

    def add(self, queued: QueuedPod) -> None:
        """Add a pod, or sort it again if it is here already."""

    def pop(self) -> QueuedPod | None:
        """Take out the pod whose turn it is; None if there is none."""

    def remove(self, key: str) -> QueuedPod | None:
        """Take out the pod of this namespace/name, if it is here."""

    def get(self, key: str) -> QueuedPod | None:
        """The pod of this namespace/name, if it is here."""

    def lines(self) -> Sequence[OrderedSubQueue]:
        """All pods, in one line or several, each sorted by the value that the queue was made with."""

    def __contains__(self, key: object) -> bool: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[QueuedPod]: ...


SubQueueFactory = Callable[[SortValue], SubQueue]
"""Makes the queue of ready pods, and the one of rejected pods that may be popped early."""


class OrderedSubQueue:
    """Queued pods by namespace/name, the smallest sort value first, first come first served among equals."""

    def __init__(self, sort_value: SortValue) -> None:
        self._sort_value = sort_value
        self._numbers = count()
        self._heap: list[tuple[Any, int, QueuedPod]] = []
        self._pods: dict[str, tuple[int, QueuedPod]] = {}

    def add(self, queued: QueuedPod) -> None:
        """Add a pod, or sort it again if it is here already."""
        number = next(self._numbers)
        self._pods[queued.key] = (number, queued)
        heapq.heappush(self._heap, (self._sort_value(queued), number, queued))
        if len(self._heap) > 2 * len(self._pods) + 64:
            self._heap = [entry for entry in self._heap if self._is_current(entry)]
            heapq.heapify(self._heap)

    def peek(self) -> QueuedPod | None:
        """The first pod; None if there is none."""
        while self._heap and not self._is_current(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][2] if self._heap else None

    def first_value(self) -> Any:
        """The sort value of the first pod; the queue must not be empty."""
        self.peek()
        return self._heap[0][0]

    def pop(self) -> QueuedPod | None:
        """Take out the first pod; None if there is none."""
        first = self.peek()
        if first is not None:
            heapq.heappop(self._heap)
            del self._pods[first.key]
        return first

    def remove(self, key: str) -> QueuedPod | None:
        """Take out the pod of this namespace/name, if it is here."""
        found = self._pods.pop(key, None)
        return None if found is None else found[1]

    def get(self, key: str) -> QueuedPod | None:
        """The pod of this namespace/name, if it is here."""
        found = self._pods.get(key)
        return None if found is None else found[1]

    def lines(self) -> Sequence[OrderedSubQueue]:
        """This queue: it is one line."""
        return (self,)

    def __contains__(self, key: object) -> bool:
        return key in self._pods

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return (queued for _number, queued in self._pods.values())

    def _is_current(self, entry: tuple[Any, int, QueuedPod]) -> bool:
        current = self._pods.get(entry[2].key)
        return current is not None and current[0] == entry[1]


def sort_value_of(plugin: QueueSortPlugin) -> SortValue:
    """The plugin's own sort key; where it has none, for all pods or for some, its `less` as a comparison."""
    numbers = count()
    if type(plugin).sort_key is QueueSortPlugin.sort_key:
        return lambda queued: _ByLess(plugin, queued, next(numbers))

    def sort_value(queued: QueuedPod) -> Any:
        try:
            key = plugin.sort_key(queued)
        except BaseException as exc:
            reraise_interrupt(exc)
            logger.exception("plugin %r failed at QueueSort; %s goes last", plugin.name, queued.key)
            key = _LAST
        if key is None:
            return _NO_KEY, _ByLess(plugin, queued, next(numbers))
        return key, _ByKey(plugin, queued, next(numbers))

    return sort_value


class _NoKey:
    """Equal to every key, so that what stands behind it in the tuple decides."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]  # what equals everything has no hash


_NO_KEY: Final = _NoKey()


class _Last:
    """Sorts behind everything."""

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return True


_LAST: Final = _Last()


class _ByLess:
    """Compares by the plugin's `less`, and equals by arrival; a plugin that raises gets arrival order, and
    no pod is lost. Keeps the pod as it is now: a heap stays in order only if its entries never change."""

    __slots__ = ("_number", "_plugin", "_queued")

    def __init__(self, plugin: QueueSortPlugin, queued: QueuedPod, number: int) -> None:
        self._plugin = plugin
        self._queued = queued.__copy__()
        self._number = number

    def __lt__(self, other: _ByLess) -> bool:
        if type(self) is _ByKey is type(other):
            return self._number < other._number  # their keys are equal, so neither is less
        less, first, second = self._plugin.less, self._queued, other._queued
        try:
            return bool(less(first, second)) or (self._number < other._number and not less(second, first))
        except BaseException as exc:
            reraise_interrupt(exc)
            logger.exception(
                "plugin %r failed at QueueSort; ordering %s and %s by arrival",
                self._plugin.name,
                first.key,
                second.key,
            )
            return (first.timestamp_ns, self._number) < (second.timestamp_ns, other._number)


class _ByKey(_ByLess):
    """Beside a sort key. Only a pod without a key makes this compare by `less`."""

    __slots__ = ()
