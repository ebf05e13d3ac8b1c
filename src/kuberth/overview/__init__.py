"""What is going on right now: nodes, queues, waiting pods, pace and stories, for people who look on.

Stands beside a scheduler and above all of it. In: what the cluster table, the queue and the ends of attempts
tell. Out: one stream of server-sent events with small deltas for each who looks on, and answers about one
pod or one node; the page and `kuberth top` read both. Nobody looks on: nothing is kept and nothing is told.
"""

from kuberth.overview.overview import Overview
from kuberth.overview.pages import PAGE_PATH, STREAM_PATH, overview_pages

__all__ = ["PAGE_PATH", "STREAM_PATH", "Overview", "overview_pages"]
