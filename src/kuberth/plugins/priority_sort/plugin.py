"""PrioritySort: higher priority first, then the pod that has waited longer."""

from __future__ import annotations

from kuberth.framework.extension_points import QueueSortPlugin
from kuberth.framework.queued_pod import QueuedPod


class PrioritySort(QueueSortPlugin):
    name = "PrioritySort"

    def sort_key(self, queued: QueuedPod) -> tuple[int, int]:
        return -queued.info.priority, queued.timestamp_ns
