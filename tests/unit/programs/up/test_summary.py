from __future__ import annotations

from typing import Any

from kuberth.api.core import Pod
from kuberth.api.wire import convert
from kuberth.framework.waiting_pods import WaitingPods
from kuberth.local.apiserver.objects import Obj
from kuberth.programs.up.summary import Observer
from tests.unit.local.apiserver.harness import CoreHarness, run


class Time:
    now = 100.0

    def __call__(self) -> float:
        return self.now


async def write_message(harness: CoreHarness, pod: Obj, message: str) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    status = {**pod["status"], "conditions": [condition]}
    await harness.core.update(
        "pods", pod["metadata"]["name"], {**pod, "status": status}, namespace="default", subresource="status"
    )


def test_waiting_pods_by_reason() -> None:
    async def main(harness: CoreHarness) -> None:
        await harness.core.create("nodes", {"metadata": {"name": "n"}})
        for number, preempting in enumerate(("", ". preemption: 0/1 nodes", ". preemption: not asked")):
            await write_message(
                harness, await harness.pod(f"w{number}"), f"0/1 nodes are available: 1 Too small{preempting}"
            )
        await harness.pod("fresh")
        await harness.pod("gated", schedulingGates=[{"name": "a/b"}, {"name": "c/d"}])
        await harness.pod("bound", bound="n")
        summary = await Observer(harness.core).summarize()
        assert summary.nodes == 1
        assert summary.pods == {"unscheduled": 4, "gated": 1, "Pending": 1}
        assert summary.reasons == {
            "0/1 nodes are available: 1 Too small": 3,
            "not tried yet": 1,
            "gated by a/b, c/d": 1,
        }

    run(main)


def test_pods_waiting_in_permit() -> None:
    async def main(harness: CoreHarness) -> None:
        waiting_pods = WaitingPods()
        observer = Observer(harness.core, waiting_pods=waiting_pods)
        held: Any = await harness.pod("held")
        waiting = waiting_pods.add(convert(Pod, held), {"Gang": 60.0, "Budget": 60.0})
        summary = await observer.summarize()
        assert summary.pods == {"waiting in Permit": 1}
        assert summary.reasons == {"waiting in Permit for Gang, Budget": 1}
        waiting.reject("Gang", "enough")
        waiting_pods.remove(held["metadata"]["uid"])
        assert (await observer.summarize()).pods == {"unscheduled": 1}

    run(main)


def test_pods_placed_and_not_yet_bound() -> None:
    async def main(harness: CoreHarness) -> None:
        body = await harness.pod("slow")
        body = {**body, "status": {**body.get("status", {}), "nominatedNodeName": "n1"}}
        await harness.core.update("pods", "slow", body, namespace="default", subresource="status")
        assert (await Observer(harness.core).summarize()).reasons == {"placed, waiting in PreBind": 1}

    run(main)


def test_pods_bound_a_second_over_the_last_seconds() -> None:
    async def main(harness: CoreHarness) -> None:
        time = Time()
        observer = Observer(harness.core, now=time)
        await harness.pod("before", bound="n")
        rates = []
        for second in range(9):
            for number in range(10 if second in (1, 2) else 0):
                await harness.pod(f"p{second}-{number}", bound="n")
            rates.append((await observer.summarize()).bound_per_second)
            time.now += 1.0
        # Pods that had their node before the first look do not count; after five seconds nothing does.
        assert rates == [0.0, 10.0, 10.0, 20 / 3, 5.0, 4.0, 4.0 / 2, 0.0, 0.0]

    run(main)


def test_looking_never_takes_more_than_its_share() -> None:
    async def main(harness: CoreHarness) -> None:
        times = iter([0.0, 0.5])
        observer = Observer(harness.core, now=lambda: next(times))
        assert observer.pause_seconds == 1.0
        await observer.summarize()
        assert observer.pause_seconds == 10.0

    run(main)


def test_a_changed_rate_alone_is_no_change() -> None:
    async def main(harness: CoreHarness) -> None:
        time = Time()
        observer = Observer(harness.core, now=time)
        await observer.summarize()
        await harness.pod("p", bound="n")
        time.now += 1.0
        first = await observer.summarize()
        time.now += 1.0
        second = await observer.summarize()
        assert first.bound_per_second != second.bound_per_second
        assert first == second

    run(main)
