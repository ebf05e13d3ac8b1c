"""Pods that crash, restart, are probed, refused and stopped: what a kubelet makes of them."""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import Any

import pytest

from kuberth.clock import LoopClock
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.printing.cells import pod_ready, pod_restarts, pod_status
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.apiserver.store.store import RevisionStore
from kuberth.local.apiserver.verbs.core import Core
from tests.manifests import pod_manifest
from tests.unit.local.hollow.harness import World, playing, virtual


def pod(name: str, *, notes: dict[str, str] | None = None, requests: Obj | None = None, **spec: Any) -> Obj:
    """A pod with annotations for the kubelet and a guaranteed amount of resources."""
    annotations = {f"kuberth.dev/{key}": value for key, value in (notes or {}).items()}
    return pod_manifest(name, annotations=annotations, requests=requests, limits=requests, **spec)


def container(found: Obj) -> Obj:
    status: Obj = found["status"]["containerStatuses"][0]
    return status


async def events(world: World, reason: str) -> list[str]:
    return [one["message"] for one in await world.all("Event") if one["reason"] == reason]


async def is_ready(world: World, name: str) -> bool:
    conditions = (await world.get("Pod", name)).get("status", {}).get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


# Deletion takes its time


@pytest.mark.parametrize(
    ("stop", "grace", "seconds"),
    [("20", 30, 20.0), ("3000", 30, 31.0), ("20", 5, 6.0)],
    ids=["by itself", "killed", "killed early"],
)
def test_a_deleted_pod_is_terminating_until_its_containers_have_stopped(
    stop: str, grace: int, seconds: float
) -> None:
    async def main() -> None:
        async with playing(nodes=1) as world:
            await world.create(pod("a", notes={"stop-seconds": stop}, terminationGracePeriodSeconds=grace))
            await world.status("Pod", "a", phase="Running")
            await world.delete("Pod", "a")
            await world.quiet(seconds=seconds - 1.5)
            found = await world.get("Pod", "a")
            assert pod_status(found) == "Terminating"
            assert found["status"]["phase"] == "Running"
            await world.gone("Pod", "a", seconds=2)

    virtual(main)


@pytest.mark.parametrize(
    ("grace", "notes", "seconds"),
    [(80, {}, 79.0), (30, {}, 31.0), (80, {"stop-seconds": "20"}, 20.0)],
    ids=["the hook's end", "killed before", "the annotation counts first"],
)
def test_a_hook_that_sleeps_keeps_a_deleted_pod_terminating(
    grace: int, notes: dict[str, str], seconds: float
) -> None:
    async def main() -> None:
        async with playing(nodes=1) as world:
            body = pod("a", notes=notes, terminationGracePeriodSeconds=grace)
            body["spec"]["containers"][0]["lifecycle"] = {"preStop": {"sleep": {"seconds": 79}}}
            await world.create(body)
            await world.status("Pod", "a", phase="Running")
            await world.delete("Pod", "a")
            await world.quiet(seconds=seconds - 1.5)
            assert pod_status(await world.get("Pod", "a")) == "Terminating"
            await world.gone("Pod", "a", seconds=2)

    virtual(main)


def test_a_deletion_can_be_hurried() -> None:
    async def main() -> None:
        async with playing(nodes=1) as world:
            for name in ("soon", "now"):
                spec: Obj = {"terminationGracePeriodSeconds": 600}
                await world.create(pod(name, notes={"stop-seconds": "500"}, **spec))
                await world.status("Pod", name, phase="Running")
                await world.delete("Pod", name)
            await world.quiet(seconds=20)
            await world.delete("Pod", "soon", gracePeriodSeconds=5)
            await world.delete("Pod", "now", gracePeriodSeconds=0)
            assert not await world.there("Pod", "now")
            await world.quiet(seconds=4)
            assert await world.there("Pod", "soon")
            await world.gone("Pod", "soon", seconds=3)

    virtual(main)


