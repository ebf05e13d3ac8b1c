"""Tenants get the cluster in proportion to their weights, to within one pod."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kuberth.api.core import Pod
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.errors import ConfigError
from kuberth.framework import cluster_events
from kuberth.framework.queued_pod import QueuedPod
from kuberth.queue.fair_share import FairShareQueue, by_namespace, fair_share
from kuberth.queue.interface import SchedulingQueue
from kuberth.testing import make_node, make_pod
from tests.unit.queue.harness import ByPriority, QueueHarness, make_context
from tests.unit.queue.test_sub_queues import LessOnly

NODE = make_node("n1", cpu="100", memory="100Gi", pods="1000")


class Shop:
    """A loop that pops pods and assumes them on the one node, as a scheduling cycle would."""

    def __init__(self, *, label: str | None = None, weights: Mapping[str, float] | None = None) -> None:
        self.cluster = ClusterTable()
        self.cluster.set_node(NODE)
        context = make_context(cluster=self.cluster)
        self.queue: SchedulingQueue = fair_share(tenant_label=label, weights=weights)(context)
        self.label = label

    def fill(self, tenant: str, number: int, **pod: Any) -> None:
        where: dict[str, Any] = {"labels": {self.label: tenant}} if self.label else {"namespace": tenant}
        for index in range(number):
            self.queue.add(PodInfo(make_pod(f"{tenant}-{index}", **where, **pod)))

    def place_one(self) -> QueuedPod | None:
        queued = self.queue.pop_nowait()
        if queued is not None:
            self.cluster.assume_pod(queued.info.placed_on("n1"))
            self.queue.done(queued.uid)
        return queued

    def tenant_of(self, info: PodInfo) -> str:
        return info.labels[self.label] if self.label else info.namespace

    def used(self, resource: str = "cpu") -> dict[str, int]:
        used: dict[str, int] = {}
        for info in self.cluster.placed_pods():
            amount = info.request.milli_cpu if resource == "cpu" else info.request.memory
            used[self.tenant_of(info)] = used.get(self.tenant_of(info), 0) + amount
        return used


@pytest.mark.parametrize("label", [None, "team"], ids=["by-namespace", "by-label"])
@pytest.mark.parametrize(
    ("weights", "sizes"),
    [
        pytest.param({}, {"a": 1000, "b": 1000}, id="1:1"),
        pytest.param({}, {"a": 500, "b": 3000}, id="1:1-of-different-sizes"),
        pytest.param({"a": 2}, {"a": 1000, "b": 1000}, id="2:1"),
        pytest.param({"a": 2, "b": 1}, {"a": 700, "b": 1900}, id="2:1-of-different-sizes"),
        pytest.param({"a": 1, "b": 3.5}, {"a": 1000, "b": 250}, id="1:3.5"),
    ],
)
def test_shares_stay_within_one_pod(
    label: str | None, weights: Mapping[str, float], sizes: Mapping[str, int]
) -> None:
    shop = Shop(label=label, weights=weights)
    for tenant, size in sizes.items():
        shop.fill(tenant, 60, cpu=f"{size}m")
    weight = {tenant: weights.get(tenant, 1) for tenant in sizes}
    one_pod = max(size / weight[tenant] for tenant, size in sizes.items())
    for _ in range(40):
        assert shop.place_one() is not None
        used = shop.used()
        shares = [used.get(tenant, 0) / weight[tenant] for tenant in sizes]
        assert abs(shares[0] - shares[1]) <= one_pod


def test_a_tenant_is_judged_by_its_dominant_resource() -> None:
    shop = Shop()
    shop.fill("cpu-heavy", 60, cpu="2", memory="100Mi")
    shop.fill("memory-heavy", 60, cpu="100m", memory="4Gi")
    for _ in range(30):
        shop.place_one()
    cpu, memory = shop.used("cpu")["cpu-heavy"] / 100_000, shop.used("memory")["memory-heavy"] / (100 * 2**30)
    assert abs(cpu - memory) <= 0.04


def test_dominant_is_the_largest_share_and_not_the_sum() -> None:
    """A tenth of the CPU and a tenth of the memory are a tenth of the cluster: less than an eighth of one."""
    shop = Shop()
    shop.cluster.add_pod(PodInfo(make_pod("b", namespace="both", cpu="10", memory="10Gi", node="n1")))
    shop.cluster.add_pod(PodInfo(make_pod("o", namespace="one", cpu="12", node="n1")))
    queue = shop.queue
    assert isinstance(queue, FairShareQueue)
    capacity = queue.usage.capacity()
    assert capacity == {"cpu": 100_000, "memory": 100 * 2**30, "ephemeral-storage": 0, "pods": 1000}
    assert queue.usage.share("both", capacity) == pytest.approx(0.10)
    assert queue.usage.share("one", capacity) == pytest.approx(0.12)
    shop.fill("one", 1, cpu="1")
    shop.fill("both", 1, cpu="1")
    popped = shop.place_one()
    assert popped is not None
    assert popped.info.namespace == "both"


def test_pods_without_requests_share_the_number_of_pods() -> None:
    """The tenant with the higher priority would take everything if its pods weighed nothing."""
    shop = Shop()
    shop.fill("a", 30, priority=9)
    shop.fill("b", 30)
    for _ in range(20):
        shop.place_one()
    placed = [info.namespace for info in shop.cluster.placed_pods()]
    assert (placed.count("a"), placed.count("b")) == (10, 10)


@pytest.mark.parametrize("weight", [1, 3])
def test_shares_hold_when_pods_are_popped_before_their_backoff_is_over(weight: int) -> None:
    """All pods have failed once and wait in one window; a higher priority gets no more for it."""
    shop = Shop(weights={"b": weight})
    shop.fill("a", 30, cpu="1", priority=9)
    shop.fill("b", 30, cpu="1")
    while (queued := shop.queue.pop_nowait()) is not None:
        if queued.attempts > 1:
            break
        queued.unschedulable_plugins = {"Some"}
        shop.queue.move(cluster_events.UNSCHEDULABLE_TIMEOUT, None, None)
        shop.queue.requeue(queued)
    assert queued is not None
    assert {name: len(pods) for name, pods in shop.queue.pending_pods().items() if pods} == {"backoff": 59}
    shop.cluster.assume_pod(queued.info.placed_on("n1"))
    for _ in range(19):
        assert shop.place_one() is not None
    assert shop.used() == {"a": 20_000 // (1 + weight), "b": 20_000 * weight // (1 + weight)}


def test_each_tenants_backoff_ends_in_its_own_time() -> None:
    """A pod whose delay is over leaves the queue, also from behind a tenant that waits longer."""
    harness = QueueHarness(make=FairShareQueue)
    long = harness.add("long", namespace="a")
    for _ in range(3):
        queued = harness.pop("long")
        harness.queue.activate({"a/long": long})
        harness.reject(queued, "A")
    harness.add("short", namespace="b")
    short = harness.pop("short")
    harness.queue.activate({"b/short": short.pod})
    harness.reject(short, "A")
    assert harness.queues == {"long": "backoff", "short": "backoff"}
    harness.clock.advance(2)
    harness.queue.flush_backoff_completed()
    assert harness.queues == {"long": "backoff", "short": "active"}
    harness.clock.advance(4)
    harness.queue.flush_backoff_completed()
    assert harness.queues == {"long": "active", "short": "active"}


def test_extended_resources_count_and_those_without_capacity_do_not() -> None:
    shop = Shop()
    shop.cluster.set_node(make_node("n2", allocatable={"example.com/gpu": "10"}))
    shop.fill("gpu", 5, requests={"example.com/gpu": "1"})
    shop.fill("none", 5, requests={"example.com/unknown": "100"})
    shop.fill("cpu", 5, cpu="1")
    order = [queued.info.namespace for _ in range(9) if (queued := shop.place_one()) is not None]
    assert order.count("none") == 5, "no share of what is not there"
    assert order.count("gpu") == 1, "a tenth of all GPUs is more than all the CPU the others got"
    assert order.count("cpu") == 3


def test_shares_are_recomputed_when_pods_finish() -> None:
    shop = Shop()
    shop.fill("a", 20, cpu="1")
    shop.fill("b", 20, cpu="1")
    for _ in range(10):
        shop.place_one()
    assert shop.used() == {"a": 5000, "b": 5000}
    for info in list(shop.cluster.placed_pods()):
        if info.namespace == "a":
            shop.cluster.remove_pod(info.uid)
    for _ in range(5):
        shop.place_one()
    assert shop.used() == {"a": 5000, "b": 5000}


def test_forgotten_confirmed_and_moved_pods_count_once() -> None:
    shop = Shop()
    shop.cluster.set_node(make_node("n2", cpu="100"))
    queue = shop.queue
    assert isinstance(queue, FairShareQueue)
    shop.fill("a", 3, cpu="1")
    placed = [queued.info for _ in range(3) if (queued := shop.place_one()) is not None]
    capacity = queue.usage.capacity()
    assert capacity["cpu"] == 200_000
    assert queue.usage.share("a", capacity) == pytest.approx(3 / 200)
    shop.cluster.forget_pod(placed[0].uid)
    shop.cluster.add_pod(placed[1].placed_on("n1"))
    shop.cluster.add_pod(placed[2].placed_on("n2"))
    assert queue.usage.share("a", capacity) == pytest.approx(2 / 200)
    with shop.cluster.what_if() as question:
        question.add_pod(placed[0], 0)
        assert queue.usage.share("a", capacity) == pytest.approx(2 / 200), "a what-if places no pod"


def test_pods_placed_before_the_queue_began_count() -> None:
    cluster = ClusterTable()
    cluster.set_node(NODE)
    cluster.add_pod(PodInfo(make_pod("old", namespace="a", cpu="10", node="n1")))
    queue = FairShareQueue(make_context(cluster=cluster))
    queue.add(PodInfo(make_pod("a", namespace="a", priority=100)))
    queue.add(PodInfo(make_pod("b", namespace="b")))
    popped = queue.pop_nowait()
    assert popped is not None
    assert popped.info.namespace == "b"


def test_a_tenants_own_pods_keep_their_order() -> None:
    harness = QueueHarness(make=FairShareQueue)
    harness.add("low", namespace="a", priority=1)
    harness.add("high", namespace="a", priority=9)
    harness.add("other", namespace="b", priority=5)
    assert harness.pop_names() == ["high", "other", "low"], "without any share the order is that of all pods"


def test_an_update_can_change_the_tenant() -> None:
    cluster = ClusterTable()
    cluster.set_node(NODE)
    cluster.add_pod(PodInfo(make_pod("old", labels={"team": "rich"}, cpu="10", node="n1")))
    queue = fair_share(tenant_label="team")(make_context(cluster=cluster))
    rich, poor = (make_pod(name, labels={"team": "rich"}) for name in ("first", "second"))
    queue.add(PodInfo(rich))
    queue.add(PodInfo(poor))
    queue.update(poor, PodInfo(make_pod("second", uid=poor.metadata.uid, labels={"team": "poor"})))
    popped = [queued.pod.metadata.name for _ in range(2) if (queued := queue.pop_nowait()) is not None]
    assert popped == ["second", "first"]


def test_pods_without_the_label_are_one_tenant() -> None:
    shop = Shop(label="team")
    shop.fill("a", 10, cpu="1")
    for index in range(10):
        shop.queue.add(PodInfo(make_pod(f"none-{index}", cpu="1", namespace=f"n{index}")))
    teams = [
        queued.info.labels.get("team", "") for _ in range(10) if (queued := shop.place_one()) is not None
    ]
    assert teams.count("a") == 5


@pytest.mark.parametrize("weight", [0, -1, -0.5, math.nan], ids=str)
@pytest.mark.parametrize(
    "make",
    [
        lambda weights: fair_share(weights=weights),
        lambda weights: FairShareQueue(make_context(), weights=weights),
    ],
    ids=["factory", "class"],
)
def test_weights_must_be_positive(weight: float, make: Callable[[Mapping[str, float]], object]) -> None:
    with pytest.raises(ConfigError, match=r"weight of tenant 'a'.*greater than zero"):
        make({"a": weight})


@pytest.mark.parametrize("sort", [ByPriority(), LessOnly()], ids=["key", "less-only"])
def test_an_empty_cluster_falls_back_to_the_sort(sort: Any) -> None:
    harness = QueueHarness(make=FairShareQueue, sort=sort)
    for name, priority in (("p1", 1), ("p3", 3), ("p2", 2)):
        harness.add(name, namespace=name, priority=priority)
    assert harness.pop_names() == ["p3", "p2", "p1"]
    assert harness.queue.pop_nowait() is None


def test_the_queue_holds_what_came() -> None:
    harness = QueueHarness(make=FairShareQueue)
    pods = [
        harness.add(name, namespace=namespace) for name, namespace in (("p", "a"), ("q", "a"), ("p2", "b"))
    ]
    assert harness.queues == {"p": "active", "q": "active", "p2": "active"}
    found = harness.queue.get("a/q")
    assert found is not None
    assert found.pod is pods[1]
    assert harness.queue.get("b/q") is None
    for pod in pods:
        harness.queue.delete(pod)
        harness.queue.delete(pod)
    assert harness.queues == {}


def test_a_closed_queue_follows_the_cluster_no_longer() -> None:
    counted: list[str] = []

    def tenant_of(pod: Pod) -> str:
        counted.append(pod.metadata.name)
        return by_namespace(pod)

    cluster = ClusterTable()
    cluster.set_node(NODE)
    queue = FairShareQueue(make_context(cluster=cluster), tenant_of=tenant_of)
    cluster.assume_pod(PodInfo(make_pod("before")).placed_on("n1"))
    queue.close()
    cluster.assume_pod(PodInfo(make_pod("after")).placed_on("n1"))
    assert counted == ["before"]
