"""Observers of a whole scheduler; a failing observer is dropped without other effects.

In: moves of pods and ends of attempts. Out: the same to the observer, until it raises.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

from kuberth.framework.queued_pod import QueuedPod
from kuberth.outcomes.observing import OutcomeObserver
from kuberth.outcomes.placement import Placement
from kuberth.outcomes.rejection import Rejection
from kuberth.queue.observing import MoveCause, QueueObserver

logger = logging.getLogger(__name__)


class SchedulerObserver(QueueObserver, OutcomeObserver, Protocol):
    """Receives every move of a pod and the end of every attempt."""


class ShelteredObserver:
    """Implements `SchedulerObserver`; an observer that raises is dropped."""

    def __init__(self, observer: SchedulerObserver, *, drop: Callable[[], None]) -> None:
        self._observer = observer
        self._drop = drop

    def pod_moved(self, queued: QueuedPod, queue: str, cause: MoveCause) -> None:
        self._notify(self._observer.pod_moved, queued, queue, cause)

    def pod_popped(self, queued: QueuedPod) -> None:
        self._notify(self._observer.pod_popped, queued)

    def pod_done(self, uid: str) -> None:
        self._notify(self._observer.pod_done, uid)

    def pod_deleted(self, uid: str) -> None:
        self._notify(self._observer.pod_deleted, uid)

    def pod_held(self, placement: Placement) -> None:
        self._notify(self._observer.pod_held, placement)

    def pod_bound(self, placement: Placement, seconds: float) -> None:
        self._notify(self._observer.pod_bound, placement, seconds)

    def pod_rejected(self, rejection: Rejection, seconds: float) -> None:
        self._notify(self._observer.pod_rejected, rejection, seconds)

    def _notify(self, method: Callable[..., None], *args: Any) -> None:
        try:
            method(*args)
        except Exception:
            logger.exception("observer %r failed and was dropped", self._observer)
            self._drop()
