"""Sorted queues of pods: add, pop the first, and remove any pod, each in logarithmic time.

In: queued pods and a value to sort them by. Out: the first one. A removed pod leaves a dead entry, which is
dropped when it becomes the first, or when dead entries outnumber the others.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from operator import itemgetter
from typing import Any, Final, Protocol

from kuberth.errors import reraise_interrupt
from kuberth.framework.extension_points import QueueSortPlugin
from kuberth.framework.queued_pod import QueuedPod

logger = logging.getLogger(__name__)

SortValue = Callable[[QueuedPod], Any]


class SubQueue(Protocol):
    """Pods that may be popped, in the queue's own order."""

    def add(self, queued: QueuedPod) -> None:
        """Add a pod, or sort it again if it is here already."""

    def pop(self) -> QueuedPod | None:
        """Remove and return the first pod; None if there is none."""

    def remove(self, key: str) -> QueuedPod | None:
        """Remove and return the pod with this namespace/name; None if it is not here."""

    def get(self, key: str) -> QueuedPod | None:
        """The pod with this namespace/name; None if it is not here."""

    def lines(self) -> Sequence[OrderedSubQueue]:
        """All pods, in one or several lines, each sorted by the value that was passed to the factory."""

    def __contains__(self, key: object) -> bool: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[QueuedPod]: ...


SubQueueFactory = Callable[[SortValue], SubQueue]
"""Creates activeQ, and the part of backoffQ from which pods may be popped early."""


_Entry = tuple[Any, int, QueuedPod, str]
"""Sort value, a unique number, the pod and its namespace/name."""
MERGED_FROM: Final = 64
"""Up to this number, added pods stay in a heap beside the sorted line."""


class OrderedSubQueue:
    """Pods sorted by their value, the smallest first; among equal values, in the order of arrival."""

    def __init__(self, sort_value: SortValue) -> None:
        self._sort_value = sort_value
        self._numbers = count()
        self._line: list[_Entry] = []
        """Sorted; the first pod is the last element."""
        self._added: list[_Entry] = []
        """A heap of pods that were added since. Many added pods are merged into the line with one sort."""
        self._pods: dict[str, _Entry] = {}

    def add(self, queued: QueuedPod) -> None:
        """Add a pod, or sort it again if it is here already."""
        key = queued.info.key
        entry = self._pods[key] = (self._sort_value(queued), next(self._numbers), queued, key)
        heapq.heappush(self._added, entry)
        if len(self._added) + len(self._line) > 2 * len(self._pods) + 64:
            self._line = [entry for entry in self._line if self._pods.get(entry[3]) is entry]
            self._added = [entry for entry in self._added if self._pods.get(entry[3]) is entry]
            heapq.heapify(self._added)

    def _first(self) -> _Entry | None:
        line, added, pods = self._line, self._added, self._pods
        if not pods:
            line.clear()
            added.clear()
            return None
        if len(added) > MERGED_FROM and 4 * len(added) > len(line):
            self._merge()
            line, added = self._line, self._added
        while line and pods.get(line[-1][3]) is not line[-1]:
            line.pop()
        while added and pods.get(added[0][3]) is not added[0]:
            heapq.heappop(added)
        if not line or (added and added[0] < line[-1]):
            return added[0] if added else None
        return line[-1]

    def _merge(self) -> None:
        self._line += self._added
        self._added = []
        try:
            self._line.sort(reverse=True)
        except BaseException as exc:
            reraise_interrupt(exc)
            logger.exception("the sort keys of pods cannot be compared; ordering them by arrival")
            self._line.sort(key=itemgetter(1), reverse=True)

    def peek(self) -> QueuedPod | None:
        """The first pod; None if there is none."""
        first = self._first()
        return None if first is None else first[2]

    def first_value(self) -> Any:
        """The sort value of the first pod; the queue must not be empty."""
        first = self._first()
        assert first is not None
        return first[0]

    def pop(self) -> QueuedPod | None:
        """Remove and return the first pod; None if there is none."""
        first = self._first()
        if first is None:
            return None
        del self._pods[first[3]]
        if self._line and self._line[-1] is first:
            self._line.pop()
        else:
            heapq.heappop(self._added)
        return first[2]

    def remove(self, key: str) -> QueuedPod | None:
        """Remove and return the pod with this namespace/name; None if it is not here."""
        found = self._pods.pop(key, None)
        return None if found is None else found[2]

    def get(self, key: str) -> QueuedPod | None:
        """The pod with this namespace/name; None if it is not here."""
        found = self._pods.get(key)
        return None if found is None else found[2]

    def lines(self) -> Sequence[OrderedSubQueue]:
        """This queue itself, which is one line."""
        return (self,)

    def __contains__(self, key: object) -> bool:
        return key in self._pods

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return (entry[2] for entry in self._pods.values())


def sort_value_of(plugin: QueueSortPlugin) -> SortValue:
    """Returns the plugin's `sort_key`; for pods, or plugins, without one, a value that compares by `less`."""
    numbers = count()
    if type(plugin).sort_key is QueueSortPlugin.sort_key:
        return lambda queued: _ByLess(plugin, queued, next(numbers))
    has_less = type(plugin).less is not QueueSortPlugin.less

    def sort_value(queued: QueuedPod) -> Any:
        try:
            key = plugin.sort_key(queued)
            if key is None and not has_less:
                raise TypeError("sort_key returned None, and there is no `less` to compare by")
        except BaseException as exc:
            reraise_interrupt(exc)
            logger.exception("plugin %r failed at QueueSort; %s goes last", plugin.name, queued.key)
            key = _LAST
        if not has_less:
            return key
        if key is None:
            return _NO_KEY, _ByLess(plugin, queued, next(numbers))
        return key, _ByKey(plugin, queued, next(numbers))

    return sort_value


class _NoKey:
    """Equal to every key, so that the next element of the tuple decides."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]  # it equals everything, so it cannot have a hash


_NO_KEY: Final = _NoKey()


class _Last:
    """Sorts after all other keys."""

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return True


_LAST: Final = _Last()


class _ByLess:
    """Compares pods by the plugin's `less`, and equal pods by arrival; also by arrival if the plugin raises.

    It holds a copy of the pod, since the entries of a heap must not change.
    """

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
    """The second element after a sort key; it only compares by `less` with pods that have no key."""

    __slots__ = ()
