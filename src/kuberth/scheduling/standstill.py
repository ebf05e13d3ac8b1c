"""Notices that a pod is tried again and again while no time passes, which only happens on virtual time.

In: every pod that is tried, and the time. Out: a `KuberthError` with the names of the pod and of the plugins
that reject it: otherwise, a test or a simulation would not end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kuberth.errors import KuberthError
from kuberth.framework.queued_pod import QueuedPod

MOST_ATTEMPTS: Final = 1000
"""The maximum number of attempts of one pod at the same moment."""


class StandstillCheck:
    """Counts the attempts of each pod at the same moment."""

    def __init__(self, time: Callable[[], float]) -> None:
        """`time`: the event loop's clock."""
        self._time = time
        self._moment = -1.0
        self._attempts: dict[str, int] = {}
        """By UID: the number of attempts that the pod had at its first one of this moment."""

    def note(self, queued: QueuedPod) -> None:
        """Note an attempt; raises KuberthError if there are too many."""
        if (moment := self._time()) != self._moment:
            self._moment = moment
            self._attempts.clear()
        number = queued.attempts - self._attempts.setdefault(queued.uid, queued.attempts)
        if number >= MOST_ATTEMPTS:
            by = f"; {', '.join(sorted(queued.rejectors))} rejected it" if queued.rejectors else ""
            raise KuberthError(
                f"pod {queued.key} was tried {MOST_ATTEMPTS:,} times while virtual time stood at "
                f"{moment:g} s{by}. Hold pods longer on Permit, or state the plugin's events "
                "(EnqueueExtensions), so that not every event brings its pods back"
            )
