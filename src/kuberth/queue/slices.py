"""Does the work that events cause in slices, so that the event loop can do other work in between.

In: for every event, an iterator that moves pods and yields the amount of work done. Out: the same moves,
event by event, and one notification for all pods that become ready in a slice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Final, TypeVar

T = TypeVar("T")

WORK_AT_ONCE: Final = 1000
"""The work in one slice. Moving a pod counts as one,"""
WORK_OF_A_HINT: Final = 10
"""and calling a hint as ten."""
MOVED_AT_ONCE: Final = 10
"""The number of pods that are moved before their work is counted."""


class SlicedWork:
    """The events that are being handled, in the order in which they arrived."""

    def __init__(self) -> None:
        self.on_ready: Callable[[], None] = lambda: None
        """Called when pods are ready, or work is left."""
        self._events: deque[Iterator[int]] = deque()
        self._is_running = self._any_ready = False
        self._is_amid_event = False
        """Whether the first event has moved some pods but not all; no pod is popped meanwhile."""
        self._turns_due = 0
        """How many times pods are popped before more events are handled."""

    def __bool__(self) -> bool:
        """Whether any work is left."""
        return bool(self._events)

    def begin(self, event: Iterator[int]) -> None:
        """Handle an event after the earlier ones; if there are none, do its first slice now."""
        self._events.append(event)
        if len(self._events) == 1:
            self._run_slice()

    def take_turn(self) -> bool:
        """Do a slice, if it is not the turn of pods. False if pods can be popped."""
        if not self._events:
            self._turns_due = 0
            return False
        if self._is_amid_event or not self._turns_due:
            self._run_slice()
            self._turns_due += 1
            return True
        # Pods are tried even if events arrive faster than they can be handled.
        self._turns_due -= 1
        return False

    def finish(self) -> None:
        """Do all work that is left."""
        while self._events:
            self._run_slice()

    def notify_ready(self) -> None:
        """A pod is ready: call `on_ready`, now or at the end of the slice."""
        if self._is_running:
            self._any_ready = True
        else:
            self.on_ready()

    def _run_slice(self) -> None:
        left = WORK_AT_ONCE
        self._is_running, self._any_ready = True, False
        try:
            while self._events and left > 0:
                self._is_amid_event = True
                for work in self._events[0]:
                    left -= work
                    if left <= 0:
                        break
                else:
                    self._events.popleft()
                    self._is_amid_event = False
        finally:
            self._is_running = False
        if self._any_ready or self._events:
            self.on_ready()


def finished(steps: Generator[object, None, T]) -> T:
    """The result of a generator that is run to its end at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
