"""Events about the leader: what they say, and that the election works without them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest

from kuberth.api.coordination import Lease
from kuberth.api.core import Event
from kuberth.api.meta import ObjectMeta
from kuberth.api.wire import to_builtins
from kuberth.clock import NANOSECONDS, LoopClock, run_in_virtual_time
from kuberth.errors import ApiError
from kuberth.programs.run.leader_election import FLUSH_SECONDS, ElectionEvents
from kuberth.testing import MemoryApi

T = TypeVar("T")

NOON_NS = int(datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp()) * NANOSECONDS
LEASE = Lease(
    metadata=ObjectMeta(name="kube-scheduler", namespace="kube-system", uid="u", resource_version="7")
)


class Slow(MemoryApi):
    """Answers a second after it did what it was asked for, if `fault` lets it."""

    def __init__(self, fault: Callable[[], Awaitable[None]] | None = None) -> None:
        super().__init__()
        self.fault = fault

    async def create(self, obj: T) -> T:
        if self.fault is not None:
            await self.fault()
        created = await super().create(obj)
        await asyncio.sleep(1)
        return created


def recording(script: Callable[[ElectionEvents], Any], *, api: MemoryApi) -> list[Event]:
    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop(), epoch_ns=NOON_NS)
        await script(ElectionEvents(api, clock, component="first"))

    run_in_virtual_time(main)
    return list(api.all(Event))


def test_an_event_is_the_one_that_kube_scheduler_writes() -> None:
    async def script(events: ElectionEvents) -> None:
        events.record(LEASE, "me became leader")
        await events.flush()

    [event] = recording(script, api=MemoryApi())
    tree = to_builtins(event)
    metadata = tree.pop("metadata")
    assert (metadata["namespace"], metadata["name"]) == ("kube-system", f"kube-scheduler.{NOON_NS:x}")
    assert tree == {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "namespace": "kube-system",
            "name": "kube-scheduler",
            "uid": "u",
            "resourceVersion": "7",
        },
        "reason": "LeaderElection",
        "message": "me became leader",
        "source": {"component": "first"},
        "firstTimestamp": "2026-01-01T12:00:00Z",
        "lastTimestamp": "2026-01-01T12:00:00Z",
        "count": 1,
        "type": "Normal",
        "reportingComponent": "first",
    }


def test_an_event_whose_answer_is_lost_is_written_once(caplog: pytest.LogCaptureFixture) -> None:
    async def script(events: ElectionEvents) -> None:
        writing = asyncio.create_task(events.run(), name="events")
        events.record(LEASE, "me became leader")
        await asyncio.sleep(2)
        events.record(LEASE, "me stopped leading")
        await asyncio.sleep(0.5)
        writing.cancel()
        await events.flush()

    recorded = recording(script, api=Slow())
    assert [event.message for event in recorded] == ["me became leader", "me stopped leading"]
    assert not caplog.records


async def refuse() -> None:
    raise ApiError("the server is down", code=503)


async def break_down() -> None:
    raise RuntimeError("a defect")


async def never_answer() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("fault", [refuse, break_down, never_answer])
def test_an_event_that_cannot_be_written_is_given_up(
    fault: Callable[[], Awaitable[None]], caplog: pytest.LogCaptureFixture
) -> None:
    async def script(events: ElectionEvents) -> None:
        loop = asyncio.get_running_loop()
        writing = asyncio.create_task(events.run(), name="events")
        events.record(LEASE, "me became leader")
        await asyncio.sleep(10)
        assert not writing.done()
        writing.cancel()
        ending = loop.time()
        await events.flush()
        assert loop.time() - ending <= FLUSH_SECONDS

    assert recording(script, api=Slow(fault)) == []
    assert "leader" in caplog.text
