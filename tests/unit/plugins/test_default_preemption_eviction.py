"""How a preemption is carried out, and when the gate is open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest

from kuberth.api.core import Pod
from kuberth.clock import NANOSECONDS
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.config import FeatureGates
from kuberth.errors import ApiError
from kuberth.framework.handle import Handle, PodEvent
from kuberth.framework.nominator import Nominator
from kuberth.framework.status import Code
from kuberth.framework.waiting_pods import WaitingPods
from kuberth.informers.store import Stores
from kuberth.local.memory_api import MemoryApi
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.plugins.default_preemption.candidates import Candidate
from kuberth.plugins.default_preemption.eviction import AT_ONCE, MIN_VICTIMS_TO_CLEAN_UP, Evictions
from kuberth.plugins.default_preemption.plans import Victims
from kuberth.testing.clock import FakeClock
from kuberth.testing.factories import make_pod

NOW_NS = 1_767_225_600 * NANOSECONDS
NOW = "2026-01-01T00:00:00Z"
MESSAGE = "default-scheduler: preempting to accommodate a higher priority pod"


class WatchedApi(MemoryApi):
    """Records its calls, delays requests or refuses them."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []
        self.patches: dict[str, Mapping[str, Any]] = {}
        self.refused: set[str] = set()
        self.held: dict[str, asyncio.Event] = {}

    async def patch(
        self,
        kind: type[Any],
        name: str,
        patch: Mapping[str, Any],
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> Any:
        self.log.append(f"patch {name}")
        self.patches[name] = patch
        if f"patch {name}" in self.refused:
            raise ApiError("no", code=500)
        return await super().patch(kind, name, patch, namespace=namespace, subresource=subresource)

    async def delete(
        self,
        kind: type[Any],
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        grace_period_seconds: int | None = None,
    ) -> None:
        self.log.append(f"delete {name}")
        if f"delete {name}" in self.refused:
            raise ApiError("no", code=500)
        await super().delete(kind, name, namespace=namespace, uid=uid)
        if name in self.held:
            await self.held[name].wait()


class Surroundings:
    """What evictions touch, recorded."""

    def __init__(self, *pods: Pod, asynchronous: bool = True) -> None:
        self.api = WatchedApi()
        self.stores = Stores()
        self.nominator = Nominator()
        self.waiting_pods = WaitingPods()
        self.metrics = SchedulerMetrics()
        self.activated: list[str] = []
        self.events: list[str] = []
        self.work: list[Coroutine[Any, Any, None]] = []
        handle = Handle(
            api=self.api,
            stores=self.stores,
            cluster=ClusterTable(),
            clock=FakeClock(NOW_NS),
            feature_gates=FeatureGates(),
            waiting_pods=self.waiting_pods,
            nominator=self.nominator,
            activator=self,
            recorder=self,
            spawn=lambda work, *, name: self.work.append(work),
            metrics=self.metrics,
        )
        self.evictions = Evictions(handle, plugin="DefaultPreemption", asynchronous=asynchronous)
        for pod in pods:
            self.api.put(pod)
            self.stores.of(Pod).set(pod)

    def activate(self, pods: Mapping[str, Pod]) -> None:
        self.activated += pods

    def record(self, event: PodEvent) -> None:
        kind = "Warning" if event.warning else "Normal"
        pod, preemptor = event.regarding.metadata.name, event.related.metadata.name
        self.events.append(f"{pod} {kind} {event.reason} {event.action} {preemptor}: {event.note}")

    def start(self, preemptor: Pod, *victims: Pod) -> None:
        self.evictions.start(PodInfo(preemptor), Candidate("n1", Victims(tuple(map(PodInfo, victims)), 0)))

    async def finish(self) -> None:
        while self.work:
            await self.work.pop(0)

    def run(self, preemptor: Pod, *victims: Pod) -> None:
        self.start(preemptor, *victims)
        asyncio.run(self.finish())

    @property
    def deleted(self) -> list[str]:
        return [entry.removeprefix("delete ") for entry in self.api.log if entry.startswith("delete")]


def victim(name: str, **fields: Any) -> Pod:
    return make_pod(name, uid=f"uid-{name}", node="n1", **fields)


def preemptor(**fields: Any) -> Pod:
    return make_pod("incoming", uid="uid-incoming", priority=100, **fields)


def test_a_victim_gets_a_condition_and_is_deleted() -> None:
    low = victim("low", metadata={"generation": 3})
    scene = Surroundings(low)
    scene.run(preemptor(), low)
    assert scene.api.log == ["patch low", "delete low"]
    assert scene.metrics.preemption_goroutines_execution.values == {("success",): 1}
    assert list(scene.metrics.preemption_goroutines_duration.values) == [("success",)]
    assert scene.api.patches["low"] == {
        "metadata": {"uid": "uid-low"},
        "status": {
            "conditions": [
                {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "observedGeneration": 3,
                    "lastTransitionTime": NOW,
                    "reason": "PreemptionByScheduler",
                    "message": MESSAGE,
                }
            ]
        },
    }
    assert scene.events == [
        "low Normal Preempted Preempting incoming: Preempted by pod uid-incoming on node n1"
    ]
    assert scene.activated == []
    # Its kubelet ends it.
    assert scene.api.read(Pod, "default/low").metadata.deletion_timestamp is not None


@pytest.mark.parametrize(
    ("condition", "since"),
    [
        pytest.param(
            {"status": "True", "reason": "PreemptionByScheduler", "message": MESSAGE}, None, id="same"
        ),
        pytest.param({"status": "True", "reason": "Other"}, "2025-12-31T00:00:00Z", id="another reason"),
        pytest.param({"status": "False", "reason": "PreemptionByScheduler"}, NOW, id="not true until now"),
    ],
)
def test_a_condition_is_written_only_if_it_changes(condition: dict[str, str], since: str | None) -> None:
    had = {"type": "DisruptionTarget", "lastTransitionTime": "2025-12-31T00:00:00Z", **condition}
    low = victim("low", status={"conditions": [had]})
    scene = Surroundings(low)
    scene.run(preemptor(), low)
    assert scene.deleted == ["low"]
    if since is None:
        assert scene.api.patches == {}
    else:
        assert scene.api.patches["low"]["status"]["conditions"][0]["lastTransitionTime"] == since


def test_the_last_victim_waits_for_all_others() -> None:
    victims = [victim(name) for name in ("a", "b", "c")]
    scene = Surroundings(*victims)
    scene.run(preemptor(), *victims)
    assert sorted(scene.deleted[:2]) == ["a", "b"]
    assert scene.deleted[2] == "c"
    assert [value.sum for value in scene.metrics.preemption_victims.values.values()] == [3]


def test_with_the_gate_off_victims_go_in_order() -> None:
    victims = [victim(name) for name in ("a", "b", "c")]
    lesser = make_pod("lesser", priority=50, status={"nominatedNodeName": "n1"})
    scene = Surroundings(*victims, lesser, asynchronous=False)
    scene.nominator.nominate(PodInfo(lesser), "n1")
    scene.start(preemptor(), *victims)
    assert scene.evictions.gates(preemptor())
    asyncio.run(scene.finish())
    assert scene.deleted == ["a", "b", "c"]
    assert scene.api.log[-1] == "patch lesser"
    assert not scene.evictions.gates(preemptor())


def test_a_victim_on_its_way_out_is_left_alone_but_counted() -> None:
    going = victim("going", metadata={"deletionTimestamp": NOW})
    low = victim("low")
    scene = Surroundings(going, low)
    scene.run(preemptor(), going, low)
    assert scene.deleted == ["low"]
    assert [value.sum for value in scene.metrics.preemption_victims.values.values()] == [2]


def test_if_all_are_on_their_way_out_there_is_nothing_to_do() -> None:
    going = victim("going", metadata={"deletionTimestamp": NOW})
    scene = Surroundings(going)
    scene.start(preemptor(), going)
    assert scene.work == []
    assert not scene.evictions.gates(preemptor())
    assert scene.metrics.preemption_victims.values == {}


def _gone(scene: Surroundings, low: Pod) -> None:
    scene.api.remove(Pod, "default/low")


def _replaced(scene: Surroundings, low: Pod) -> None:
    scene.api.remove(Pod, "default/low")
    scene.api.put(make_pod("low", uid="uid-another"))


@pytest.mark.parametrize(
    "before", [pytest.param(_gone, id="deleted"), pytest.param(_replaced, id="another pod has its name")]
)
def test_a_victim_that_is_gone_needs_no_event(before: Callable[[Surroundings, Pod], None]) -> None:
    low = victim("low")
    scene = Surroundings(low)
    before(scene, low)
    scene.run(preemptor(), low)
    assert scene.events == []
    assert scene.activated == []
    assert not scene.evictions.gates(preemptor())


def test_another_pod_of_the_same_name_is_not_deleted() -> None:
    low = victim("low")
    scene = Surroundings(low)
    _replaced(scene, low)
    scene.run(preemptor(), low)
    assert scene.api.read(Pod, "default/low").metadata.uid == "uid-another"


@pytest.mark.parametrize(
    ("refused", "deleted"),
    [
        pytest.param("patch a", ["b"], id="the first victim's condition"),
        pytest.param("delete a", ["a", "b"], id="the first victim's deletion"),
        pytest.param("delete c", ["a", "b", "c"], id="the last victim's deletion"),
    ],
)
@pytest.mark.parametrize("asynchronous", [True, False], ids=["gate on", "gate off"])
def test_after_a_failure_the_pod_is_tried_again(
    refused: str, deleted: list[str], asynchronous: bool, caplog: pytest.LogCaptureFixture
) -> None:
    victims = [victim(name) for name in ("a", "b", "c")]
    scene = Surroundings(*victims, asynchronous=asynchronous)
    scene.api.refused = {refused}
    scene.run(preemptor(), *victims)
    assert set(scene.deleted) <= set(deleted)
    assert ("c" in scene.deleted) is ("c" in deleted)
    assert scene.activated == ["default/incoming"]
    assert not scene.evictions.gates(preemptor())
    assert "preemption for pod default/incoming on node n1 failed" in caplog.text
    assert scene.metrics.preemption_goroutines_execution.values == {("error",): 1}


def test_a_waiting_victim_leaves_without_being_deleted() -> None:
    async def scenario() -> None:
        low = victim("low")
        scene = Surroundings(low)
        waiting = scene.waiting_pods.add(low, {"Gang": 60.0})
        scene.start(preemptor(), low)
        await scene.finish()
        status = await waiting.wait()
        assert (status.code, status.plugin, status.reasons) == (
            Code.ERROR,
            "DefaultPreemption",
            ("preempted",),
        )
        assert scene.api.log == []
        assert not scene.evictions.is_leaving(PodInfo(low))
        assert scene.events == [
            "low Normal Preempted Preempting incoming: "
            "Preempted by pod uid-incoming on node n1 (in kube-scheduler memory)."
        ]

    asyncio.run(scenario())


def test_a_victim_that_no_longer_waits_is_deleted() -> None:
    async def scenario() -> None:
        low = victim("low")
        scene = Surroundings(low)
        scene.waiting_pods.add(low, {"Gang": 60.0}).allow("Gang")
        scene.start(preemptor(), low)
        await scene.finish()
        assert scene.deleted == ["low"]

    asyncio.run(scenario())


def test_lower_priority_nominations_to_the_node_are_cleared() -> None:
    low = victim("low")
    lesser = make_pod("lesser", priority=50, status={"nominatedNodeName": "n1"})
    equal = make_pod("equal", priority=100, status={"nominatedNodeName": "n1"})
    elsewhere = make_pod("elsewhere", priority=50, status={"nominatedNodeName": "n2"})
    unwritten = make_pod("unwritten", priority=50)
    scene = Surroundings(low, lesser, equal, elsewhere, unwritten)
    for pod, node in ((lesser, "n1"), (equal, "n1"), (elsewhere, "n2"), (unwritten, "n1")):
        scene.nominator.nominate(PodInfo(pod), node)
    scene.run(preemptor(), low)
    assert scene.api.log == ["patch lesser", "patch low", "delete low"]
    assert scene.api.patches["lesser"]["status"] == {"nominatedNodeName": None}
    assert scene.api.read(Pod, "default/lesser").status.nominated_node_name == ""


def test_a_nomination_that_cannot_be_cleared_does_not_stop_the_evictions() -> None:
    low = victim("low")
    lesser = make_pod("lesser", priority=50, status={"nominatedNodeName": "n1"})
    scene = Surroundings(low, lesser)
    scene.nominator.nominate(PodInfo(lesser), "n1")
    scene.api.refused = {"patch lesser"}
    scene.run(preemptor(), low)
    assert scene.deleted == ["low"]
    assert scene.activated == ["default/incoming"]


def test_the_gate_is_shut_until_the_last_victim_goes() -> None:
    async def scenario() -> None:
        first, last = victim("first"), victim("last")
        scene = Surroundings(first, last)
        scene.api.held = {"first": asyncio.Event(), "last": asyncio.Event()}
        pod = preemptor()
        scene.start(pod, first, last)
        assert scene.evictions.gates(pod)
        assert not scene.evictions.gates(make_pod("other"))
        task = asyncio.create_task(scene.finish(), name="preemption")
        await settle()
        scene.stores.of(Pod).remove(first)
        assert scene.evictions.gates(pod)
        scene.api.held["first"].set()
        await settle()
        assert scene.evictions.gates(pod)
        # The informer hears of the deletion before the request that caused it is answered.
        scene.stores.of(Pod).remove(last)
        assert not scene.evictions.gates(pod)
        scene.api.held["last"].set()
        await task
        assert not scene.evictions.gates(pod)
        assert scene.activated == []

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("change", "still_shut"),
    [
        pytest.param({"metadata": {"deletionTimestamp": NOW}}, False, id="it is being deleted"),
        pytest.param({"uid": "uid-another"}, False, id="another pod has its name"),
        pytest.param({"labels": {"new": "label"}}, True, id="only its labels changed"),
    ],
)
def test_when_the_last_victim_counts_as_gone(change: dict[str, Any], still_shut: bool) -> None:
    async def scenario() -> None:
        last = victim("last")
        scene = Surroundings(last)
        scene.api.held = {"last": asyncio.Event()}
        scene.start(preemptor(), last)
        task = asyncio.create_task(scene.finish(), name="preemption")
        await settle()
        scene.stores.of(Pod).set(make_pod("last", node="n1", **{"uid": "uid-last", **change}))
        assert scene.evictions.gates(preemptor()) is still_shut
        scene.api.held["last"].set()
        await task

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("heard_of", "woken"),
    [
        pytest.param(["first", "last"], True, id="no deletion is still to come"),
        pytest.param(["last"], False, id="the deletion of one is still to come"),
        pytest.param([], False, id="all deletions are still to come"),
    ],
)
def test_a_pod_that_was_turned_away_is_woken_if_nothing_else_would(heard_of: list[str], woken: bool) -> None:
    victims = [victim("first"), victim("last")]
    scene = Surroundings(*victims)
    scene.start(preemptor(), *victims)
    for pod in victims:
        if pod.metadata.name in heard_of:
            scene.stores.of(Pod).remove(pod)
    assert scene.evictions.gates(preemptor())
    asyncio.run(scene.finish())
    assert scene.activated == (["default/incoming"] if woken else [])
    assert not scene.evictions.gates(preemptor())