@pytest.mark.parametrize(("stop", "exit_code"), [("2", 143), ("50", 137)])
def test_containers_stop_by_themselves_or_are_killed(stop: str, exit_code: int) -> None:
    async def main() -> None:
        async with playing(nodes=1) as world:
            body = pod("a", notes={"stop-seconds": stop}, terminationGracePeriodSeconds=10)
            body["metadata"]["finalizers"] = ["example.com/look"]
            await world.create(body)
            await world.status("Pod", "a", phase="Running")
            await world.delete("Pod", "a")
            found = await world.status("Pod", "a", phase="Failed", seconds=12)
            assert container(found)["state"]["terminated"]["exitCode"] == exit_code

    virtual(main)


def test_a_deletion_goes_on_after_a_restart() -> None:
    async def main() -> None:
        store = await RevisionStore.open(None)
        clock = LoopClock(asyncio.get_running_loop(), epoch_ns=1_700_000_000 * 10**9)
        core = Core(store, clock=clock)
        async with playing(core, nodes=1) as world:
            await world.create(pod("a", notes={"stop-seconds": "50"}, terminationGracePeriodSeconds=100))
            await world.status("Pod", "a", phase="Running")
            await world.delete("Pod", "a")
            await world.quiet(seconds=20)
        async with playing(core, nodes=1) as world:
            await world.quiet(seconds=28)
            assert await world.there("Pod", "a")
            await world.gone("Pod", "a", seconds=3)
        await store.close()

    virtual(main)


# Restarts


def test_a_crashing_container_restarts_ever_later() -> None:
    """At once, then after 10, 20, 40 seconds and so on, at most five minutes."""

    async def main() -> None:
        async with playing(nodes=1) as world:
            loop = asyncio.get_running_loop()
            await world.create(pod("a", notes={"run-seconds": "1", "exit-code": "2"}))
            await world.status("Pod", "a", phase="Running")
            starts = [loop.time()]
            for count in range(1, 9):

                async def restarted(count: int = count) -> bool:
                    return bool(container(await world.get("Pod", "a"))["restartCount"] >= count)

                await world.until(restarted, seconds=400)
                starts.append(loop.time())
            gaps = [round(after - before) for before, after in itertools.pairwise(starts)]
            assert gaps == [1, 11, 21, 41, 81, 161, 301, 301]

    virtual(main)


def test_a_crash_loop_in_the_words_of_kubectl() -> None:
    async def main() -> None:
        async with playing(nodes=1) as world:
            created = await world.create(pod("a", notes={"run-seconds": "5", "exit-code": "2"}))
            await world.status("Pod", "a", phase="Running")
            await world.quiet(seconds=12)
            found = await world.get("Pod", "a")
            now = (1_700_000_000 + int(asyncio.get_running_loop().time())) * 10**9
            shown = (pod_ready(found), pod_status(found), pod_restarts(found, now))
            assert shown == ("0/1", "CrashLoopBackOff", "1 (2s ago)")
            assert found["status"]["phase"] == "Running"
            state = container(found)
            who = f"a_default({created['metadata']['uid']})"
            message = f"back-off 10s restarting failed container=main pod={who}"
            assert state["state"]["waiting"] == {"reason": "CrashLoopBackOff", "message": message}
            assert state["lastState"]["terminated"]["exitCode"] == 2
            assert state["lastState"]["terminated"]["reason"] == "Error"
            recorded = await events(world, "BackOff")
            assert recorded == [f"Back-off restarting failed container main in pod {who}"]
            ready = next(one for one in found["status"]["conditions"] if one["type"] == "Ready")
            assert (ready["reason"], ready["message"]) == (
                "ContainersNotReady",
                "containers with unready status: [main]",
            )
            await world.quiet(seconds=9)
            found = await world.get("Pod", "a")
            assert (pod_ready(found), pod_status(found)) == ("1/1", "Running")
            assert container(found)["restartCount"] == 2

    virtual(main)


def test_a_long_run_resets_the_backoff() -> None:
    async def main() -> None:
        async with playing(nodes=1) as world:
            await world.create(pod("a", notes={"run-seconds": "700"}))
            await world.status("Pod", "a", phase="Running")
            for count in (1, 2):
                await world.quiet(seconds=700)
                found = await world.get("Pod", "a")
                assert container(found)["restartCount"] == count
                assert pod_status(found) == "Running"

    virtual(main)


