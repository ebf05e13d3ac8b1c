"""Events are news, and go when they are old."""

from __future__ import annotations

from typing import Any

from kuberth.local.apiserver.objects import name_of
from tests.unit.local.hollow.harness import playing, virtual


def test_events_are_kept_for_an_hour() -> None:
    async def main() -> None:
        async with playing(nodes=0, controllers=["event-ttl"]) as world:
            times: dict[str, dict[str, Any]] = {
                # The cluster's clock starts at 2023-11-14T22:13:20Z.
                "old": {"lastTimestamp": "2023-11-14T21:13:00Z"},
                "new": {"lastTimestamp": "2023-11-14T21:50:00Z"},
                "going-on": {
                    "eventTime": "2023-11-14T20:00:00.000000Z",
                    "series": {"count": 2, "lastObservedTime": "2023-11-14T22:10:00.000000Z"},
                },
                "without-a-time": {},
            }
            for name, fields in times.items():
                metadata = {"name": name, "namespace": "default"}
                about = {"kind": "Pod", "namespace": "default", "name": "a"}
                reported = {"reportingComponent": "x", "reportingInstance": "x", "action": "a", "reason": "r"}
                body = {"apiVersion": "v1", "kind": "Event", "metadata": metadata, "involvedObject": about}
                await world.create({**body, **reported, "type": "Normal", **fields})

            async def left() -> list[str]:
                return [name_of(event) for event in await world.all("Event")]

            await world.quiet(seconds=61)
            assert await left() == ["going-on", "new", "without-a-time"]
            await world.quiet(seconds=45 * 60)
            assert await left() == ["going-on", "without-a-time"]
            await world.quiet(seconds=13 * 60)
            assert await left() == ["without-a-time"]

    virtual(main)
