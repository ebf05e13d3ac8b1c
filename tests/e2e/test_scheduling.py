"""The everyday of a scheduler on a real API server."""

from __future__ import annotations

import signal

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.conftest import StartScheduler
from tests.e2e.control_plane import UPSTREAM
from tests.e2e.kubeconfigs import write_kubeconfig
from tests.e2e.objects import Object, configuration, node, pod
from tests.e2e.waiting import stays, wait_for

pytestmark = pytest.mark.e2e


def test_pods_are_bound_and_events_are_recorded(cluster: Cluster, start_scheduler: StartScheduler) -> None:
    cluster.create(*(node(f"n{i}", cpu="1") for i in range(3)))
    cluster.create(*(pod(f"before-{i}", scheduler="kuberth", cpu="200m") for i in range(6)))
    scheduler = start_scheduler(configuration())
    cluster.create(*(pod(f"after-{i}", scheduler="kuberth", cpu="200m") for i in range(6)))
    placements = cluster.wait_bound()
    assert {name: list(placements.values()).count(name) for name in ("n0", "n1", "n2")} == {
        "n0": 4,
        "n1": 4,
        "n2": 4,
    }
    cluster.assert_bound_once()
    events = wait_for("the Scheduled events", lambda: _twelve(cluster), seconds=10)
    event = next(event for event in events if event["regarding"]["name"] == "after-0")
    assert event["note"].endswith(f"/after-0 to {placements['after-0']}")
    assert (event["type"], event["action"], event["reportingController"]) == ("Normal", "Binding", "kuberth")
    assert scheduler.metric("scheduler_schedule_attempts_total", result="scheduled") == 12
    scheduler.leave()
    wide = cluster.control_plane.kubectl("get", "pods", "-n", cluster.namespace, "-o", "wide", "--no-headers")
    assert all(name in wide for name in placements)


def _twelve(cluster: Cluster) -> list[Object] | None:
    events = cluster.events("Scheduled")
    return events if len(events) == 12 else None


def test_a_pod_that_fits_nowhere_says_why(cluster: Cluster, start_scheduler: StartScheduler) -> None:
    taint = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}
    cluster.create(node("small-1", cpu="1"), node("small-2", cpu="1"), node("reserved", taints=[taint]))
    start_scheduler(configuration())
    cluster.create(pod("big", scheduler="kuberth", cpu="2"))
    message = cluster.wait_unschedulable("big")
    assert message.startswith(
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu."
    )
    event = wait_for("the event", lambda: next(iter(cluster.events("FailedScheduling")), None), seconds=10)
    assert event["note"] == message
    assert (event["type"], event["action"]) == ("Warning", "Scheduling")


def test_other_peoples_pods_are_left_alone(cluster: Cluster, start_scheduler: StartScheduler) -> None:
    cluster.create(node("n0"))
    start_scheduler(configuration())
    cluster.create(pod("theirs", scheduler="someone-else"), pod("ours", scheduler="kuberth"))
    cluster.wait_bound("ours")
    stays("the other scheduler's pod has no node", lambda: "theirs" not in cluster.placements(), seconds=1)
    assert not cluster.condition("theirs")


def test_what_is_placed_already_counts(cluster: Cluster, start_scheduler: StartScheduler) -> None:
    cluster.create(node("full", cpu="2"), node("free", cpu="1"))
    cluster.create(pod("tenant", scheduler="kuberth", cpu="1800m", nodeName="full"))
    start_scheduler(configuration())
    cluster.create(pod("guest", scheduler="kuberth", cpu="500m"))
    assert cluster.wait_bound("guest")["guest"] == "free"
    cluster.create(pod("late", scheduler="kuberth", cpu="1"))
    cluster.wait_unschedulable("late")
    cluster.delete_pod("tenant")
    assert cluster.wait_bound("late")["late"] == "full"


def test_it_takes_the_place_of_kube_scheduler_with_its_certificate(
    cluster: Cluster, start_scheduler: StartScheduler
) -> None:
    """As in kubeadm's static pod: the client certificate, rights and lease of system:kube-scheduler."""
    control_plane = cluster.control_plane
    kubeconfig = write_kubeconfig(
        control_plane.folder / "scheduler.conf",
        server=control_plane.server,
        ca_file=control_plane.authority.file,
        client=control_plane.authority.issue(UPSTREAM),
    )
    election = {"leaderElect": True, "leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "500ms"}
    cluster.create(node("n0"), pod("anyones", scheduler="default-scheduler"))
    scheduler = start_scheduler(
        configuration({"schedulerName": "default-scheduler"}, leaderElection=election),
        user=UPSTREAM,
        kubeconfig=kubeconfig,
    )
    cluster.wait_bound("anyones")
    lease = cluster.api.get("coordination.k8s.io/v1", "Lease", "kube-scheduler", namespace="kube-system")
    assert lease["spec"]["holderIdentity"]
    assert {bind.user for bind in cluster.binds()} == {UPSTREAM}
    scheduler.leave()


@pytest.mark.usefixtures("kuberth_only")
def test_sigusr2_logs_the_comparison_and_a_dump(cluster: Cluster, start_scheduler: StartScheduler) -> None:
    """SIGUSR2: the cluster table is compared with the API, and table and queue go to the log."""
    cluster.create(node("n0"), pod("placed", scheduler="kuberth"), pod("huge", scheduler="kuberth", cpu="99"))
    scheduler = start_scheduler(configuration())
    cluster.wait_bound("placed")
    cluster.wait_unschedulable("huge")
    scheduler.process.signal(signal.SIGUSR2)
    wait_for("the dump", lambda: "huge" in scheduler.process.output().partition("compare: ")[2], seconds=10)
    assert "compare: the cluster table and the API agree" in scheduler.process.output()
    scheduler.leave()


def test_probes_are_open_and_metrics_are_not(cluster: Cluster, start_scheduler: StartScheduler) -> None:
    scheduler = start_scheduler(configuration(), flags=["-v=2"])  # as Go's flag library also takes it
    for path in ("/healthz", "/livez", "/readyz"):
        assert scheduler.serves(path) == (200, "ok")
    assert scheduler.serves("/metrics")[0] in (401, 403)
    assert scheduler.serves("/metrics", token="unknown")[0] == 401
    assert scheduler.metric("scheduler_pending_pods") == 0