@pytest.mark.parametrize(
    ("policy", "exit_code", "phase", "restarts"),
    [
        ("Always", "0", "Running", True),
        ("Always", "1", "Running", True),
        ("OnFailure", "0", "Succeeded", False),
        ("OnFailure", "1", "Running", True),
        ("Never", "0", "Succeeded", False),
        ("Never", "1", "Failed", False),
    ],
)
def test_restart_policies(policy: str, exit_code: str, phase: str, restarts: bool) -> None:
    async def main() -> None:
        async with playing(nodes=1) as world:
            notes = {"run-seconds": "10", "exit-code": exit_code}
            await world.create(pod("a", notes=notes, restartPolicy=policy))
            await world.status("Pod", "a", phase="Running")
            await world.quiet(seconds=12)
            found = await world.get("Pod", "a")
            assert found["status"]["phase"] == phase
            assert bool(container(found)["restartCount"]) == restarts

    virtual(main)


def test_a_crash_loop_goes_on_after_a_restart() -> None:
    async def main() -> None:
        store = await RevisionStore.open(None)
        clock = LoopClock(asyncio.get_running_loop(), epoch_ns=1_700_000_000 * 10**9)
        core = Core(store, clock=clock)
        async with playing(core, nodes=1) as world:
            await world.create(pod("a", notes={"run-seconds": "1"}))
            await world.status("Pod", "a", phase="Running")
            await world.quiet(seconds=16)
            found = await world.get("Pod", "a")
            assert (container(found)["restartCount"], pod_status(found)) == (2, "CrashLoopBackOff")
        async with playing(core, nodes=1) as world:
            await world.quiet(seconds=10)
            assert container(await world.get("Pod", "a"))["restartCount"] == 2
            await world.quiet(seconds=10)
            assert container(await world.get("Pod", "a"))["restartCount"] == 3
        await store.close()

    virtual(main)


def test_a_pod_ends_at_its_deadline() -> None:
    async def main() -> None:
        async with playing(nodes=1) as world:
            await world.create(pod("a", activeDeadlineSeconds=20))
            await world.status("Pod", "a", phase="Running")
            found = await world.status("Pod", "a", phase="Failed", seconds=22)
            assert found["status"]["reason"] == "DeadlineExceeded"

    virtual(main)


# Probes


def test_readiness_comes_after_the_annotated_delay() -> None:
    async def main() -> None:
        async with playing(nodes=1) as world:
            await world.create(pod("a", notes={"ready-after-seconds": "30"}))
            found = await world.status("Pod", "a", phase="Running")
            assert (pod_ready(found), pod_status(found)) == ("0/1", "Running")
            await world.quiet(seconds=29)
            assert not await is_ready(world, "a")
            await world.condition("Pod", "a", "Ready", seconds=2)

    virtual(main)


def test_readiness_can_be_taken_and_given_back() -> None:
    async def main() -> None:
        async with playing(nodes=1) as world:
            await world.create(pod("a"))
            await world.condition("Pod", "a", "Ready")
            for value, ready in (("false", False), (None, True)):
                await world.patch("Pod", "a", {"metadata": {"annotations": {"kuberth.dev/ready": value}}})
                await world.quiet(seconds=1)
                assert await is_ready(world, "a") == ready
                assert container(await world.get("Pod", "a"))["ready"] == ready

    virtual(main)


@pytest.mark.parametrize(("policy", "phase"), [("Always", "Running"), ("Never", "Failed")])
def test_a_failing_liveness_probe_kills(policy: str, phase: str) -> None:
    async def main() -> None:
        async with playing(nodes=1) as world:
            await world.create(pod("a", notes={"live-seconds": "10"}, restartPolicy=policy))
            await world.status("Pod", "a", phase="Running")
            await world.quiet(seconds=12)
            found = await world.get("Pod", "a")
            assert found["status"]["phase"] == phase
            state = container(found)
            ended = state["lastState"] if policy == "Always" else state["state"]
            assert ended["terminated"]["exitCode"] == 137
            if policy == "Always":
                assert state["restartCount"] == 1
                expected = "Container main failed liveness probe, will be restarted"
                assert await events(world, "Killing") == [expected]

    virtual(main)


# Pods that do not fit


def _placed(**spec: Any) -> Obj:
    return pod("misfit", nodeName="node-1", **spec)


