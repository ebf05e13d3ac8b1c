"""Ready pods in the order of their creation."""

from __future__ import annotations

import datetime

import msgspec
import pytest

from kuberth.cluster.pod_info import PodInfo
from kuberth.testing import QUEUE_CONTRACT, QueueRule, make_pod, make_queue_context
from kuberth_plugins.strict_fifo import StrictFifoQueue


@pytest.mark.parametrize("rule", QUEUE_CONTRACT, ids=str)
def test_the_contract(rule: QueueRule) -> None:
    rule(StrictFifoQueue)


def test_neither_priority_nor_arrival_changes_the_order() -> None:
    queue = StrictFifoQueue(make_queue_context())
    for name, second, priority in (("late", 3, 100), ("early", 1, 0), ("middle", 2, 50)):
        pod = make_pod(name, priority=priority)
        created = datetime.datetime(2026, 1, 1, second=second, tzinfo=datetime.UTC)
        metadata = msgspec.structs.replace(pod.metadata, creation_timestamp=created)
        queue.add(PodInfo(msgspec.structs.replace(pod, metadata=metadata)))
    popped = [queue.pop_nowait() for _ in range(3)]
    assert [queued.pod.metadata.name for queued in popped if queued] == ["early", "middle", "late"]
