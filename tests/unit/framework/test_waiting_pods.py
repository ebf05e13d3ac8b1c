from __future__ import annotations

import asyncio

from kuberth.framework import SUCCESS, Code, Status
from kuberth.framework.waiting_pods import WaitingPods
from kuberth.testing import make_pod, run_in_virtual_time

POD = make_pod("p", uid="u")


async def _now() -> float:
    return asyncio.get_running_loop().time()


def test_a_pod_goes_on_once_everyone_allowed_it() -> None:
    async def main() -> None:
        waiting = WaitingPods().add(POD, {"A": 10, "B": 20})
        outcome = asyncio.ensure_future(waiting.wait())
        assert set(waiting.pending_plugins) == {"A", "B"}
        waiting.allow("B")
        await asyncio.sleep(1)
        assert not outcome.done()
        assert set(waiting.pending_plugins) == {"A"}
        waiting.allow("A")
        assert await outcome is SUCCESS
        assert await _now() == 1

    run_in_virtual_time(main)


def test_allowing_by_another_plugin_has_no_effect() -> None:
    async def main() -> None:
        waiting = WaitingPods().add(POD, {"A": 10})
        waiting.allow("Z")
        assert waiting.pending_plugins == ("A",)
        assert not (await waiting.wait()).is_success

    run_in_virtual_time(main)


def test_one_rejection_is_enough() -> None:
    async def main() -> None:
        waiting = WaitingPods().add(POD, {"A": 10, "B": 20})
        waiting.allow("A")
        assert waiting.reject("Z", "changed my mind")
        assert await waiting.wait() == Status(Code.UNSCHEDULABLE, "changed my mind", plugin="Z")
        assert await _now() == 0

    run_in_virtual_time(main)


def test_a_fate_is_decided_once() -> None:
    async def main() -> None:
        allowed = WaitingPods().add(POD, {"A": 10})
        allowed.allow("A")
        assert not allowed.reject("B", "too late")
        assert (await allowed.wait()).is_success
        rejected = WaitingPods().add(POD, {"A": 10})
        rejected.reject("B", "no")
        rejected.allow("A")
        assert not (await rejected.wait()).is_success
        assert not rejected.preempt("B", "too late")

    run_in_virtual_time(main)


def test_the_first_limit_that_passes_rejects() -> None:
    async def main() -> None:
        waiting = WaitingPods().add(POD, {"Slow": 20, "Quick": 5})
        status = await waiting.wait()
        assert await _now() == 5
        assert (status.code, status.plugin) == (Code.UNSCHEDULABLE, "Quick")
        assert status.message == "rejected due to timeout after waiting 5s at plugin Quick"

    run_in_virtual_time(main)


def test_the_limit_of_a_plugin_that_allowed_does_not_count() -> None:
    async def main() -> None:
        waiting = WaitingPods().add(POD, {"Slow": 20, "Quick": 5})
        waiting.allow("Quick")
        status = await waiting.wait()
        assert (await _now(), status.plugin) == (20, "Slow")

    run_in_virtual_time(main)


def test_a_preempted_pod_comes_back_as_after_an_error() -> None:
    async def main() -> None:
        waiting = WaitingPods().add(POD, {"A": 10})
        assert waiting.preempt("DefaultPreemption", "preempted")
        assert await waiting.wait() == Status(Code.ERROR, "preempted", plugin="DefaultPreemption")

    run_in_virtual_time(main)


def test_a_cancelled_waiter_decides_nothing() -> None:
    async def main() -> None:
        waiting = WaitingPods().add(POD, {"A": 10})
        task = asyncio.ensure_future(waiting.wait())
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.sleep(1)
        waiting.allow("A")
        assert (await waiting.wait()).is_success

    run_in_virtual_time(main)


def test_all_waiting_pods_can_be_listed_and_rejected() -> None:
    async def main() -> None:
        pods = WaitingPods()
        for number in (1, 2, 3):
            pods.add(make_pod(f"p{number}", uid=f"u{number}"), {"A": 10})
        assert [waiting.pod.metadata.name for waiting in pods] == ["p1", "p2", "p3"]
        assert len(pods) == 3
        assert pods.get("u2") is not None
        assert pods.get("u9") is None
        assert pods.reject("u2", "removed")
        assert not pods.reject("u9", "never here")
        for waiting in pods:  # a plugin may end waits while it walks over them
            waiting.allow("A")
            pods.remove(waiting.pod.metadata.uid)
        pods.remove("u9")
        assert len(pods) == 0

    run_in_virtual_time(main)