_FULL = "Node didn't have enough resource: "
_AFFINITY = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"


@pytest.mark.parametrize(
    ("body", "reason", "message"),
    [
        (
            _placed(requests={"cpu": "7"}),
            "OutOfcpu",
            f"{_FULL}cpu, requested: 7000, used: 2000, capacity: 8000",
        ),
        (
            _placed(requests={"memory": "32Gi"}),
            "OutOfmemory",
            f"{_FULL}memory, requested: 34359738368, used: 1024, capacity: 34359738368",
        ),
        (_placed(requests={"hugepages-2Mi": "2Mi", "cpu": "1"}), "OutOfhugepages-2Mi", None),
        (_placed(nodeSelector={"disk": "ssd"}), "NodeAffinity", _AFFINITY),
        (
            pod("misfit", nodeName="tainted"),
            "TaintToleration",
            "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate",
        ),
        (
            pod("misfit", nodeName="full-1"),
            "OutOfpods",
            f"{_FULL}pods, requested: 1, used: 1, capacity: 1",
        ),
    ],
    ids=["cpu", "memory", "hugepages", "node selector", "NoExecute taint", "pods"],
)
def test_a_node_refuses_what_does_not_fit(body: Obj, reason: str, message: str | None) -> None:
    async def main() -> None:
        shapes = [
            {"name": "node", "count": 1},
            {"name": "full", "count": 1, "capacity": {"pods": "1"}},
        ]
        async with playing(shapes=shapes, binder=False, controllers=()) as world:
            tainted = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": "tainted", "annotations": {"kuberth.dev/hollow": "true"}},
                "spec": {"taints": [{"key": "gone", "effect": "NoExecute"}]},
            }
            await world.create(tainted)
            for node in ("node-1", "full-1"):
                requests = {"cpu": "2", "memory": "1Ki"}
                await world.create(pod(f"on-{node}", nodeName=node, requests=requests))
                await world.status("Pod", f"on-{node}", phase="Running")
            # What only a scheduler checks, and what is not counted here, is no reason.
            await world.create(pod("fine", nodeName="node-1", requests={"example.com/dongle": "1"}))
            await world.status("Pod", "fine", phase="Running")
            await world.create(body)
            found = await world.status("Pod", "misfit", phase="Failed")
            assert found["status"]["reason"] == reason == pod_status(found)
            recorded = await events(world, reason)
            assert len(recorded) == 1
            assert found["status"]["message"] == f"Pod was rejected: {recorded[0]}"
            if message is not None:
                assert recorded == [message]

    virtual(main)


def test_resources_are_free_again_when_a_pod_ends_or_is_deleted() -> None:
    async def main() -> None:
        async with playing(nodes=1, binder=False) as world:
            room = {"cpu": "5"}
            never = {"nodeName": "node-1", "restartPolicy": "Never"}
            await world.create(pod("ends", notes={"run-seconds": "5"}, requests=room, **never))
            await world.status("Pod", "ends", phase="Succeeded")
            await world.create(pod("goes", requests=room, nodeName="node-1"))
            await world.status("Pod", "goes", phase="Running")
            await world.delete("Pod", "goes")
            await world.gone("Pod", "goes")
            await world.create(pod("next", requests=room, nodeName="node-1"))
            await world.status("Pod", "next", phase="Running")

    virtual(main)


