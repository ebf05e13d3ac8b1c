"""A rejected pod with its reasons, passed from either cycle to the failure handler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kuberth.framework.diagnosis import Diagnosis, FitError
from kuberth.framework.queued_pod import QueuedPod
from kuberth.framework.runner import Runner
from kuberth.framework.status import Status

NO_NODES: Final = "no nodes available to schedule pods"
CLEAR_NOMINATION: Final = ""
"""Clears the pod's nomination, while None leaves it unchanged."""


@dataclass(slots=True)
class Rejection:
    """The result of an attempt that found no node."""

    queued: QueuedPod
    status: Status
    runner: Runner
    started: float
    nomination: str | None = CLEAR_NOMINATION
    """The node that PostFilter nominated; "" clears the nomination, None leaves it unchanged."""
    is_repeated: bool = False
    """Whether the pod was rejected like an equal pod, without calling plugins again."""


class PodGroupError(Exception):
    """The pod's group cannot be scheduled, whether or not the pod fits.

    Never raised: it is the cause of a `Status`, whose first reason it is.
    """

    def __init__(self) -> None:
        super().__init__("pod group is unschedulable")

    @classmethod
    def of(cls, status: Status) -> str:
        """The error if it is the cause of the status; otherwise ""."""
        return str(status.cause) if isinstance(status.cause, cls) else ""


def rejected_on(node_name: str, status: Status) -> Status:
    """Convert a rejection after the node was chosen to a rejection by that node; errors stay errors."""
    if not status.is_rejected:
        return status
    diagnosis = Diagnosis()
    diagnosis.set(node_name, status)
    error = FitError(diagnosis, 1)
    return Status(status.code, str(error), cause=error)
