"""Two replicas and one lease: which one schedules, and what happens when it dies, stops or leaves."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.api_client import RefusedError
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import StartScheduler
from tests.e2e.objects import Object, configuration, node, pod
from tests.e2e.schedulers import KUBERTH, RunningScheduler
from tests.e2e.waiting import stays, wait_for

pytestmark = pytest.mark.e2e

LEASE_SECONDS = 4.0
ELECTION = {
    "leaderElect": True,
    "leaseDuration": "4s",
    "renewDeadline": "3s",
    "retryPeriod": "500ms",
    "resourceName": "kuberth",
    "resourceNamespace": "kuberth-system",
}


def lease(cluster: Cluster) -> Object | None:
    try:
        found = cluster.api.get("coordination.k8s.io/v1", "Lease", "kuberth", namespace="kuberth-system")
    except RefusedError:
        return None
    return found if found["spec"].get("holderIdentity") else None


def holder(cluster: Cluster) -> str:
    found = lease(cluster)
    return "" if found is None else str(found["spec"]["holderIdentity"])


def start_replicas(
    cluster: Cluster, start_scheduler: StartScheduler
) -> tuple[RunningScheduler, RunningScheduler]:
    """The leader and the one in waiting."""
    leader = start_scheduler(configuration(leaderElection=ELECTION), name="leader")
    wait_for("a leader", lambda: holder(cluster) or None, seconds=15)
    standby = start_scheduler(configuration(leaderElection=ELECTION), name="standby")
    return leader, standby


@contextmanager
def pods_coming(cluster: Cluster, count: int) -> Iterator[None]:
    """Create pods one by one in the background until the block ends, then wait for the last."""

    def create() -> None:
        client = cluster.control_plane.client()
        for i in range(count):
            tree = pod(f"pod-{i}", scheduler="kuberth", cpu="10m", memory="1Mi")
            client.create({**tree, "metadata": {**tree["metadata"], "namespace": cluster.namespace}})
            time.sleep(0.02)
        client.close()

    thread = threading.Thread(target=create, name="pods coming")
    thread.start()
    try:
        yield
    finally:
        thread.join(30)


def test_the_standby_takes_over_from_a_killed_leader(
    cluster: Cluster, start_scheduler: StartScheduler
) -> None:
    cluster.create(*(node(f"n{i}") for i in range(5)))
    leader, standby = start_replicas(cluster, start_scheduler)
    first = holder(cluster)
    assert standby.is_ready(), "a replica in waiting must be ready, or no rolling update would ever end"
    with pods_coming(cluster, 100):
        wait_for("some pods to be bound", lambda: len(cluster.placements()) >= 20)
        leader.kill()
        killed = time.monotonic()
        wait_for("the standby to lead", lambda: holder(cluster) not in ("", first), seconds=LEASE_SECONDS + 5)
        # The lease runs out, and the standby looks every retryPeriod (jittered up to 2.2 times).
        assert time.monotonic() - killed < LEASE_SECONDS + 2
    cluster.wait_bound(seconds=30)
    cluster.assert_bound_once()
    assert len(cluster.pods()) == 100
    found = lease(cluster)
    assert found is not None
    assert found["spec"]["leaseTransitions"] == 1


def test_a_leader_that_leaves_gives_the_lease_back(cluster: Cluster, start_scheduler: StartScheduler) -> None:
    cluster.create(node("n0"))
    leader, _ = start_replicas(cluster, start_scheduler)
    first = holder(cluster)
    leaving = time.monotonic()
    leader.leave()
    wait_for("the standby to lead", lambda: holder(cluster) not in ("", first), seconds=10)
    assert time.monotonic() - leaving < LEASE_SECONDS, "it waited for the lease to run out"
    cluster.create(pod("next", scheduler="kuberth"))
    cluster.wait_bound("next")


def test_a_leader_that_slept_through_its_lease_binds_nothing_more(
    cluster: Cluster, start_scheduler: StartScheduler
) -> None:
    """What a jump of the clock would do: it wakes up believing that it still leads."""
    cluster.create(*(node(f"n{i}") for i in range(3)))
    leader, _ = start_replicas(cluster, start_scheduler)
    first = holder(cluster)
    cluster.create(*(pod(f"before-{i}", scheduler="kuberth") for i in range(5)))
    cluster.wait_bound()
    leader.pause()
    cluster.create(*(pod(f"during-{i}", scheduler="kuberth") for i in range(20)))
    wait_for("the standby to lead", lambda: holder(cluster) not in ("", first), seconds=LEASE_SECONDS + 5)
    cluster.wait_bound()
    mark = cluster.control_plane.audit.mark()
    leader.resume()
    cluster.create(*(pod(f"after-{i}", scheduler="kuberth") for i in range(20)))
    assert leader.process.wait(15) == 1
    cluster.wait_bound()
    cluster.assert_bound_once()
    if leader.program == KUBERTH:  # kube-scheduler does try, and relies on the API server's refusal
        refused = [bind for bind in cluster.control_plane.audit.binds(mark) if bind.status != 201]
        assert not refused, f"both replicas tried to bind: {refused}"


def test_a_leader_that_cannot_renew_ends(cluster: Cluster, start_scheduler: StartScheduler) -> None:
    leader, standby = start_replicas(cluster, start_scheduler)
    cluster.control_plane.kill_api_server()
    try:
        assert leader.process.wait(LEASE_SECONDS + 10) == 1
        stays("the standby goes on waiting", lambda: standby.process.alive, seconds=1)
    finally:
        cluster.control_plane.start_api_server()
    cluster.create(node("n0"), pod("later", scheduler="kuberth"))
    cluster.wait_bound("later")
