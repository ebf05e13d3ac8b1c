"""What goes wrong between a scheduler and its API server; afterwards every pod is bound, and once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.conftest import StartScheduler
from tests.e2e.control_plane import SECOND_SCHEDULER, ControlPlane
from tests.e2e.faulty_proxy import FaultyProxy, How, too_many_requests, unavailable
from tests.e2e.objects import Object, configuration, node, pod
from tests.e2e.schedulers import RunningScheduler
from tests.e2e.waiting import wait_for

pytestmark = pytest.mark.e2e


def pods(stem: str, count: int) -> Iterator[Object]:
    return (pod(f"{stem}-{i}", scheduler="kuberth", cpu="50m", memory="8Mi") for i in range(count))


@pytest.fixture
def proxy(control_plane: ControlPlane) -> Iterator[FaultyProxy]:
    with FaultyProxy(control_plane.authority, control_plane.address) as proxy:
        yield proxy


@pytest.fixture
def behind_proxy(cluster: Cluster, proxy: FaultyProxy, start_scheduler: StartScheduler) -> RunningScheduler:
    """A scheduler that sees the API server only through the proxy, and a few nodes."""
    cluster.create(*(node(f"n{i}", cpu="8") for i in range(3)))
    kubeconfig = cluster.control_plane.kubeconfig(SECOND_SCHEDULER, server=proxy.server)
    return start_scheduler(
        configuration(podInitialBackoffSeconds=1, podMaxBackoffSeconds=1), kubeconfig=kubeconfig
    )


def test_the_api_server_is_killed_and_comes_back(cluster: Cluster, start_scheduler: StartScheduler) -> None:
    cluster.create(*(node(f"n{i}", cpu="8") for i in range(3)))
    scheduler = start_scheduler(configuration(podInitialBackoffSeconds=1, podMaxBackoffSeconds=1))
    cluster.create(*pods("before", 40))
    wait_for("some pods to be bound", lambda: len(cluster.placements()) >= 5)
    cluster.control_plane.kill_api_server()
    cluster.control_plane.start_api_server()
    cluster.create(*pods("after", 20))
    cluster.wait_bound(seconds=60)
    assert_bound_at_most_once(cluster)
    assert scheduler.process.alive


def test_etcd_forgets_what_the_scheduler_has_not_seen(
    cluster: Cluster, start_scheduler: StartScheduler
) -> None:
    """The watches can only end in 410 Gone, so everything has to be listed again, and nothing twice."""
    cluster.create(*(node(f"n{i}", cpu="1") for i in range(3)))
    scheduler = start_scheduler(configuration(podInitialBackoffSeconds=1, podMaxBackoffSeconds=1))
    cluster.create(pod("filler", scheduler="kuberth", cpu="800m"), *pods("before", 5))
    filled = cluster.wait_bound()["filler"]
    scheduler.pause()
    cluster.create(*pods("missed", 10))
    cluster.api.delete("v1", "Node", next(f"n{i}" for i in range(3) if f"n{i}" != filled))
    cluster.delete_pod("filler")
    cluster.create(
        pod("needs-queue", scheduler="kuberth", cpu="600m", nodeSelector={"kubernetes.io/hostname": filled})
    )
    cluster.control_plane.kill_api_server()
    cluster.control_plane.compact()
    cluster.control_plane.start_api_server()
    scheduler.resume()
    placements = cluster.wait_bound(seconds=60)
    assert placements["needs-queue"] == filled
    assert_bound_at_most_once(cluster)


def test_watches_are_cut(cluster: Cluster, behind_proxy: RunningScheduler, proxy: FaultyProxy) -> None:
    cluster.create(*pods("first", 5))
    cluster.wait_bound()
    assert proxy.cut_watches() >= 2
    cluster.create(*pods("second", 5))
    cluster.wait_bound()
    proxy.cut_next_watch_event()
    cluster.create(*pods("third", 5))
    cluster.wait_bound()
    assert proxy.watch_event_was_cut
    cluster.assert_bound_once()


def test_the_network_is_gone_for_a_while(
    cluster: Cluster, behind_proxy: RunningScheduler, proxy: FaultyProxy
) -> None:
    proxy.refuse()
    cluster.create(*pods("meanwhile", 10), node("new", labels={"disk": "ssd"}))
    cluster.create(pod("picky", scheduler="kuberth", nodeSelector={"disk": "ssd"}))
    proxy.refuse(False)
    assert cluster.wait_bound(seconds=60)["picky"] == "new"
    cluster.assert_bound_once()


@pytest.mark.parametrize("answer", [too_many_requests(), unavailable()], ids=["429 with Retry-After", "503"])
def test_a_storm_of_refusals(
    cluster: Cluster, behind_proxy: RunningScheduler, proxy: FaultyProxy, answer: bytes
) -> None:
    storm = proxy.add("POST", "/", How.REPLACE, times=30, answer=answer)
    cluster.create(*pods("pod", 10))
    cluster.wait_bound(seconds=60)
    assert storm.hits == 30
    cluster.assert_bound_once()


def test_every_answer_to_a_bind_is_lost(
    cluster: Cluster, behind_proxy: RunningScheduler, proxy: FaultyProxy
) -> None:
    """The API server has bound the pods, and the scheduler must find out."""
    lost = proxy.add("POST", "/binding", How.LOSE_ANSWER, times=10)
    cluster.create(*(pod(f"lost-{i}", scheduler="kuberth", cpu="1") for i in range(10)))
    cluster.wait_bound()
    assert lost.hits >= 10
    # Each takes its room, and takes it once: of 24 CPUs exactly 14 are left.
    cluster.create(*(pod(f"more-{i}", scheduler="kuberth", cpu="1") for i in range(14)))
    cluster.wait_bound()
    assert_bound_at_most_once(cluster)
    cluster.create(pod("too-much", scheduler="kuberth", cpu="1"))
    assert "3 Insufficient cpu" in cluster.wait_unschedulable("too-much")


def test_binds_do_not_get_through(
    cluster: Cluster, behind_proxy: RunningScheduler, proxy: FaultyProxy
) -> None:
    lost = proxy.add("POST", "/binding", How.LOSE_REQUEST, times=10)
    cluster.create(*pods("pod", 10))
    cluster.wait_bound(seconds=60)
    assert lost.hits == 10
    cluster.assert_bound_once()


def test_an_answer_is_cut_in_the_middle(
    cluster: Cluster, behind_proxy: RunningScheduler, proxy: FaultyProxy
) -> None:
    proxy.add("POST", "/binding", How.CUT, times=3)
    lists = proxy.add("GET", "/api/v1/pods?", How.CUT, times=2)
    proxy.cut_watches()
    cluster.create(*pods("pod", 10))
    cluster.wait_bound(seconds=60)
    assert lists.hits == 2
    assert_bound_at_most_once(cluster)


def assert_bound_at_most_once(cluster: Cluster) -> None:
    """No pod had two successful binds. The API server may have died before it wrote one of them down."""
    succeeded = [bind.pod for bind in cluster.binds() if bind.status == 201]
    assert len(succeeded) == len(set(succeeded))
    assert cluster.placements().keys() == cluster.pods().keys()
