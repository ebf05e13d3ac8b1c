"""Queues where pods wait for their turn.

On a pod's way this is where it enters: pending pods and cluster events come in, the next pod to try
goes out. `SchedulingQueue` is the interface (KEP-2779), `PriorityQueue` the default, built on public
parts only, and `fair_share` and `reserved_share` are others that show how to write one.

    active          ready, in the order of the QueueSort plugin
    backoff         waits out a delay after a rejection; popped early when active is empty (KEP-5142)
    error backoff   waits out a delay after an error; never popped early
    unschedulable   waits for an event that a rejecting plugin hints at (KEP-4247)
    gated           part of unschedulable: held back by a PreEnqueue plugin (KEP-3521)
    in flight       in a scheduling or binding cycle; the events it misses are kept for it
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