def test_ports_of_the_host_are_taken_once() -> None:
    async def main() -> None:
        async with playing(nodes=1, binder=False) as world:
            for name, expected in (("first", "Running"), ("second", "Failed")):
                body = pod(name, nodeName="node-1")
                body["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
                await world.create(body)
                found = await world.status("Pod", name, phase=expected)
            assert found["status"]["reason"] == "NodePorts"

    virtual(main)


def test_the_observed_generation_is_reported() -> None:
    async def main() -> None:
        async with playing(nodes=1) as world:
            await world.create(pod("a"))
            await world.status("Pod", "a", phase="Running")
            changed = await world.patch("Pod", "a", {"spec": {"activeDeadlineSeconds": 3000}})
            assert changed["metadata"]["generation"] == 2
            found = await world.status("Pod", "a", observedGeneration=2, seconds=2)
            assert {one["observedGeneration"] for one in found["status"]["conditions"]} == {2}

    virtual(main)


def test_a_step_is_written_once() -> None:
    async def main() -> None:
        async with playing(nodes=1) as world:
            written, update = [], world.core.update

            async def counted(resource: Any, name: str, body: Any, **options: Any) -> Obj:
                written.append((resource, name))
                return await update(resource, name, body, **options)

            world.core.update = counted  # type: ignore[method-assign]  # a fault: it counts
            await world.create(pod("runs", initContainers=[{"name": "init", "image": "busybox"}]))
            await world.create(pod("ends", notes={"run-seconds": "5"}, restartPolicy="Never"))
            await world.quiet(seconds=20)
            assert [name for resource, name in written if resource == "pods"] == ["runs", "ends", "ends"]

    virtual(main)


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Running"},
        {"phase": "Running", "startTime": "2023-11-14T22:13:20Z"},
        {"phase": "Running", "startTime": "2023-11-14T22:13:20Z", "containerStatuses": []},
        {"phase": "Unknown", "startTime": "2023-11-14T22:13:20Z"},
        {"phase": "Pending", "conditions": []},
    ],
)
def test_a_status_that_others_wrote_does_no_harm(status: Obj) -> None:
    """The harness fails if anything raised."""

    async def main() -> None:
        async with playing(nodes=1) as world:
            notes = {"run-seconds": "30", "exit-code": "1"}
            await world.create(pod("a", notes=notes, activeDeadlineSeconds=120))
            await world.status("Pod", "a", phase="Running")
            found = await world.get("Pod", "a")
            await world.core.update(
                "pods", "a", {**found, "status": status}, namespace="default", subresource="status"
            )
            await world.status("Pod", "a", phase="Failed", seconds=150)
            await world.delete("Pod", "a")
            await world.gone("Pod", "a")

    virtual(main)


@pytest.mark.parametrize("seed", range(4))
def test_no_crash_is_lost_or_counted_twice_if_a_write_fails(seed: int) -> None:
    """A third of the writes fails before it is done, another third after."""

    async def main() -> None:
        async with playing(nodes=1, controllers=()) as world:
            rng, update = random.Random(seed), world.core.update

            async def unreliable(resource: Any, name: str, body: Any, **options: Any) -> Obj:
                fate = rng.random()
                if resource != "pods":
                    return await update(resource, name, body, **options)
                if fate < 1 / 3:
                    raise StatusError(409, "Conflict", "another was first")
                written = await update(resource, name, body, **options)
                if fate < 2 / 3:
                    raise StatusError(504, "Timeout", "the answer was lost")
                return written

            world.core.update = unreliable  # type: ignore[method-assign]  # a fault of the server
            await world.create(pod("a", notes={"run-seconds": "20", "exit-code": "1"}))
            await world.status("Pod", "a", phase="Running")
            seen = []
            for _ in range(160):
                await world.quiet(seconds=1)
                state = container(await world.get("Pod", "a"))
                crashes = int(state["restartCount"]) + ("waiting" in state["state"])
                seen.append(crashes)
                assert ("terminated" in state["lastState"]) == (crashes > 0)
            # It crashes after 20, 40, 70, 110 and 170 seconds, give or take what was tried again.
            assert [seen[at] for at in (15, 35, 60, 100, 159)] == [0, 1, 2, 3, 4]

    virtual(main)


@pytest.mark.parametrize(
    ("policy", "once", "phase"),
    [("Never", True, "Succeeded"), ("Never", False, "Running"), ("Always", True, "Running")],
    ids=["run-rm-i", "kept-open", "restarted"],
)
def test_a_pod_that_reads_its_input_once_ends_for_nothing_can_attach(
    policy: str, once: bool, phase: str
) -> None:
    async def main() -> None:
        async with playing(nodes=1) as world:
            reading = {"name": "main", "image": "x", "stdin": True, "stdinOnce": once}
            await world.create(pod("a", containers=[reading], restartPolicy=policy))
            await world.quiet(seconds=10)
            found = await world.get("Pod", "a")
            assert (found["status"]["phase"], container(found)["restartCount"]) == (phase, 0)

    virtual(main)