def test_a_pod_that_was_turned_away_is_woken_if_its_victim_was_being_bound() -> None:
    binding = make_pod("binding", uid="binding")
    scene = Surroundings(binding)
    scene.start(preemptor(), make_pod("binding", uid="binding", node="n1"))
    assert scene.evictions.gates(preemptor())
    asyncio.run(scene.finish())
    assert scene.activated == ["default/incoming"]


def test_many_preemptions_leave_connections_to_others() -> None:
    async def scenario() -> None:
        victims = [victim(f"low-{number}") for number in range(AT_ONCE + 3)]
        scene = Surroundings(*victims)
        scene.api.held = {pod.metadata.name: asyncio.Event() for pod in victims}
        for number, pod in enumerate(victims):
            scene.start(make_pod(f"incoming-{number}", uid=f"uid-{number}", priority=100), pod)
        tasks = [asyncio.create_task(work, name="preemption") for work in scene.work]
        await settle()
        assert len(scene.deleted) == AT_ONCE
        for event in scene.api.held.values():
            event.set()
        await asyncio.gather(*tasks)
        assert sorted(scene.deleted) == sorted(pod.metadata.name for pod in victims)

    asyncio.run(scenario())


def test_a_cancelled_preemption_leaves_the_gate_open() -> None:
    async def scenario() -> None:
        low = victim("low")
        scene = Surroundings(low)
        scene.api.held = {"low": asyncio.Event()}
        scene.start(preemptor(), low)
        task = asyncio.create_task(scene.finish(), name="preemption")
        await settle()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not scene.evictions.gates(preemptor())
        assert scene.activated == []

    asyncio.run(scenario())


