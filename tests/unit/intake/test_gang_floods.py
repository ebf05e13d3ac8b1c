"""Gangs that can never be complete cost a new pod nothing, however many they are."""

from __future__ import annotations

from tests.integration.test_gangs import GATES, make_group, member
from tests.unit.intake.harness import IntakeHarness

GANG = "GangScheduling"


def hints_asked(harness: IntakeHarness) -> int:
    values = harness.scheduler.metrics.queueing_hint_execution_duration.values
    return sum(value.count for labels, value in values.items() if labels[0] == GANG)


def test_hints_are_asked_only_for_the_gang_that_a_pod_completes() -> None:
    harness = IntakeHarness(gates=GATES)
    for number in range(20):
        harness.put(make_group(f"g{number}", min_count=2**31 - 1))
        harness.put(*(member(f"g{number}-{index}", f"g{number}") for index in range(3)))
    assert set(harness.queues.values()) == {"gated"}
    assert hints_asked(harness) == 60, "each was asked about its own arrival"
    harness.put(make_group("whole", min_count=2), member("whole-0", "whole"))
    assert hints_asked(harness) == 61
    harness.put(member("whole-1", "whole"))
    assert {name for name, queue in harness.queues.items() if queue == "active"} == {"whole-0", "whole-1"}
    assert hints_asked(harness) == 62, "the second let the first pass"


def test_a_group_that_comes_after_its_pods_opens_their_gate() -> None:
    harness = IntakeHarness(gates=GATES)
    harness.put(member("late-0", "late"), member("late-1", "late"), member("other-0", "other"))
    assert set(harness.queues.values()) == {"gated"}
    harness.put(make_group("late", min_count=2))
    assert harness.queues == {"late-0": "active", "late-1": "active", "other-0": "gated"}
    assert hints_asked(harness) == 3 + 1, "of their own arrivals, and of the group, once for equal pods"
