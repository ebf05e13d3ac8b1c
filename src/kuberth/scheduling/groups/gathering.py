"""Gathers the pods of a group from the queue when one of them is popped.

In: a popped pod of a group. Out: this pod and the other queued pods of the group that are not gated, in the
order in which they are tried. If the queue only returns pods in its own order, pods are popped until the
group's pods have come; other pods popped on the way are held and tried next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from kuberth.cluster.pod_info import PodInfo
from kuberth.framework.queued_pod import QueuedPod
from kuberth.queue.interface import SchedulingQueue

MAX_HELD: Final = 10_000
"""How many pods are popped at most while looking for a group's pods."""


class Gathering:
    """Takes the pods of a group from one queue."""

    def __init__(self, queue: SchedulingQueue) -> None:
        self._queue = queue
        self._held: deque[QueuedPod] = deque()

    def next_held(self) -> QueuedPod | None:
        """The next held pod, which goes before those in the queue."""
        return self._held.popleft() if self._held else None

    def gather(self, popped: QueuedPod, fellows: Sequence[PodInfo]) -> list[QueuedPod]:
        """The pods of the group that can be tried now: by priority, then by the time they became ready."""
        if self._queue.gives_out_of_order:
            taken = (self._queue.take_nowait(info.pod) for info in fellows)
            found = [popped, *(queued for queued in taken if queued is not None)]
        else:
            found = [popped, *self._pop_until({info.uid: info for info in fellows})]
        found.sort(key=_order)
        return found

    def _pop_until(self, wanted: dict[str, PodInfo]) -> Iterable[QueuedPod]:
        """Pop pods until all wanted ones have come, or the queue is empty."""
        found = [queued for queued in self._held if queued.uid in wanted]
        self._held = deque(queued for queued in self._held if queued.uid not in wanted)
        for queued in found:
            del wanted[queued.uid]
        if wanted:
            self._queue.activate({info.key: info.pod for info in wanted.values()})
        while wanted and len(self._held) < MAX_HELD:
            popped = self._queue.pop_nowait()
            if popped is None:
                break
            if wanted.pop(popped.uid, None) is None:
                self._held.append(popped)
            else:
                found.append(popped)
        return found


def _order(queued: QueuedPod) -> tuple[int, int]:
    return -queued.info.priority, queued.first_attempt_ns or 0
