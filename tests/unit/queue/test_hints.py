from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from kuberth.api.core import Pod
from kuberth.cluster.pod_info import PodInfo
from kuberth.framework import cluster_events
from kuberth.framework.cluster_events import Action, ClusterEvent, Hint, HintFunction, Resource
from kuberth.framework.profile import RegisteredHint
from kuberth.framework.queued_pod import QueuedPod
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.queue.hints import Hints, QueueingStrategy
from kuberth.testing import make_node, make_pod
from tests.unit.queue.harness import NODE_ADD, NODE_LABEL, NODE_TAINT, SCHEDULER, always, failing, on

QUEUE, SKIP = always(Hint.QUEUE), always(Hint.SKIP)


def nonsense(_pod: Pod, _old: object, _new: object) -> Hint:
    return "Queue"  # type: ignore[return-value]  # what an author may get wrong


def rejected(*plugins: str, pending: Sequence[str] = (), scheduler: str = SCHEDULER) -> QueuedPod:
    queued = QueuedPod(PodInfo(make_pod("p", uid="p", scheduler=scheduler)), timestamp_ns=0)
    queued.unschedulable_plugins = set(plugins)
    queued.pending_plugins = set(pending)
    return queued


def hints(*registered: RegisteredHint) -> Hints:
    return Hints({SCHEDULER: registered}, SchedulerMetrics())


@pytest.mark.parametrize(
    ("a", "b", "plugins", "pending", "worth"),
    [
        pytest.param(QUEUE, SKIP, "A", "", QueueingStrategy.AFTER_BACKOFF, id="rejector-queues"),
        pytest.param(SKIP, QUEUE, "A", "", QueueingStrategy.SKIP, id="only-rejectors-are-asked"),
        pytest.param(None, SKIP, "A", "", QueueingStrategy.AFTER_BACKOFF, id="no-hint-queues"),
        pytest.param(failing, SKIP, "A", "", QueueingStrategy.AFTER_BACKOFF, id="failing-hint-queues"),
        pytest.param(nonsense, SKIP, "A", "", QueueingStrategy.AFTER_BACKOFF, id="nonsense-queues"),
        pytest.param(SKIP, QUEUE, "AB", "", QueueingStrategy.AFTER_BACKOFF, id="one-of-two-is-enough"),
        pytest.param(SKIP, SKIP, "AB", "", QueueingStrategy.SKIP, id="all-skip"),
        pytest.param(QUEUE, SKIP, "", "A", QueueingStrategy.IMMEDIATELY, id="pending-skips-backoff"),
        pytest.param(
            QUEUE, QUEUE, "A", "B", QueueingStrategy.IMMEDIATELY, id="pending-wins-though-asked-later"
        ),
        pytest.param(QUEUE, SKIP, "A", "B", QueueingStrategy.AFTER_BACKOFF, id="pending-skips-itself"),
        pytest.param(QUEUE, SKIP, "A", "A", QueueingStrategy.IMMEDIATELY, id="both-rejecting-and-pending"),
        pytest.param(failing, SKIP, "", "A", QueueingStrategy.IMMEDIATELY, id="failing-hint-of-pending"),
        pytest.param(SKIP, SKIP, "", "", QueueingStrategy.AFTER_BACKOFF, id="after-an-error"),
        pytest.param(QUEUE, QUEUE, "C", "", QueueingStrategy.SKIP, id="rejector-without-registration"),
    ],
)
def test_strategy(
    a: HintFunction | None, b: HintFunction | None, plugins: str, pending: str, worth: QueueingStrategy
) -> None:
    judge = hints(*on("A", NODE_ADD, hint=a), *on("B", NODE_ADD, hint=b))
    assert judge.strategy_for(rejected(*plugins, pending=pending), NODE_ADD, None, make_node("n")) is worth


def test_a_hint_sees_the_pod_and_both_versions() -> None:
    seen: list[tuple[Pod, object, object]] = []

    def hint(pod: Pod, old: object, new: object) -> Hint:
        seen.append((pod, old, new))
        return Hint.SKIP

    queued = rejected("A")
    hints(*on("A", NODE_TAINT, hint=hint)).strategy_for(queued, NODE_TAINT, "old", "new")
    assert seen == [(queued.pod, "old", "new")]


