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
"""A nomination that clears the pod's; None leaves it unchanged."""


@dataclass(slots=True)
class Rejection:
    """The pod has no node."""

    queued: QueuedPod
    status: Status
    runner: Runner
    started: float
    nomination: str | None = CLEAR_NOMINATION
    """The node PostFilter nominated, "" to clear, None to leave it unchanged."""
    is_repeated: bool = False
    """Whether an equal pod was rejected in the same way before, and no plugin was asked again."""


class PodGroupError(Exception):
    """The pod's group cannot be scheduled, whatever is true of the pod. Raised nowhere: it travels as the
    cause of a `Status`, whose first reason it is."""

    def __init__(self) -> None:
        super().__init__("pod group is unschedulable")

    @classmethod
    def of(cls, status: Status) -> str:
        """The error of a status, if it is this one; otherwise ""."""
        return str(status.cause) if isinstance(status.cause, cls) else ""


def rejected_on(node_name: str, status: Status) -> Status:
    """A rejection after the node was chosen, as a rejection by that one node; errors stay errors."""
    if not status.is_rejected:
        return status
    diagnosis = Diagnosis()
    diagnosis.set(node_name, status)
    error = FitError(diagnosis, 1)
    return Status(status.code, str(error), cause=error)
