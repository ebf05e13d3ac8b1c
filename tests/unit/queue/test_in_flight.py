from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kuberth.framework.cluster_events import ClusterEvent
from kuberth.queue.in_flight import InFlight
from kuberth.testing import make_pod
from tests.unit.queue.harness import NODE_ADD, NODE_TAINT

PODS = {name: make_pod(name, uid=name) for name in "abcd"}


class InFlightMachine(RuleBasedStateMachine):
    """Beside one list of everything that ever happened."""

    def __init__(self) -> None:
        super().__init__()
        self.in_flight = InFlight()
        self.history: list[int] = []
        self.started: dict[str, int] = {}
        self.let_go: Counter[str] = Counter()
        self.noted: Counter[str] = Counter()

    @rule(uid=st.sampled_from("abcd"))
    def start(self, uid: str) -> None:
        assert self.in_flight.start(PODS[uid]) is (uid not in self.started)
        self.started.setdefault(uid, len(self.history))

    @rule(event=st.sampled_from([NODE_ADD, NODE_TAINT]))
    def note(self, event: ClusterEvent) -> None:
        number = len(self.history)
        kept = self.in_flight.record(event, None, number)
        assert kept is bool(self.started)
        if kept:
            self.noted[event.label] += 1
        self.history.append(number)

    @rule(uid=st.sampled_from("abcd"))
    def finish(self, uid: str) -> None:
        self.started.pop(uid, None)
        self.let_go += self.in_flight.finish(uid)

    @invariant()
    def everyone_missed_what_happened_since(self) -> None:
        assert [pod.metadata.uid for pod in self.in_flight.pods()] == list(self.started)
        assert len(self.in_flight) == len(self.started)
        for uid in "abcd":
            missed = self.in_flight.missed_by(uid)
            assert (uid in self.in_flight) == (uid in self.started)
            if uid in self.started:
                assert missed is not None
                assert [event.new for event in missed] == self.history[self.started[uid] :]
            else:
                assert missed is None

    @invariant()
    def only_events_someone_missed_are_kept(self) -> None:
        oldest = min(self.started.values(), default=len(self.history))
        assert (self.noted - self.let_go).total() == len(self.history) - oldest


TestInFlight = InFlightMachine.TestCase
TestInFlight.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


def test_released_events_are_counted_by_label() -> None:
    in_flight = InFlight()
    in_flight.start(PODS["a"])
    in_flight.record(NODE_ADD, None, 1)
    in_flight.start(PODS["b"])
    in_flight.record(NODE_TAINT, None, 2)
    in_flight.record(NODE_TAINT, None, 3)
    assert in_flight.finish("a") == Counter({NODE_ADD.label: 1})
    assert in_flight.finish("a") == Counter()
    assert in_flight.finish("b") == Counter({NODE_TAINT.label: 2})
