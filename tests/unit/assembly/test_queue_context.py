"""What the configuration, the gates and the flags say reaches the queue, and nothing else does."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kuberth.assembly.scheduler import Scheduler
from kuberth.config import FeatureGates, load
from kuberth.queue.interface import QueueContext
from kuberth.queue.priority_queue import PriorityQueue
from kuberth.testing import FakeClock, MemoryApi, make_pod
from kuberth.testing.harness import API_VERSION, profile


def context_of(*, settings: dict[str, Any] | None = None, **options: Any) -> QueueContext:
    seen: list[QueueContext] = []

    def factory(context: QueueContext) -> PriorityQueue:
        seen.append(context)
        return PriorityQueue(context)

    tree = {"apiVersion": API_VERSION, "kind": "KubeSchedulerConfiguration", **(settings or {})}
    gates = options.get("feature_gates")
    config = load(tree, feature_gates=gates.explicit if gates is not None else {})
    Scheduler(MemoryApi(), config=config, queue=factory, rng=random.Random(1), **options)
    (context,) = seen
    return context


def test_defaults() -> None:
    context = context_of()
    assert (context.initial_backoff_seconds, context.max_backoff_seconds) == (1.0, 10.0)
    assert context.max_unschedulable_seconds == 300.0
    assert (context.queueing_hints, context.pop_from_backoff) == (True, True)
    assert context.sort.name == "PrioritySort"
    assert set(context.hints) == set(context.pre_enqueue) == {"default-scheduler"}


def test_what_is_set() -> None:
    context = context_of(
        settings={"podInitialBackoffSeconds": 3, "podMaxBackoffSeconds": 7}, max_unschedulable_seconds=42.0
    )
    assert (context.initial_backoff_seconds, context.max_backoff_seconds) == (3.0, 7.0)
    assert context.max_unschedulable_seconds == 42.0


@pytest.mark.parametrize(
    ("gate", "hints", "early"),
    [("SchedulerQueueingHints", False, True), ("SchedulerPopFromBackoffQ", True, False)],
)
def test_gates(gate: str, *, hints: bool, early: bool) -> None:
    context = context_of(feature_gates=FeatureGates({gate: False}))
    assert (context.queueing_hints, context.pop_from_backoff) == (hints, early)
    asks = [registered.hint for registered in context.hints["default-scheduler"]]
    assert any(asks) is hints


def test_every_profile_has_its_own_gates_and_hints() -> None:
    profiles = [profile("SchedulingGates", name="gates"), profile("NodeName", name="names")]
    context = context_of(settings={"profiles": profiles})
    assert {name: {hint.plugin for hint in hints} for name, hints in context.hints.items()} == {
        "gates": {"SchedulingGates"},
        "names": {"NodeName"},
    }
    gated = make_pod("p", gates=["wait"])
    assert context.pre_enqueue["gates"](gated, "").plugin == "SchedulingGates"
    assert context.pre_enqueue["names"](gated, "").is_success


def test_its_parts_are_the_schedulers() -> None:
    seen: list[QueueContext] = []

    def factory(context: QueueContext) -> PriorityQueue:
        seen.append(context)
        return PriorityQueue(context)

    api, clock = MemoryApi(), FakeClock()
    scheduler = Scheduler(api, queue=factory, clock=clock)
    (context,) = seen
    assert context.api is api
    assert context.clock is clock
    assert context.stores is scheduler.stores
    assert context.recorder is scheduler.recorder
    assert context.cluster is scheduler.cluster
    assert context.nominator is scheduler.nominator
    assert context.metrics is scheduler.metrics
