"""Orders pods by importance: higher priority first, then the pod that has run for longer."""

from __future__ import annotations

import datetime
from typing import Final

from kuberth.cluster.pod_info import PodInfo

NOT_STARTED: Final = datetime.datetime.max.replace(tzinfo=datetime.UTC)
"""The start time of a pod that has not started: later than all others."""

Importance = tuple[int, datetime.datetime]


def start_time(info: PodInfo) -> datetime.datetime:
    return info.pod.status.start_time or NOT_STARTED


def importance(info: PodInfo) -> Importance:
    """A sort key: the most important pod comes first."""
    return -info.priority, start_time(info)
