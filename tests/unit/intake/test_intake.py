"""What becomes of every change: in the cluster table, in the queue, as an event with both versions."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pytest

from kuberth.api import ObjectMeta, Wire, register_kind
from kuberth.api.core import Namespace, Node, Pod
from kuberth.api.storage import StorageClass
from kuberth.cluster.pod_info import PodInfo
from kuberth.framework import Action, ClusterEvent, EnqueueExtensions, EventWithHint, FilterPlugin
from kuberth.queue.interface import PreCheck, QueueContext
from kuberth.queue.priority_queue import PriorityQueue
from kuberth.testing import make_namespace, make_node, make_pod, run_in_virtual_time
from kuberth.testing.harness import profile
from tests.unit.intake.harness import IntakeHarness
from tests.unit.plugins.volume_objects import (
    DRIVER,
    ZONE,
    make_attachment,
    make_claim,
    make_class,
    make_csi_driver,
    make_csi_node,
    make_volume,
)
from tests.unit.queue.harness import with_metadata, with_spec, with_status

OFF = {"SchedulerQueueingHints": False}
TAINT = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


class Notebook(PriorityQueue):
    """Notes its calls."""

    def __init__(self, context: QueueContext) -> None:
        super().__init__(context)
        self.events: list[tuple[str, object, object]] = []
        self.pods: list[str] = []
        self.checks: list[PreCheck | None] = []
        self.nodes_at_move: list[int] = []

    def move(
        self, event: ClusterEvent, old: object, new: object, *, pre_check: PreCheck | None = None
    ) -> None:
        self.events.append((event.label, old, new))
        self.checks.append(pre_check)
        self.nodes_at_move.append(self._context.cluster.node_count)
        super().move(event, old, new, pre_check=pre_check)

    def add(self, info: PodInfo) -> None:
        self.pods.append(f"add {info.key}")
        super().add(info)

    def update(self, old: Pod, new: PodInfo) -> None:
        self.pods.append(f"update {new.key}")
        super().update(old, new)

    def delete(self, pod: Pod) -> None:
        self.pods.append(f"delete {pod.metadata.namespace}/{pod.metadata.name}")
        super().delete(pod)


def noting(*objects: Any, **options: Any) -> tuple[IntakeHarness, Notebook]:
    """A harness whose queue notes everything that comes after these objects."""
    made: list[Notebook] = []

    def factory(context: QueueContext) -> Notebook:
        made.append(Notebook(context))
        return made[0]

    harness = IntakeHarness(*objects, queue=factory, **options)
    (notebook,) = made
    notebook.events.clear()
    notebook.pods.clear()
    notebook.checks.clear()
    notebook.nodes_at_move.clear()
    return harness, notebook


def labels(notebook: Notebook) -> list[str]:
    return [label for label, _old, _new in notebook.events]


def version(obj: Any, number: str, **metadata: Any) -> Any:
    return msgspec.structs.replace(
        obj, metadata=msgspec.structs.replace(obj.metadata, resource_version=number, **metadata)
    )


# Objects whose changes are events as they are


@pytest.mark.parametrize(
    ("resource", "old", "new"),
    [
        ("PersistentVolume", make_volume("v"), make_volume("v", labels={ZONE: "a"})),
        ("PersistentVolumeClaim", make_claim("c"), make_claim("c", volume="v")),
        ("storage.k8s.io/CSINode", make_csi_node("n"), make_csi_node("n", {DRIVER: 3})),
        ("storage.k8s.io/CSIDriver", make_csi_driver(), make_csi_driver(storage_capacity=True)),
        ("storage.k8s.io/StorageClass", make_class("s"), make_class("s", parameters={"a": "b"})),
        (
            "storage.k8s.io/VolumeAttachment",
            make_attachment("x", node="n", volume="v"),
            make_attachment("x", node="n", volume="w"),
        ),
    ],
    ids=["volume", "claim", "csi-node", "csi-driver", "storage-class", "attachment"],
)
def test_volumes_and_drivers_are_events_with_both_versions(resource: str, old: Any, new: Any) -> None:
    harness, notebook = noting()
    harness.put(old)
    harness.put(new)
    harness.remove(new)
    assert notebook.events == [
        (f"{resource}Add", None, old),
        (f"{resource}Update", old, new),
        (f"{resource}Delete", new, None),
    ]
    assert {
        label: value.count
        for (label,), value in harness.scheduler.metrics.event_handling_duration.values.items()
        if label.startswith(resource)
    } == {f"{resource}Add": 1, f"{resource}Update": 1, f"{resource}Delete": 1}


def test_namespaces_are_no_events() -> None:
    harness, notebook = noting(make_namespace("team", labels={"a": "b"}))
    assert harness.cluster.terms.namespace_labels("team") == {"a": "b"}
    harness.put(make_namespace("team", labels={"a": "c"}))
    assert harness.cluster.terms.namespace_labels("team") == {"a": "c"}
    harness.remove(make_namespace("team"))
    assert harness.cluster.terms.namespace_labels("team") == {}
    assert notebook.events == []
    assert harness.scheduler.intake.handler(Namespace) is not None
    assert harness.scheduler.intake.handler(StorageClass) is not None


# Nodes


def test_a_nodes_way() -> None:
    harness, notebook = noting()
    first, second = make_node("n", cpu="4"), make_node("n", cpu="8", labels={"a": "b"})
    harness.put(first)
    harness.put(second)
    harness.put(make_node("n", cpu="8", labels={"a": "b"}))
    harness.remove(second)
    assert notebook.events == [
        ("NodeAdd", None, first),
        ("NodeUpdateNodeAllocatable", first, second),
        ("NodeUpdateNodeLabel", first, second),
        ("NodeDelete", second, None),
    ]
    assert notebook.nodes_at_move == [1, 1, 1, 1], "queued pods see the node come, and not yet go"
    assert harness.cluster.node_count == 0
    counted = harness.scheduler.metrics.event_handling_duration.values
    assert {label: counted[(label,)].count for label, _old, _new in notebook.events} == {
        "NodeAdd": 1,
        "NodeUpdateNodeAllocatable": 1,
        "NodeUpdateNodeLabel": 1,
        "NodeDelete": 1,
    }


def test_a_node_with_an_unreadable_amount_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    harness, _notebook = noting(make_node("good"))
    assert caplog.text == ""
    harness.put(make_node("bad", cpu="much"))
    assert "node bad: " in caplog.text
    assert "it counts as zero" in caplog.text


PINNED: dict[str, Any] = {"nodeSelector": {ZONE: "a"}}
PRE_CHECKS: Sequence[Any] = [
    pytest.param(make_pod("p"), make_node("n"), True, id="fits"),
    pytest.param(make_pod("p", cpu="8"), make_node("n", cpu="4"), False, id="too-large"),
    pytest.param(make_pod("p", **PINNED), make_node("n"), False, id="elsewhere"),
    pytest.param(make_pod("p", **PINNED), make_node("n", labels={ZONE: "a"}), True, id="here"),
    pytest.param(make_pod("p"), make_node("n", taints=TAINT), False, id="not-tolerated"),
    pytest.param(
        make_pod("p", tolerations=[{"key": "k", "operator": "Exists"}]),
        make_node("n", taints=TAINT),
        True,
        id="tolerated",
    ),
    pytest.param(
        make_pod("p"),
        make_node("n", taints=[{"key": "k", "effect": "PreferNoSchedule"}]),
        True,
        id="soft-taint",
    ),
    pytest.param(make_pod("p"), make_node("n", unschedulable=True), True, id="cordoned"),
    pytest.param(make_pod("p", scheduler="stranger"), make_node("n", taints=TAINT), True, id="not-ours"),
]


@pytest.mark.parametrize(("pod", "node", "admitted"), PRE_CHECKS)
def test_without_hints_a_node_moves_only_pods_that_it_admits(pod: Pod, node: Node, admitted: bool) -> None:
    harness, notebook = noting(gates=OFF)
    harness.put(node)
    (check,) = notebook.checks
    assert check is not None
    assert check(pod) is admitted
    harness.remove(node)
    assert notebook.checks[1] is None, "a deleted node is checked for no pod"
    assert check(pod) is True, "nothing is known about a deleted node"


@pytest.mark.parametrize(("pod", "node", "admitted"), PRE_CHECKS)
def test_with_hints_a_node_is_checked_for_no_pod(pod: Pod, node: Node, admitted: bool) -> None:
    harness, notebook = noting()
    harness.put(node)
    harness.put(version(node, "2", labels={"x": "y"}))
    assert notebook.checks == [None, None]


def test_taints_count_in_profiles_without_their_plugin() -> None:
    """And the other filters only where they are part of the profile."""
    profiles = [profile("NodeResourcesFit", name="plain")]
    harness, notebook = noting(gates=OFF, profiles=profiles)
    harness.put(make_node("n", taints=TAINT))
    harness.put(make_node("m"))
    tainted, free = notebook.checks
    assert tainted is not None
    assert free is not None
    pod = make_pod("p", scheduler="plain")
    assert (tainted(pod), free(pod)) == (False, True)
    assert free(make_pod("p", scheduler="plain", **PINNED)) is True
    assert free(make_pod("p", scheduler="plain", cpu="64")) is False


@pytest.mark.parametrize("on", [False, True])
def test_tolerations_compare_numbers_if_the_feature_is_on(*, on: bool) -> None:
    harness, notebook = noting(gates={**OFF, "TaintTolerationComparisonOperators": on})
    harness.put(make_node("n", taints=[{"key": "k", "value": "3", "effect": "NoSchedule"}]))
    (check,) = notebook.checks
    assert check is not None
    assert check(make_pod("p", tolerations=[{"key": "k", "operator": "Gt", "value": "2"}])) is on


# Pods with a node


def test_an_assigned_pods_way() -> None:
    harness, notebook = noting(make_node("n"))
    first = make_pod("p", cpu="2", node="n")
    second = with_metadata(make_pod("p", uid=first.metadata.uid, cpu="1", node="n"), labels={"a": "b"})
    harness.put(first)
    assert harness.cluster.requested[0, 0] == 2000
    harness.put(second)
    assert harness.cluster.requested[0, 0] == 1000
    harness.remove(second)
    assert harness.cluster.requested[0, 0] == 0
    harness.remove(second)
    assert notebook.events == [
        ("AssignedPodAdd", None, first),
        ("AssignedPodUpdatePodLabel", first, second),
        ("AssignedPodUpdatePodScaleDown", first, second),
        ("AssignedPodDelete", second, None),
    ], "and what is not there cannot go"
    assert notebook.pods == []
    counted = harness.scheduler.metrics.event_handling_duration.values
    assert {label for (label,) in counted} >= {*labels(notebook), "AssignedPodUpdate"}


def test_an_update_that_changes_nothing_of_note_is_an_event_all_the_same() -> None:
    pod = make_pod("p", node="n")
    harness, notebook = noting(make_node("n"), pod)
    harness.put(version(pod, "2"))
    assert labels(notebook) == ["AssignedPodUpdate"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_leaves_the_table(phase: str) -> None:
    pod = make_pod("p", cpu="2", node="n")
    harness, notebook = noting(make_node("n"), pod)
    harness.put(with_status(pod, phase=phase))
    assert harness.cluster.placed(pod.metadata.uid) is None
    assert notebook.events == [("AssignedPodDelete", pod, None)]


def test_a_pod_that_is_bound_leaves_the_queue() -> None:
    pod = make_pod("p", status={"nominatedNodeName": "n"})
    harness, notebook = noting(make_node("n"), pod)
    assert harness.scheduler.nominator.nominated_on("n")
    bound = with_spec(version(pod, "2"), node_name="n")
    harness.put(bound)
    assert harness.queues == {}
    assert notebook.pods == ["delete default/p"]
    assert notebook.events == [("AssignedPodAdd", None, bound)], "no nomination ended: it was kept"
    assert harness.scheduler.nominator.nominated_on("n") == ()
    placed = harness.cluster.placed(pod.metadata.uid)
    assert placed is not None
    assert placed.node_name == "n"


def test_a_pod_bound_elsewhere_than_assumed_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    pod = make_pod("p", cpu="1")
    harness, _notebook = noting(make_node("n"), make_node("m"), pod)
    harness.cluster.assume_pod(PodInfo(pod).placed_on("n"))
    harness.put(with_spec(version(pod, "2"), node_name="m"))
    assert "pod default/p was assumed on node n but is bound to m" in caplog.text
    placed = harness.cluster.placed(pod.metadata.uid)
    assert placed is not None
    assert placed.node_name == "m"


def test_a_pod_bound_where_it_was_assumed_is_not(caplog: pytest.LogCaptureFixture) -> None:
    pod = make_pod("p", cpu="1")
    harness, _notebook = noting(make_node("n"), pod)
    harness.cluster.assume_pod(PodInfo(pod).placed_on("n"))
    harness.put(with_spec(version(pod, "2"), node_name="n"))
    assert caplog.text == ""
    assert not harness.cluster.is_assumed(pod.metadata.uid)


def test_a_strangers_pod_is_counted_on_its_node_and_queued_nowhere() -> None:
    pod = make_pod("p", scheduler="stranger", cpu="1")
    harness, notebook = noting(make_node("n"))
    harness.put(pod)
    harness.put(version(pod, "2", labels={"a": "b"}))
    harness.put(with_spec(version(pod, "3"), node_name="n"))
    assert harness.cluster.requested[0, 0] == 1000
    assert notebook.pods == []
    assert labels(notebook) == ["AssignedPodAdd"]
    harness.put(other := make_pod("q", scheduler="stranger"))
    harness.remove(other)
    assert notebook.pods == []


@pytest.mark.parametrize(("on", "cpu"), [(True, 3000), (False, 1000)], ids=["on", "off"])
def test_pod_level_requests_count_on_the_node_if_the_feature_is_on(*, on: bool, cpu: int) -> None:
    harness, _notebook = noting(make_node("n"), gates={"PodLevelResources": on})
    pod = make_pod("p", cpu="1", node="n", resources={"requests": {"cpu": "3"}})
    harness.put(pod)
    assert harness.cluster.requested[0, 0] == cpu
    harness.put(version(pod, "2", labels={"a": "b"}))
    assert harness.cluster.requested[0, 0] == cpu
    harness.put(waiting := make_pod("q", cpu="1", resources={"requests": {"cpu": "3"}}))
    queued = harness.queue.get("default/q")
    assert queued is not None
    assert queued.info.request.milli_cpu == cpu
    harness.put(version(waiting, "2", labels={"a": "b"}))
    queued = harness.queue.get("default/q")
    assert queued is not None
    assert queued.info.request.milli_cpu == cpu


# Pods without a node


def test_a_pending_pods_way() -> None:
    pod = make_pod("p", status={"nominatedNodeName": "n"})
    harness, notebook = noting(make_node("n"))
    harness.put(pod)
    assert harness.queues == {"p": "active"}
    assert [info.key for info in harness.scheduler.nominator.nominated_on("n")] == ["default/p"]
    harness.put(version(pod, "2"))
    harness.put(version(pod, "2", labels={"the": "same version"}))
    harness.remove(pod)
    assert harness.queues == {}
    assert harness.scheduler.nominator.nominated_on("n") == ()
    assert notebook.pods == ["add default/p", "update default/p", "delete default/p"]
    counted = harness.scheduler.metrics.event_handling_duration.values
    for label in ("UnschedulablePodAdd", "UnschedulablePodUpdate", "UnschedulablePodDelete"):
        assert counted[(label,)].count == 1
        assert counted[(label,)].sum < 60, "what it took, not when it was"


def test_pending_pods_are_counted_by_queue() -> None:
    harness = IntakeHarness(make_node("n"), make_pod("gated", gates=["wait"]), make_pod("failed"))
    harness.reject("failed", "NodeName")
    harness.put(make_pod("one"), make_pod("two"), make_pod("later", priority=9))
    queued = harness.queue.pop_nowait()
    assert queued is not None
    harness.queue.requeue(queued)
    compute = harness.scheduler.metrics.pending_pods.compute
    assert compute is not None
    assert compute() == {("active",): 2, ("backoff",): 1, ("unschedulable",): 1, ("gated",): 1}


@pytest.mark.parametrize("way", ["gone", "withdrawn", "moved"])
@pytest.mark.parametrize(("priority", "helped"), [(4, True), (5, True), (6, False)])
def test_an_ended_nomination_frees_queue_for_pods_of_no_higher_priority(
    way: str, priority: int, helped: bool
) -> None:
    nominated = make_pod("nominated", priority=5, cpu="3", gates=["wait"], status={"nominatedNodeName": "n"})
    waiting = make_pod("waiting", priority=priority, cpu="3")
    harness, notebook = noting(make_node("n"), make_node("m"), nominated, waiting)
    harness.reject("waiting", "NodeResourcesFit")
    if way == "gone":
        harness.remove(nominated)
    else:
        node = "m" if way == "moved" else ""
        harness.put(with_status(version(nominated, "2"), nominated_node_name=node))
    assert notebook.events == [("AssignedPodDelete", nominated, None)]
    assert harness.queues["waiting"] == ("backoff" if helped else "unschedulable")
    check = notebook.checks[0]
    assert check is not None
    assert check(waiting) is helped
    now = {name: len(harness.scheduler.nominator.nominated_on(name)) for name in ("n", "m")}
    assert now == {"n": 0, "m": 1 if way == "moved" else 0}


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "new"])
def test_a_nomination_that_stays_or_is_new_ends_nothing(*, kept: bool) -> None:
    pod = make_pod("p", gates=["wait"], status={"nominatedNodeName": "n"} if kept else {})
    harness, notebook = noting(make_node("n"), pod)
    harness.put(with_status(version(pod, "2"), nominated_node_name="n"))
    assert notebook.events == []
    harness.remove(make_pod("another", gates=["wait"]))
    assert notebook.events == [], "a pod without a nomination leaves none"


@pytest.mark.parametrize("way", ["deleted", "being-deleted"])
def test_a_pod_deleted_on_its_way_to_a_node_frees_it_at_once(way: str) -> None:
    pod = make_pod("p", cpu="3", status={"nominatedNodeName": "n"})
    harness, notebook = noting(make_node("n"), pod)
    queued = harness.queue.pop_nowait()
    assert queued is not None
    harness.cluster.assume_pod(queued.info.placed_on("n"))
    if way == "deleted":
        harness.remove(pod)
    else:
        harness.put(version(pod, "2", deletion_timestamp=NOW))
    assert harness.cluster.placed(pod.metadata.uid) is None
    ((label, old, new),) = notebook.events[:1]
    assert (label, new) == ("AssignedPodDelete", None)
    assert isinstance(old, Pod)
    assert old.spec.node_name == "n", "hints get the pod's former node"
    assert notebook.checks[0] is None, "all pods may profit, not only the lesser"


def test_a_pod_that_waits_on_permit_is_taken_off_by_its_own_cycle() -> None:
    async def scenario() -> None:
        pod = make_pod("p", cpu="3")
        harness, _notebook = noting(make_node("n"), pod)
        harness.cluster.assume_pod(PodInfo(pod).placed_on("n"))
        waiting = harness.scheduler.waiting_pods.add(pod, {"Permit": 10.0})
        harness.remove(pod)
        assert harness.cluster.placed(pod.metadata.uid) is not None
        assert (await waiting.wait()).message == "removed"

    run_in_virtual_time(scenario)


def test_an_update_of_a_pod_on_its_way_is_not_queued() -> None:
    pod = make_pod("p")
    harness, notebook = noting(make_node("n"), pod)
    queued = harness.queue.pop_nowait()
    assert queued is not None
    harness.cluster.assume_pod(queued.info.placed_on("n"))
    harness.put(version(pod, "2", labels={"a": "b"}))
    assert (notebook.pods, notebook.events, harness.queues) == ([], [], {})
    assert harness.cluster.is_assumed(pod.metadata.uid)


# Groups


GANGS = {"GenericWorkload": True, "GangScheduling": True}


def group_of(harness: IntakeHarness) -> set[str]:
    """The pods of the group g that have no node."""
    members = harness.cluster.pod_groups.get("default/g")
    return set() if members is None else {info.pod.metadata.name for info in members.unscheduled.values()}


def test_a_group_knows_its_pods_from_their_coming_to_their_going() -> None:
    harness, _notebook = noting(gates=GANGS)
    pods = [make_pod(name, schedulingGroup={"podGroupName": "g"}) for name in ("a", "b")]
    harness.put(*pods, make_pod("alone"))
    assert group_of(harness) == {"a", "b"}
    harness.remove(pods[0])
    assert group_of(harness) == {"b"}


@pytest.mark.parametrize("plugins", [("NodeResourcesFit",), ("NodeResourcesFit", "GangScheduling")])
def test_with_gangs_a_new_pod_is_an_event_whatever_plugins_a_profile_has(plugins: Sequence[str]) -> None:
    harness, notebook = noting(gates=GANGS, profiles=[profile(*plugins)])
    harness.put(make_pod("p"))
    assert labels(notebook) == ["UnschedulablePodAdd"]


def test_without_gangs_a_new_pod_is_no_event() -> None:
    harness, notebook = noting()
    harness.put(make_pod("p"))
    assert labels(notebook) == []


# Another configuration comes into force


def take_over(harness: IntakeHarness, other: IntakeHarness) -> None:
    """The profiles of the other harness count from now on."""
    harness.scheduler.runners.clear()
    harness.scheduler.runners.update(other.scheduler.runners)
    harness.scheduler.intake.apply_profiles(harness.scheduler.stores.of(Pod))


def test_pods_of_a_profile_that_is_gone_are_nobodys_and_those_of_a_new_one_are_queued() -> None:
    harness, notebook = noting(
        make_node("n"), profiles=[profile(name="one"), profile(name="both")], gates=GANGS
    )
    nominated = {"nominatedNodeName": "n"}
    harness.put(
        make_pod("old", scheduler="one", status=nominated, schedulingGroup={"podGroupName": "g"}),
        make_pod("kept", scheduler="both", schedulingGroup={"podGroupName": "g"}),
        make_pod("new", scheduler="two"),
        make_pod("placed", scheduler="two", node="n"),
        make_pod("strange", scheduler="stranger"),
    )
    assert harness.queues.keys() == {"old", "kept"}
    notebook.pods.clear()
    take_over(harness, IntakeHarness(profiles=[profile(name="two"), profile(name="both")], gates=GANGS))
    assert harness.queues.keys() == {"kept", "new"}
    assert notebook.pods == ["delete default/old", "add default/new"], "pods that stay are not touched"
    assert harness.scheduler.nominator.nominated_on("n") == ()
    assert group_of(harness) == {"kept"}


def test_pods_in_flight_keep_their_way_when_the_configuration_changes() -> None:
    harness, notebook = noting(make_node("n"), profiles=[profile(name="one")])
    harness.put(make_pod("tried", scheduler="one"), make_pod("assumed", scheduler="one"))
    popped = [harness.queue.pop_nowait() for _ in range(2)]
    assert popped[1] is not None
    harness.cluster.assume_pod(popped[1].info.placed_on("n"))
    harness.queue.done(popped[1].uid)
    notebook.pods.clear()
    take_over(harness, IntakeHarness(profiles=[profile(name="two"), profile(name="one")]))
    assert (notebook.pods, harness.queues) == ([], {})


class Shelf(Wire):
    metadata: ObjectMeta = ObjectMeta()


register_kind(Shelf, group="intake.kuberth.io", version="v1", plural="shelves")


class Shelves(FilterPlugin, EnqueueExtensions):
    name = "Shelves"

    def filter(self, *_: object) -> None: ...

    def events_to_register(self) -> Iterable[EventWithHint]:
        return [EventWithHint(ClusterEvent("shelves.v1.intake.kuberth.io", Action.ALL))]


def test_plugins_of_new_profiles_hear_of_what_they_registered_for() -> None:
    plugins, shelf = {"Shelves": Shelves}, Shelf(metadata=ObjectMeta(name="s", namespace="default"))
    harness, notebook = noting(profiles=[profile()], plugins=plugins)
    handle = harness.scheduler.intake.handler(Shelf)
    handle(None, shelf)
    assert notebook.events == []
    take_over(harness, IntakeHarness(profiles=[profile("Shelves")], plugins=plugins))
    handle(shelf, version(shelf, "2"))
    assert [(old, new) for _label, old, new in notebook.events] == [(shelf, version(shelf, "2"))]
    notebook.events.clear()
    take_over(harness, IntakeHarness(profiles=[profile()], plugins=plugins))
    handle(shelf, None)
    assert notebook.events == [], "no plugin is left that registered for it"
