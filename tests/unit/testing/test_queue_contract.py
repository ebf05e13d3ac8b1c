"""Our own queues keep the contract, and a queue that breaks a rule is caught by that rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kuberth.api.core import Pod
from kuberth.queue import FairShareQueue, PriorityQueue, QueueContext, fair_share
from kuberth.queue.interface import QueueFactory
from kuberth.testing import QUEUE_CONTRACT, QueueRule, make_queue_context, queue_contract
from tests.unit.queue.fifo import Fifo

QUEUES = {
    "PriorityQueue": PriorityQueue,
    "FairShareQueue": FairShareQueue,
    "fair_share": fair_share(tenant_label="team"),
    "Fifo": Fifo,
}


@pytest.mark.parametrize("rule", QUEUE_CONTRACT, ids=str)
@pytest.mark.parametrize("queue", QUEUES.values(), ids=QUEUES)
def test_our_queues(queue: QueueFactory, rule: QueueRule) -> None:
    rule(queue)


def test_all_rules_at_once() -> None:
    queue_contract(PriorityQueue)


class Broken(PriorityQueue):
    """A base for queues that break a rule."""


class Forgetful(Broken):
    def done(self, uid: str) -> None:
        pass


class Twice(Broken):
    def pop_nowait(self) -> Any:
        queued = super().pop_nowait()
        if queued is not None:
            self._active.add(queued)
        return queued


class Deaf(Broken):
    def move(self, *_args: Any, **_more: Any) -> None:
        pass


class Immortal(Broken):
    def delete(self, pod: Pod) -> None:
        pass


class Silent(Broken):
    def when_ready(self, notify: Callable[[], None]) -> None:
        pass


class Mute(Broken):
    def tick(self) -> float:
        return float("inf")


class Losing(Broken):
    def take_over(self, other: Any) -> None:
        pass


@pytest.mark.parametrize(
    "queue, rule",
    [
        (Forgetful, "done ends the flight"),
        (Twice, "a new pod is popped once"),
        (Deaf, "an event brings a rejected pod back"),
        (Immortal, "a deleted pod is gone"),
        (Silent, "it notifies when a pod is ready"),
        (Mute, "no rejected pod waits for ever"),
        (Losing, "a queue takes over every waiting pod"),
        (lambda _context: 5, "the factory returned 5"),
    ],
)
def test_a_queue_that_breaks_a_rule_is_caught(queue: Any, rule: str) -> None:
    with pytest.raises(AssertionError):
        queue_contract(queue)
    broken = []
    for each in QUEUE_CONTRACT:
        try:
            each(queue)
        except AssertionError as exc:
            broken.append(str(exc))
    assert any(rule in message for message in broken), broken


def test_settings_of_a_context() -> None:
    context: QueueContext = make_queue_context(max_backoff_seconds=3.0)
    assert (context.max_backoff_seconds, context.initial_backoff_seconds) == (3.0, 1.0)
