"""A queue in the order in which pods were created, whatever their priority and however often they were tried.

In: the same as the default queue. Out: ready pods, the oldest first. Use it as a queue (KEP-2779):

    kuberth run --queue kuberth_plugins.strict_fifo:StrictFifoQueue
"""

from __future__ import annotations

from typing import Any

from kuberth.framework import QueuedPod
from kuberth.queue import OrderedSubQueue, PriorityQueue, QueueContext


class StrictFifoQueue(PriorityQueue):
    """The default queue in order of creation. A pod that fits nowhere does not block others."""

    def __init__(self, context: QueueContext) -> None:
        super().__init__(context, sub_queue=lambda _sort_value: OrderedSubQueue(_age))


def _age(queued: QueuedPod) -> tuple[Any, ...]:
    created = queued.pod.metadata.creation_timestamp
    seconds = 0.0 if created is None else created.timestamp()
    first = queued.timestamp_ns if queued.first_attempt_ns is None else queued.first_attempt_ns
    return seconds, first, queued.key
