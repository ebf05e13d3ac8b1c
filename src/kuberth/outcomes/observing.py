"""Observers of attempts.

In: the end of every attempt, from the binding cycle and the failure handler. Out: calls of an observer.
Without an observer, the cost is one check for None.
"""

from __future__ import annotations

from typing import Protocol

from kuberth.outcomes.placement import Placement
from kuberth.outcomes.rejection import Rejection


class OutcomeObserver(Protocol):
    """Receives the outcome of every attempt; it must return quickly."""

    def pod_held(self, placement: Placement) -> None:
        """The pod has a node and waits on Permit."""
        ...

    def pod_bound(self, placement: Placement, seconds: float) -> None:
        """The API accepted the binding; `seconds` is the time since the attempt began."""
        ...

    def pod_rejected(self, rejection: Rejection, seconds: float) -> None:
        """The attempt failed; `seconds` is its duration. The pod is not back in the queue yet."""
        ...
