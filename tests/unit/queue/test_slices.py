"""An event that concerns many pods is dealt with in slices; no pod is popped amid one, but between two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from kuberth.api.core import Pod
from kuberth.cluster.pod_info import PodInfo
from kuberth.framework.cluster_events import Hint
from kuberth.framework.inputs import signer
from kuberth.framework.profile import RegisteredHint
from kuberth.queue import slices
from kuberth.testing import make_node, make_pod
from tests.unit.queue.harness import NODE_ADD, QueueHarness

NODE = make_node("n")


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "WORK_AT_ONCE", 25)


class Waiting(QueueHarness):
    """Pods that Fit rejected, whose hint says Queue; Fit states that it reads labels, or states nothing."""

    def __init__(
        self, number: int, *, stated: bool = True, settings: Mapping[str, Any] | None = None, **pod: Any
    ) -> None:
        self.asked: Counter[str] = Counter()

        def hint(asked: Pod, _old: object, _new: object) -> Hint:
            self.asked[asked.metadata.name] += 1
            return Hint.SKIP if asked.metadata.labels.get("wanted") == "no" else Hint.QUEUE

        sign = signer(["metadata.labels"], plugin="Fit") if stated else None
        super().__init__(hints=[RegisteredHint("Fit", NODE_ADD, hint, sign=sign)], **(settings or {}))
        for index in range(number):
            self.fail(f"p{index}", "Fit", **pod)
        self.notified = 0
        self.queue.when_ready(self._notify)
        self.clock.advance(60)

    def _notify(self) -> None:
        self.notified += 1

    def next_slice(self) -> bool:
        """Whether there is more to do."""
        is_busy, queued = self.queue.pop_rejecting(lambda _queued: None, lambda *_: None, limit=1)
        if queued is not None:
            self.queue.done(queued.uid)
            self.queue.add(queued.info)
        return is_busy

    @property
    def sizes(self) -> Counter[str]:
        return Counter(self.queues.values())


def test_a_slice_is_followed_by_others() -> None:
    harness = Waiting(60)
    harness.queue.move(NODE_ADD, None, NODE)
    first = harness.sizes["active"]
    assert 0 < first < 60
    assert harness.notified > 0
    assert harness.next_slice()
    assert first < harness.sizes["active"] < 60
    while harness.next_slice():
        pass
    assert harness.sizes == {"active": 60}


def test_equal_pods_share_one_hint() -> None:
    harness = Waiting(60)
    harness.queue.move(NODE_ADD, None, NODE)
    assert len(harness.queue.pending_pods()) == 4
    harness.pop_names()
    assert sum(harness.asked.values()) <= 2  # one for the group, one for its first pod


def test_pods_of_a_plugin_without_a_statement_are_asked_one_by_one() -> None:
    harness = Waiting(60, stated=False)
    harness.queue.move(NODE_ADD, None, NODE)
    assert 0 < sum(harness.asked.values()) < 60
    assert sorted(harness.pop_names()) == sorted(f"p{index}" for index in range(60))
    assert set(harness.asked.values()) == {1}


def test_popping_waits_for_the_whole_event() -> None:
    """The most urgent pod may be in the last slice."""
    harness = Waiting(59)
    harness.fail("urgent", "Fit", priority=9)
    harness.clock.advance(60)
    harness.queue.move(NODE_ADD, None, NODE)
    assert harness.queues["urgent"] == "unschedulable"
    assert harness.pop_names()[0] == "urgent"


def test_a_pod_that_leaves_meanwhile_is_not_brought_back() -> None:
    harness = Waiting(60)
    harness.queue.move(NODE_ADD, None, NODE)
    left = next(name for name, queue in harness.queues.items() if queue == "unschedulable")
    harness.queue.delete(make_pod(left))
    assert left not in harness.pop_names()


def test_a_pod_that_is_made_again_before_its_hint_is_asked_stays_in_the_queue() -> None:
    harness = Waiting(60, stated=False)
    harness.queue.move(NODE_ADD, None, NODE)
    again = [name for name, queue in harness.queues.items() if queue == "unschedulable"]
    for name in again:
        harness.queue.delete(make_pod(name))
        harness.queue.add(PodInfo(make_pod(name, uid=f"{name}-again")))
    while harness.next_slice():
        pass
    uids = {queued.uid for pods in harness.queue.pending_pods().values() for queued in pods}
    assert {f"{name}-again" for name in again} <= uids


def test_a_pod_that_comes_meanwhile_has_seen_the_event() -> None:
    harness = Waiting(60)
    harness.add("late", priority=1)
    late = harness.pop("late")
    harness.queue.move(NODE_ADD, None, NODE)
    harness.queue.delete(make_pod("p59"))
    harness.queue.done(late.uid)
    harness.queue.add(PodInfo(make_pod("later", labels={"wanted": "no"})))
    names = harness.pop_names()
    assert "later" in names
    assert len(names) == 60


def test_events_are_dealt_with_in_their_order() -> None:
    harness = Waiting(60)
    harness.queue.move(NODE_ADD, None, NODE)
    harness.queue.move(NODE_ADD, None, make_node("second"))
    assert len(harness.pop_names()) == 60
    assert harness.sizes == {}


def test_pods_are_tried_between_events() -> None:
    harness = Waiting(60, labels={"wanted": "no"})
    harness.queue.add(PodInfo(make_pod("ready")))
    for _ in range(500):
        harness.queue.move(NODE_ADD, None, NODE)
    popped, turns = None, 0
    while popped is None:
        _is_busy, popped = harness.queue.pop_rejecting(lambda _queued: None, lambda *_: None, limit=1)
        turns += 1
    assert turns < 10
    assert popped.key == "default/ready"


def test_the_end_of_many_backoffs_is_followed_by_others() -> None:
    harness = Waiting(60, settings={"pop_from_backoff": False}, priority=1)
    harness.fail("urgent", "Fit", priority=9)
    for _ in range(3):  # the backoff grows beyond the time that has passed
        harness.clock.advance(60)
        harness.queue.move(NODE_ADD, None, NODE)
        while (queued := harness.queue.pop_nowait()) is not None:
            harness.reject(queued, "Fit")
    harness.queue.move(NODE_ADD, None, NODE)
    while harness.next_slice():
        pass
    assert harness.sizes == {"backoff": 61}
    harness.clock.advance(60)
    harness.notified = 0
    harness.queue.tick()
    assert 0 < harness.sizes["active"] < 61
    assert harness.notified > 0
    assert harness.pop_names() == ["urgent", *(f"p{index}" for index in range(60))]


def test_no_pod_is_popped_amid_an_event() -> None:
    harness = Waiting(60, priority=10)
    harness.queue.add(PodInfo(make_pod("ready")))
    harness.queue.move(NODE_ADD, None, NODE)
    assert 0 < harness.sizes["active"] < 60
    while (popped := harness.queue.pop_rejecting(lambda _queued: None, lambda *_: None, limit=1)[1]) is None:
        pass
    assert harness.sizes == {"active": 60}
    assert popped.key != "default/ready", "a more urgent one was brought by the event"
