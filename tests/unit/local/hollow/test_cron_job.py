"""Cron jobs on virtual time, which begins at 2023-11-14T22:13:20Z."""

from __future__ import annotations

import asyncio
import datetime
from typing import Any

import pytest

from kuberth.local.apiserver.objects import Obj
from kuberth.local.cron import parse_schedule
from kuberth.local.hollow.controllers.cron_job import latest
from tests.manifests import template_manifest
from tests.unit.local.hollow.harness import World, playing, virtual

BEGIN = 1_700_000_000


def cron_job(schedule: str = "*/5 * * * *", *, run_seconds: str = "1", code: str = "0", **spec: Any) -> Obj:
    annotations = {"kuberth.dev/run-seconds": run_seconds, "kuberth.dev/exit-code": code}
    pods = template_manifest("tick", annotations=annotations, restartPolicy="Never")
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick", "namespace": "default"},
        "spec": {
            "schedule": schedule,
            "jobTemplate": {"metadata": {"labels": {"of": "tick"}}, "spec": {"template": pods}},
            **spec,
        },
    }


async def names(world: World) -> list[str]:
    return sorted(job["metadata"]["name"] for job in await world.all("Job"))


def test_jobs_come_by_the_clock() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(cron_job())
            await asyncio.sleep(60)
            assert await names(world) == []
            await asyncio.sleep(60)  # 22:15:20
            minute = (BEGIN + 100) // 60
            assert await names(world) == [f"tick-{minute}"]
            job = (await world.all("Job"))[0]
            assert job["metadata"]["labels"]["of"] == "tick"
            at = job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
            assert at == "2023-11-14T22:15:00Z"
            found = await world.get("CronJob", "tick")
            assert found["status"]["lastScheduleTime"] == "2023-11-14T22:15:00Z"
            assert found["status"]["lastSuccessfulTime"].startswith("2023-11-14T22:15:0")
            assert "active" not in found["status"]
            # Only three successes are remembered.
            await asyncio.sleep(1500)
            assert await names(world) == [f"tick-{minute + 5 * count}" for count in (3, 4, 5)]

    virtual(main)


def test_suspended() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(cron_job(suspend=True))
            await asyncio.sleep(900)
            assert await names(world) == []
            # What was missed is made up for once.
            await world.patch("CronJob", "tick", {"spec": {"suspend": False}})
            await world.quiet()
            assert len(await names(world)) == 1

    virtual(main)


@pytest.mark.parametrize("policy, running", [("Allow", 3), ("Forbid", 1), ("Replace", 1)])
def test_concurrency(policy: str, running: int) -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(cron_job(run_seconds="3000", concurrencyPolicy=policy))
            await asyncio.sleep(110)
            first = await names(world)
            await asyncio.sleep(600)
            assert len(await names(world)) == running
            assert (first[0] in await names(world)) is (policy != "Replace")
            assert len((await world.get("CronJob", "tick"))["status"]["active"]) == running

    virtual(main)


def test_failures_are_forgotten_too() -> None:
    async def main() -> None:
        async with playing() as world:
            body = cron_job("* * * * *", code="1", failedJobsHistoryLimit=2)
            body["spec"]["jobTemplate"]["spec"]["backoffLimit"] = 0
            await world.create(body)
            await asyncio.sleep(600)
            assert len(await names(world)) == 2
            await world.delete("CronJob", "tick", propagationPolicy="Background")
            await world.quiet(seconds=10)
            assert await names(world) == []

    virtual(main)


@pytest.mark.parametrize("schedule", ["* * * * *", "0 3 * * 1", "@every 7m", "30 2 29 2 *"])
def test_the_latest_moment_among_many(schedule: str) -> None:
    now = BEGIN + 0.5
    for days in (0, 1, 40, 4000):
        found = latest(parse_schedule(schedule), datetime.UTC, now - days * 86400, now)
        if found is not None:
            assert now - days * 86400 < found <= now
            following = parse_schedule(schedule).after(found)
            assert following is not None
            assert following > now
