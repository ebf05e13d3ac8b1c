"""Who looks on as attempts end.

In: the end of every attempt, from the binding cycle and the failure handler. Out: nothing; whoever looks on
keeps what they want to know. While nobody does, it costs a look at an attribute that is None.
"""

from __future__ import annotations

from typing import Protocol

from kuberth.outcomes.placement import Placement
from kuberth.outcomes.rejection import Rejection


class OutcomeObserver(Protocol):
    """Is told how attempts end. It must be quick."""

    def pod_held(self, placement: Placement) -> None:
        """The pod has its node, and waits on Permit."""
        ...

    def pod_bound(self, placement: Placement, seconds: float) -> None:
        """The API has taken the binding, so long after the attempt began."""
        ...

    def pod_rejected(self, rejection: Rejection, seconds: float) -> None:
        """The attempt failed, so long after it began; the pod is not back in the queue yet."""
        ...
