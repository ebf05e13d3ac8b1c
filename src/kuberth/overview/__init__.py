"""Live state of a scheduler for the page and `kuberth top`: nodes, pending pods, throughput, pod histories.

Above the scheduler. In: the cluster table, and calls of the queue and of both cycles. Out: a stream of
server-sent events with deltas for every subscriber, and answers about one pod or one node. Without a
subscriber nothing is recorded or sent.
"""

from kuberth.overview.overview import Overview
from kuberth.overview.pages import PAGE_PATH, STREAM_PATH, overview_pages

__all__ = ["PAGE_PATH", "STREAM_PATH", "Overview", "overview_pages"]
