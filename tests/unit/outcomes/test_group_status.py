"""The condition of a PodGroup is written when it says something new."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from kuberth.api.scheduling import PodGroup
from kuberth.api.wire import convert
from kuberth.clock import NANOSECONDS
from kuberth.informers.store import Store
from kuberth.outcomes.group_status import PodGroupStatusWriter
from kuberth.testing import FakeClock, MemoryApi


def group(condition: dict[str, Any] | None = None, *, generation: int = 1) -> PodGroup:
    conditions = [{"type": "PodGroupScheduled", "observedGeneration": 1, **condition}] if condition else []
    metadata = {"name": "g", "namespace": "default", "uid": "u", "generation": generation}
    return convert(PodGroup, {"metadata": metadata, "status": {"conditions": conditions}})


REJECTED = {"is_scheduled": False, "reason": "Unschedulable", "message": "no"}
FALSE = {
    "status": "False",
    "reason": "Unschedulable",
    "message": "no",
    "lastTransitionTime": "2020-01-01T00:00:00Z",
}
TRUE = {
    "status": "True",
    "reason": "Scheduled",
    "message": "",
    "lastTransitionTime": "2020-01-01T00:00:00Z",
}


def written(present: PodGroup | None, **outcome: Any) -> PodGroup | None:
    """The group as it is after the write; None if there was none."""
    api, store, work = MemoryApi(), Store[PodGroup](), list[Coroutine[Any, Any, None]]()
    if present is not None:
        store.set(api.put(present))
    clock = FakeClock(1_700_000_000 * NANOSECONDS)
    writer = PodGroupStatusWriter(api, lambda each, *, name: work.append(each), clock, groups=store)
    writer.write("default/g", **outcome)
    if not work:
        return None

    async def run() -> None:
        for each in work:
            await each

    asyncio.run(run())
    return api.read(PodGroup, "default/g")


@pytest.mark.parametrize(
    "present, outcome, since",
    [
        pytest.param(
            group(),
            {"is_scheduled": False, "reason": "Unschedulable", "message": "no"},
            "2023",
            id="the-first",
        ),
        pytest.param(
            group(FALSE), {"is_scheduled": True, "reason": "Scheduled", "message": ""}, "2023", id="turns"
        ),
        pytest.param(
            group(FALSE),
            {"is_scheduled": False, "reason": "Unschedulable", "message": "why"},
            "2020",
            id="other-words",
        ),
        pytest.param(
            group(FALSE, generation=2),
            {"is_scheduled": False, "reason": "Unschedulable", "message": "no"},
            "2020",
            id="another-generation",
        ),
    ],
)
def test_news_is_written(present: PodGroup, outcome: dict[str, Any], since: str) -> None:
    after = written(present, **outcome)
    assert after is not None
    (condition,) = after.status.conditions
    assert condition.type == "PodGroupScheduled"
    assert condition.status == str(outcome["is_scheduled"])
    assert (condition.reason, condition.message) == (outcome["reason"], outcome["message"])
    assert condition.observed_generation == present.metadata.generation
    assert condition.last_transition_time is not None
    assert str(condition.last_transition_time.year) == since


@pytest.mark.parametrize(
    "present, outcome",
    [
        pytest.param(group(FALSE), REJECTED, id="the-same"),
        pytest.param(
            group(TRUE),
            {"is_scheduled": False, "reason": "Unschedulable", "message": "no"},
            id="never-back",
        ),
        pytest.param(
            group(TRUE),
            {"is_scheduled": False, "reason": "SchedulerError", "message": "no"},
            id="nor-by-error",
        ),
        pytest.param(None, {"is_scheduled": True, "reason": "Scheduled", "message": ""}, id="gone"),
    ],
)
def test_nothing_is_written(present: PodGroup | None, outcome: dict[str, Any]) -> None:
    assert written(present, **outcome) is None
