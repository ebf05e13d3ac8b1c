"""In-flight pods, and the events that happen while they are being scheduled (KEP-4247).

In: popped pods, and events. Out: for a requeued pod, the events since it was popped. An event is dropped once
no in-flight pod was popped before it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Final, NamedTuple

from kuberth.api.core import Pod
from kuberth.framework.cluster_events import ClusterEvent

_NONE: Final[Mapping[str, int]] = {}


class MissedEvent(NamedTuple):
    """An event with the objects that hints receive."""

    event: ClusterEvent
    old: object
    new: object


class InFlight:
    """Numbers popped pods and events in one sequence, so that each pod's missed events are known."""

    def __init__(self) -> None:
        self._numbers = count()
        self._pods: dict[str, tuple[int, Pod]] = {}
        self._events: deque[tuple[int, MissedEvent]] = deque()

    def start(self, pod: Pod) -> bool:
        """Record that the pod is popped. False if it is in flight already, which is a caller's mistake."""
        if pod.metadata.uid in self._pods:
            return False
        self._pods[pod.metadata.uid] = (next(self._numbers), pod)
        return True

    def record(self, event: ClusterEvent, old: object, new: object) -> bool:
        """Record an event if any pod is in flight; return whether one is."""
        if self._pods:
            self._events.append((next(self._numbers), MissedEvent(event, old, new)))
        return bool(self._pods)

    def missed_by(self, uid: str) -> Sequence[MissedEvent] | None:
        """The events since the pod was popped, the oldest first; None if it is not in flight."""
        popped = self._pods.get(uid)
        if popped is None:
            return None
        missed: list[MissedEvent] = []
        for number, event in reversed(self._events):
            if number < popped[0]:
                break
            missed.append(event)
        missed.reverse()
        return missed

    def finish(self, uid: str) -> Mapping[str, int]:
        """Record that the pod is not in flight any more. Return how many events of each label are dropped."""
        if self._pods.pop(uid, None) is None or not self._events:
            return _NONE
        # Pods are in the order in which they were popped, so the first one was popped first.
        oldest = next(iter(self._pods.values()), None)
        released: Counter[str] = Counter()
        while self._events and (oldest is None or self._events[0][0] < oldest[0]):
            released[self._events.popleft()[1].event.label] += 1
        return released

    def pods(self) -> Iterator[Pod]:
        return (pod for _number, pod in self._pods.values())

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def __len__(self) -> int:
        return len(self._pods)
