"""The order of pods whose backoff ends in the same second: that of QueueSort, as in kube-scheduler.

KEP-5142 would compare their full expirations instead; see docs/adr/0018-code-before-keps.md.
"""

from __future__ import annotations

import pytest

from kuberth.plugins.priority_sort.plugin import PrioritySort
from tests.unit.queue.harness import NODE_ADD, QueueHarness, on


@pytest.mark.parametrize(
    ("queued_at", "failures", "priorities", "order"),
    [
        pytest.param((0.10, 1.05), (2, 1), (0, 0), ["a", "b"], id="2.05-after-2.10-if-queued-later"),
        pytest.param((1.10, 0.05), (1, 2), (0, 0), ["b", "a"], id="2.05-before-2.10-if-queued-earlier"),
        pytest.param((0.10, 1.05), (2, 1), (0, 1), ["b", "a"], id="priority-first"),
        pytest.param((0.95, 0.05), (1, 2), (0, 9), ["a", "b"], id="1.95-before-2.05-whatever-the-priority"),
    ],
)
def test_pods_of_one_second(
    queued_at: tuple[float, float], failures: tuple[int, int], priorities: tuple[int, int], order: list[str]
) -> None:
    harness = QueueHarness(hints=on("A", NODE_ADD), sort=PrioritySort())
    pods = zip("ab", queued_at, failures, priorities, strict=True)
    now = 0.0
    for name, at, number, priority in sorted(pods, key=lambda pod: pod[1]):
        harness.clock.advance(at - now)
        now = at
        harness.add(name, priority=priority)
        queued = harness.pop(name)
        queued.unschedulable_count = number - 1
        harness.reject(queued, "A")
    harness.queue.move(NODE_ADD, None, None)
    assert harness.queues == {"a": "backoff", "b": "backoff"}
    assert harness.pop_names() == order