@pytest.mark.parametrize(
    ("event", "interested"),
    [
        (NODE_ADD, True),
        (NODE_TAINT, False),
        (ClusterEvent(Resource.NODE, Action.UPDATE), False),
        (cluster_events.ASSIGNED_POD_ADD, True),
        (cluster_events.UNSCHEDULED_POD_UPDATE, True),
        (cluster_events.FORCED_ACTIVATION, True),
        (ClusterEvent(Resource.STORAGE_CLASS, Action.ADD), False),
    ],
    ids=lambda value: value.label if isinstance(value, ClusterEvent) else str(value),
)
def test_interest(event: ClusterEvent, interested: bool) -> None:
    of_one = hints(*on("A", NODE_ADD, ClusterEvent(Resource.POD, Action.ALL)))
    assert of_one.concerns_any_plugin(event) is interested


def test_plugins_concerned_are_those_of_all_profiles() -> None:
    both = Hints(
        {"one": [*on("A", NODE_ADD), *on("B", NODE_TAINT)], "two": on("C", NODE_ADD)}, SchedulerMetrics()
    )
    assert both.plugins_concerned(NODE_ADD) == {"A", "C"}
    assert both.plugins_concerned(NODE_TAINT) == {"B"}
    assert both.plugins_concerned(NODE_LABEL) == frozenset()
    assert (both.knows("one"), both.knows("three")) == (True, False)


def test_hints_are_those_of_the_pods_own_profile() -> None:
    both = Hints(
        {"one": on("A", NODE_ADD, hint=SKIP), "two": on("A", NODE_ADD, hint=QUEUE)}, SchedulerMetrics()
    )
    assert both.strategy_for(rejected("A", scheduler="one"), NODE_ADD, None, None) is QueueingStrategy.SKIP
    assert (
        both.strategy_for(rejected("A", scheduler="two"), NODE_ADD, None, None)
        is QueueingStrategy.AFTER_BACKOFF
    )


def test_a_pod_of_an_unknown_profile_is_not_left_behind(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        worth = hints(*on("A", NODE_ADD, hint=SKIP)).strategy_for(
            rejected("A", scheduler="stranger"), NODE_ADD, None, None
        )
    assert worth is QueueingStrategy.AFTER_BACKOFF
    assert "'stranger'" in caplog.text


@pytest.mark.parametrize(
    ("new", "worth"),
    [
        pytest.param(None, QueueingStrategy.AFTER_BACKOFF, id="for-all"),
        pytest.param(make_pod("p", uid="p"), QueueingStrategy.AFTER_BACKOFF, id="for-this-pod"),
        pytest.param(make_pod("q", uid="q"), QueueingStrategy.SKIP, id="for-another-pod"),
        pytest.param("something else", QueueingStrategy.SKIP, id="for-no-pod"),
    ],
)
def test_a_wildcard_asks_no_hint(new: object, worth: QueueingStrategy) -> None:
    judge = hints(*on("A", NODE_ADD, hint=failing))
    assert judge.strategy_for(rejected("A"), cluster_events.UNSCHEDULABLE_TIMEOUT, None, new) is worth


@pytest.mark.parametrize(
    ("hint", "label"),
    [(QUEUE, "Queue"), (SKIP, "QueueSkip"), (failing, "Error"), (nonsense, "Error"), (None, "Queue")],
    ids=["queue", "skip", "failing", "nonsense", "none"],
)
def test_every_answer_is_measured(hint: HintFunction | None, label: str) -> None:
    metrics = SchedulerMetrics()
    judge = Hints({SCHEDULER: on("A", NODE_ADD, hint=hint)}, metrics)
    judge.strategy_for(rejected("A"), NODE_ADD, None, None)
    values = metrics.queueing_hint_execution_duration.values
    assert {labels: value.count for labels, value in values.items()} == {("A", "NodeAdd", label): 1}
