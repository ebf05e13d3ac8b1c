"""Jobs, to their end."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.hollow.controllers.job_rules import parse_indexes, write_indexes
from tests.manifests import template_manifest
from tests.unit.local.hollow.harness import World, playing, virtual


def job(name: str = "work", *, seconds: int = 5, exit_code: int = 0, **spec: Any) -> Obj:
    notes = {"kuberth.dev/run-seconds": str(seconds), "kuberth.dev/exit-code": str(exit_code)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": template_manifest(name, annotations=notes, restartPolicy="Never"), **spec},
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


def true_conditions(found: Obj) -> dict[str, str]:
    conditions = found.get("status", {}).get("conditions", ())
    return {one["type"]: one["reason"] for one in conditions if one["status"] == "True"}


async def end_pod(world: World, name: str, *, exit_code: int) -> None:
    """End a pod that would run on, with an exit code of its own."""
    notes = {"kuberth.dev/run-seconds": "0", "kuberth.dev/exit-code": str(exit_code)}
    await world.patch("Pod", name, {"metadata": {"annotations": notes}})


def test_a_counted_pod_can_be_deleted_and_is_not_run_again() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(job(completions=3, parallelism=1, seconds=5))
            await world.status("Job", "work", succeeded=1)
            await world.quiet(seconds=1)
            for pod in await world.all("Pod"):
                assert bool(pod["metadata"].get("finalizers")) == (pod["status"]["phase"] != "Succeeded")
                if pod["status"]["phase"] == "Succeeded":
                    await world.delete("Pod", pod["metadata"]["name"])
            await world.condition("Job", "work", "Complete")
            found = await world.get("Job", "work")
            assert (found["status"]["succeeded"], len(await world.all("Pod"))) == (3, 2)
            assert found["status"]["uncountedTerminatedPods"] == {}

    virtual(main)


@pytest.mark.parametrize("mode", ["NonIndexed", "Indexed"])
@pytest.mark.parametrize("seed", range(4))
def test_every_pod_is_counted_once_whatever_write_fails(mode: str, seed: int) -> None:
    """A third of the writes fails before it is done, another third after."""

    async def main() -> None:
        async with playing() as world:
            rng, update = random.Random(seed), world.core.update

            async def unreliable(resource: Any, name: str, body: Any, **options: Any) -> Obj:
                if resource not in ("pods", "jobs.batch"):
                    return await update(resource, name, body, **options)
                fate = rng.random()
                if fate < 1 / 3:
                    raise StatusError(409, "Conflict", "another was first")
                written = await update(resource, name, body, **options)
                if fate < 2 / 3:
                    raise StatusError(504, "Timeout", "the answer was lost")
                return written

            world.core.update = unreliable  # type: ignore[method-assign]  # a fault of the server
            body = job(completions=6, parallelism=3, seconds=3, completionMode=mode, backoffLimit=6)
            await world.create(body)
            await world.quiet(seconds=4)
            running = [pod for pod in await world.all("Pod") if pod["status"]["phase"] == "Running"]
            for pod in running[:1]:
                await world.delete("Pod", pod["metadata"]["name"])
            await world.condition("Job", "work", "Complete", seconds=600)
            status = (await world.get("Job", "work"))["status"]
            assert (status["succeeded"], status.get("failed", 0)) == (6, len(running[:1]))
            assert status["uncountedTerminatedPods"] == {}
            await world.quiet(seconds=120)
            assert not [pod for pod in await world.all("Pod") if pod["metadata"].get("finalizers")]

    virtual(main)


def test_a_pod_that_is_deleted_while_it_runs_counts_as_failed() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(job(completions=1, parallelism=1, seconds=30))
            await world.status("Job", "work", active=1)
            (pod,) = await world.all("Pod")
            await world.quiet(seconds=2)
            await world.delete("Pod", pod["metadata"]["name"])
            await world.status("Job", "work", failed=1, active=1)
            await world.condition("Job", "work", "Complete")

    virtual(main)


def test_a_job_that_is_deleted_lets_its_pods_go() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(job(completions=2, parallelism=2, seconds=300))
            await world.status("Job", "work", active=2)
            await world.quiet(seconds=2)
            await world.delete("Job", "work", propagationPolicy="Background")
            await world.quiet(seconds=5)
            assert await world.all("Pod") == []

    virtual(main)


def test_orphans_are_adopted_and_strangers_released() -> None:
    async def main() -> None:
        async with playing() as world:
            own: Obj = {"manualSelector": True, "selector": {"matchLabels": {"app": "work"}}}
            await world.create(job(completions=2, parallelism=1, seconds=100, **own))
            await world.status("Job", "work", active=1)
            (pod,) = await world.all("Pod")
            name = pod["metadata"]["name"]
            await world.patch("Pod", name, {"metadata": {"labels": {"app": "other"}}})
            await world.quiet(seconds=2)
            released = await world.get("Pod", name)
            assert (
                "ownerReferences" not in released["metadata"] or not released["metadata"]["ownerReferences"]
            )
            assert not released["metadata"].get("finalizers")
            assert len(await world.all("Pod")) == 2
            # Taken back, it is one too many; done, it counts.
            await world.patch("Pod", name, {"metadata": {"labels": {"app": "work"}}})
            await world.condition("Job", "work", "Complete", seconds=250)
            assert (await world.get("Job", "work"))["status"]["succeeded"] == 2

    virtual(main)


def test_an_adopted_pod_is_counted() -> None:
    async def main() -> None:
        async with playing() as world:
            lonely = template_manifest(
                "work", annotations={"kuberth.dev/run-seconds": "5"}, restartPolicy="Never"
            )
            metadata = {"name": "lonely", "namespace": "default", **lonely["metadata"]}
            await world.create({"apiVersion": "v1", "kind": "Pod", **lonely, "metadata": metadata})
            own: Obj = {"manualSelector": True, "selector": {"matchLabels": {"app": "work"}}}
            await world.create(job(completions=1, parallelism=1, **own))
            await world.condition("Job", "work", "Complete")
            (pod,) = await world.all("Pod")
            assert pod["metadata"]["name"] == "lonely"
            assert pod["metadata"]["ownerReferences"][0]["kind"] == "Job"

    virtual(main)


@pytest.mark.parametrize(
    ("rule", "code", "reason", "failed"),
    [
        ({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}, 42, "PodFailurePolicy", 1),
        (
            {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [42]}},
            1,
            "PodFailurePolicy",
            1,
        ),
        (
            {"action": "Count", "onExitCodes": {"operator": "In", "values": [42]}},
            42,
            "BackoffLimitExceeded",
            3,
        ),
        (
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
            1,
            "BackoffLimitExceeded",
            3,
        ),
    ],
    ids=["fail", "fail by not in", "count", "no match"],
)
def test_pod_failure_policies(rule: Obj, code: int, reason: str, failed: int) -> None:
    async def main() -> None:
        async with playing() as world:
            policy: Obj = {"podFailurePolicy": {"rules": [rule]}, "backoffLimit": 2}
            await world.create(job(seconds=1, exit_code=code, completions=1, parallelism=1, **policy))
            condition = await world.condition("Job", "work", "Failed", seconds=120)
            assert condition["reason"] == reason
            found = await world.get("Job", "work")
            assert true_conditions(found) == {"FailureTarget": reason, "Failed": reason}
            assert found["status"]["failed"] == failed
            if reason == "PodFailurePolicy":
                (pod,) = await world.all("Pod")
                who = f"pod default/{pod['metadata']['name']}"
                message = (
                    f"Container main for {who} failed with exit code {code} matching FailJob rule at index 0"
                )
                assert condition["message"] == message

    virtual(main)


def test_failures_that_are_ignored_cost_nothing() -> None:
    async def main() -> None:
        async with playing() as world:
            disrupted = [{"type": "DisruptionTarget", "status": "True"}]
            policy: Obj = {
                "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": disrupted}]}
            }
            spec: Obj = {"completions": 1, "parallelism": 1, "backoffLimit": 0, "seconds": 60, **policy}
            await world.create(job(**spec))
            await world.status("Job", "work", active=1)
            await world.quiet(seconds=2)
            (pod,) = await world.all("Pod")
            name, where = pod["metadata"]["name"], pod["spec"]["nodeName"]
            taint = {"key": "gone", "effect": "NoExecute"}
            await world.patch("Node", where, {"spec": {"taints": [taint]}}, namespace="")
            await world.gone("Pod", name, seconds=20)
            await world.patch("Node", where, {"spec": {"taints": None}}, namespace="")
            await world.condition("Job", "work", "Complete", seconds=120)
            assert not (await world.get("Job", "work"))["status"].get("failed")

    virtual(main)


def test_a_success_policy_ends_a_job_early() -> None:
    async def main() -> None:
        async with playing() as world:
            rules = [{"succeededIndexes": "1-2", "succeededCount": 1}]
            spec: Obj = {"completions": 4, "parallelism": 4, "completionMode": "Indexed", "seconds": 500}
            await world.create(job(**spec, successPolicy={"rules": rules}))
            await world.status("Job", "work", active=4)
            await world.quiet(seconds=2)
            key = "batch.kubernetes.io/job-completion-index"
            names = {
                one["metadata"]["labels"][key]: one["metadata"]["name"] for one in await world.all("Pod")
            }
            await end_pod(world, names["0"], exit_code=0)
            await world.status("Job", "work", succeeded=1)
            await world.quiet(seconds=2)
            assert true_conditions(await world.get("Job", "work")) == {}
            await end_pod(world, names["2"], exit_code=0)
            condition = await world.condition("Job", "work", "Complete", seconds=10)
            assert (condition["reason"], condition["message"]) == (
                "SuccessPolicy",
                "Matched rules at index 0",
            )
            found = await world.get("Job", "work")
            assert found["status"]["completedIndexes"] == "0,2"
            assert "active" not in found["status"]
            expected = {"SuccessCriteriaMet": "SuccessPolicy", "Complete": "SuccessPolicy"}
            assert true_conditions(found) == expected

    virtual(main)


def test_every_index_has_its_own_limit() -> None:
    async def main() -> None:
        async with playing() as world:
            spec: Obj = {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "seconds": 500}
            created = await world.create(job(**spec, backoffLimitPerIndex=1))
            assert created["spec"]["backoffLimit"] == 2**31 - 1
            await world.status("Job", "work", active=3)
            await world.quiet(seconds=2)
            key = "batch.kubernetes.io/job-completion-index"

            async def running(index: str) -> str:
                (found,) = [
                    one["metadata"]["name"]
                    for one in await world.all("Pod")
                    if one["metadata"]["labels"][key] == index and one["status"]["phase"] == "Running"
                ]
                return str(found)

            await end_pod(world, await running("1"), exit_code=1)
            await world.status("Job", "work", failed=1)
            await world.status("Job", "work", active=3, seconds=15)
            await world.quiet(seconds=2)
            again = await world.get("Pod", await running("1"))
            count = "batch.kubernetes.io/job-index-failure-count"
            assert again["metadata"]["annotations"][count] == "1"
            await end_pod(world, again["metadata"]["name"], exit_code=1)
            await world.status("Job", "work", failedIndexes="1", active=2)
            for index in ("0", "2"):
                await end_pod(world, await running(index), exit_code=0)
            condition = await world.condition("Job", "work", "Failed", seconds=10)
            assert condition["reason"] == "FailedIndexes"
            status = (await world.get("Job", "work"))["status"]
            assert (status["completedIndexes"], status["failedIndexes"]) == ("0,2", "1")

    virtual(main)


def test_an_indexed_job_can_be_made_smaller() -> None:
    async def main() -> None:
        async with playing() as world:
            indexed: Obj = {"completions": 4, "parallelism": 4, "completionMode": "Indexed"}
            await world.create(job(seconds=60, **indexed))
            await world.status("Job", "work", active=4)
            await world.quiet(seconds=2)
            await world.patch("Job", "work", {"spec": {"completions": 2, "parallelism": 2}})
            await world.quiet(seconds=2)
            key = "batch.kubernetes.io/job-completion-index"
            assert sorted(pod["metadata"]["labels"][key] for pod in await world.all("Pod")) == ["0", "1"]
            await world.condition("Job", "work", "Complete", seconds=70)
            status = (await world.get("Job", "work"))["status"]
            assert (status["completedIndexes"], status.get("failed")) == ("0,1", None)

    virtual(main)


def test_too_many_failed_indexes_end_it() -> None:
    async def main() -> None:
        async with playing() as world:
            indexed: Obj = {"completions": 4, "parallelism": 2, "completionMode": "Indexed"}
            limits: Obj = {"backoffLimitPerIndex": 0, "maxFailedIndexes": 1}
            await world.create(job(seconds=1, exit_code=1, **indexed, **limits))
            condition = await world.condition("Job", "work", "Failed", seconds=10)
            assert condition["reason"] == "MaxFailedIndexesExceeded"

    virtual(main)


def test_a_job_is_over_when_its_pods_are() -> None:
    """The target is reported at once, the end when the last pod has stopped."""

    async def main() -> None:
        async with playing() as world:
            body = job(seconds=500, activeDeadlineSeconds=10, completions=1, parallelism=1)
            body["spec"]["podReplacementPolicy"] = "Failed"
            body["spec"]["template"]["metadata"]["annotations"]["kuberth.dev/stop-seconds"] = "20"
            await world.create(body)
            await world.condition("Job", "work", "FailureTarget", seconds=12)
            await world.quiet(seconds=1)
            found = await world.get("Job", "work")
            assert true_conditions(found) == {"FailureTarget": "DeadlineExceeded"}
            assert found["status"]["terminating"] == 1
            await world.condition("Job", "work", "Failed", seconds=25)
            assert (await world.get("Job", "work"))["status"]["failed"] == 1

    virtual(main)


def test_pods_that_a_suspended_job_gives_up_are_no_failures() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(job(completions=2, parallelism=2, seconds=100))
            await world.status("Job", "work", active=2)
            await world.quiet(seconds=2)
            await world.patch("Job", "work", {"spec": {"suspend": True}})
            await world.condition("Job", "work", "Suspended")
            await world.quiet(seconds=2)
            status = (await world.get("Job", "work"))["status"]
            assert "startTime" not in status
            assert "failed" not in status
            assert await world.all("Pod") == []
            await world.patch("Job", "work", {"spec": {"suspend": False}})
            await world.condition("Job", "work", "Complete", seconds=120)

    virtual(main)


def test_restarts_in_place_use_up_the_limit() -> None:
    async def main() -> None:
        async with playing() as world:
            body = job(seconds=1, exit_code=1, completions=1, parallelism=1, backoffLimit=2)
            body["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
            await world.create(body)
            condition = await world.condition("Job", "work", "Failed", seconds=30)
            assert condition["reason"] == "BackoffLimitExceeded"

    virtual(main)


def test_a_job_that_others_manage_is_left_to_them() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(job(managedBy="example.com/queue"))
            await world.quiet(seconds=5)
            assert await world.all("Pod") == []

    virtual(main)


@pytest.mark.parametrize(
    ("indexes", "text"),
    [((), ""), ((3,), "3"), ((0, 1), "0,1"), ((0, 1, 2, 5, 7, 8), "0-2,5,7,8")],
)
def test_indexes_in_words(indexes: tuple[int, ...], text: str) -> None:
    assert write_indexes(indexes) == text
    assert parse_indexes(text, below=10) == set(indexes)


def test_indexes_that_cannot_be() -> None:
    assert parse_indexes("0-4294967295,x,-1,9-", below=3) == {0, 1, 2}
    assert len(parse_indexes("0-4294967295", below=2**31 - 1)) < 2_000_000