def test_victims_are_not_remembered_for_ever() -> None:
    """A victim that ended only after its preemption was over is dropped in time."""
    victims = [victim(f"low-{index}") for index in range(4 * MIN_VICTIMS_TO_CLEAN_UP)]
    scene = Surroundings(*victims)
    for low in victims:
        scene.run(preemptor(), low)
        scene.stores.of(Pod).remove(low)
        assert len(scene.evictions._victims) <= MIN_VICTIMS_TO_CLEAN_UP


def test_a_victim_counts_as_leaving_until_it_is_seen_to_go() -> None:
    low, other = victim("low"), victim("other")
    scene = Surroundings(low, other)
    scene.start(preemptor(), low)
    assert scene.evictions.is_leaving(PodInfo(low))
    assert not scene.evictions.is_leaving(PodInfo(other))
    asyncio.run(scene.finish())
    assert scene.evictions.is_leaving(PodInfo(low))
    scene.stores.of(Pod).remove(low)
    scene.run(preemptor(), other)
    assert not scene.evictions.is_leaving(PodInfo(low))


def test_a_victim_that_could_not_be_evicted_stays() -> None:
    low = victim("low")
    scene = Surroundings(low)
    scene.api.refused = {"delete low"}
    scene.run(preemptor(), low)
    assert not scene.evictions.is_leaving(PodInfo(low))


async def settle() -> None:
    """Let every task go as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)
