"""Scheduling queues: the first step of a pod's way.

In: pending pods and cluster events. Out: the next pod to try. `SchedulingQueue` is the interface (KEP-2779).
`PriorityQueue` is the default implementation, built on public parts only; `fair_share` and `reserved_share`
are examples of others.

    active          ready, in the order of the QueueSort plugin
    backoff         waits for its backoff after a rejection; popped early if active is empty (KEP-5142)
    error backoff   waits for its backoff after an error; never popped early
    unschedulable   waits for an event for which a rejecting plugin's hint returns Queue (KEP-4247)
    gated           part of unschedulable: a PreEnqueue plugin gates the pod (KEP-3521)
    in flight       in a scheduling or binding cycle; events that happen meanwhile are recorded for the pod
"""

from kuberth.queue.backoff import Backoff
from kuberth.queue.fair_share import FairShareQueue, fair_share
from kuberth.queue.interface import PreCheck, PreEnqueue, QueueContext, QueueFactory, SchedulingQueue
from kuberth.queue.observing import MoveCause, QueueObserver
from kuberth.queue.priority_queue import PriorityQueue
from kuberth.queue.reserved_share import ReservedShareQueue
from kuberth.queue.sub_queues import OrderedSubQueue, SubQueue, SubQueueFactory, sort_value_of

__all__ = [
    "Backoff",
    "FairShareQueue",
    "MoveCause",
    "OrderedSubQueue",
    "PreCheck",
    "PreEnqueue",
    "PriorityQueue",
    "QueueContext",
    "QueueFactory",
    "QueueObserver",
    "ReservedShareQueue",
    "SchedulingQueue",
    "SubQueue",
    "SubQueueFactory",
    "fair_share",
    "sort_value_of",
]
