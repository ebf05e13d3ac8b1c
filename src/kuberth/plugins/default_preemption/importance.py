"""Which of two pods matters more: the one of higher priority, then the one that has run for longer."""

from __future__ import annotations

import datetime
from typing import Final

from kuberth.cluster.pod_info import PodInfo

NOT_STARTED: Final = datetime.datetime.max.replace(tzinfo=datetime.UTC)
"""When a pod started that has not: later than every pod that has."""

Importance = tuple[int, datetime.datetime]


def start_time(info: PodInfo) -> datetime.datetime:
    return info.pod.status.start_time or NOT_STARTED


def importance(info: PodInfo) -> Importance:
    """A sort key: the most important pod comes first."""
    return -info.priority, start_time(info)
