"""Jobs, to their end."""

from __future__ import annotations

from typing import Any

from kuberth.local.apiserver.objects import Obj
from tests.unit.local.hollow.harness import playing, template, virtual


def job(name: str = "work", *, seconds: int = 5, exit_code: int = 0, **spec: Any) -> Obj:
    notes = {"kuberth.dev/run-seconds": str(seconds), "kuberth.dev/exit-code": str(exit_code)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": template(name, annotations=notes, restartPolicy="Never"), **spec},
    }


def test_completions_with_parallelism() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(job(completions=7, parallelism=3))

            async def done() -> bool:
                pods = await world.all("Pod")
                active = [pod for pod in pods if pod.get("status", {}).get("phase") not in ("Succeeded",)]
                assert len(active) <= 3
                status = (await world.get("Job", "work")).get("status", {})
                return any(one["type"] == "Complete" for one in status.get("conditions", ()))

            await world.until(done)
            found = await world.get("Job", "work")
            assert found["status"]["succeeded"] == 7
            assert "active" not in found["status"]
            assert found["status"]["completionTime"] > found["status"]["startTime"]
            await world.quiet(seconds=30)
            pods = await world.all("Pod")
            assert len(pods) == 7
            assert all(pod["metadata"]["labels"]["job-name"] == "work" for pod in pods)

    virtual(main)


def test_a_job_that_does_not_say_how_long_is_done_soon() -> None:
    async def main() -> None:
        async with playing() as world:
            plain = job(completions=2, parallelism=2)
            del plain["spec"]["template"]["metadata"]["annotations"]
            await world.create(plain)
            await world.condition("Job", "work", "Complete", seconds=10)

    virtual(main)


def test_failures_back_off_and_end_it() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(job(seconds=1, exit_code=1, backoffLimit=2, completions=1, parallelism=1))
            await world.quiet(seconds=8)
            assert len(await world.all("Pod")) == 1
            condition = await world.condition("Job", "work", "Failed", seconds=60)
            assert condition["reason"] == "BackoffLimitExceeded"
            found = await world.get("Job", "work")
            assert found["status"]["failed"] == 3
            await world.quiet(seconds=60)
            assert len(await world.all("Pod")) == 3

    virtual(main)


def test_a_deadline_ends_it() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(job(seconds=500, activeDeadlineSeconds=20, completions=1, parallelism=1))
            condition = await world.condition("Job", "work", "Failed", seconds=25)
            assert condition["reason"] == "DeadlineExceeded"
            await world.quiet()
            assert await world.all("Pod") == []

    virtual(main)


def test_indexed_completions() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(job(completions=5, parallelism=2, completionMode="Indexed"))
            await world.condition("Job", "work", "Complete")
            found = await world.get("Job", "work")
            assert found["status"]["completedIndexes"] == "0-4"
            key = "batch.kubernetes.io/job-completion-index"
            indexes = [pod["metadata"]["annotations"][key] for pod in await world.all("Pod")]
            assert sorted(indexes) == list("01234")

    virtual(main)


def test_a_finished_job_goes_after_its_time_to_live() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(job(ttlSecondsAfterFinished=30, completions=1, parallelism=1))
            await world.condition("Job", "work", "Complete")
            await world.quiet(seconds=25)
            assert await world.there("Job", "work")
            await world.gone("Job", "work", seconds=10)
            assert await world.all("Pod") == []

    virtual(main)


def test_a_suspended_job_waits() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(job(suspend=True, completions=2, parallelism=2))
            await world.condition("Job", "work", "Suspended")
            assert await world.all("Pod") == []
            await world.patch("Job", "work", {"spec": {"suspend": False}})
            await world.condition("Job", "work", "Complete")

    virtual(main)


def test_a_work_queue_is_done_with_its_first_success_and_the_end_of_the_rest() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(job(parallelism=3))
            await world.condition("Job", "work", "Complete")
            await world.quiet(seconds=20)
            assert len(await world.all("Pod")) == 3

    virtual(main)
