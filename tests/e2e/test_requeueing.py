"""When a rejected pod comes back: queueing hints (KEP-4247) and the backoff queue (KEP-5142)."""

from __future__ import annotations

import time

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.conftest import StartScheduler
from tests.e2e.objects import configuration, node, pod
from tests.e2e.schedulers import RunningScheduler
from tests.e2e.waiting import stays, wait_for

pytestmark = pytest.mark.e2e


def settle(scheduler: RunningScheduler) -> float:
    """The number of attempts, once one was made and no more follow."""
    wait_for("a first attempt", lambda: scheduler.attempts() >= 1, seconds=10)
    seen = -1.0
    while seen != (now := scheduler.attempts()):
        seen = now
        time.sleep(1.5)  # longer than the first backoff
    return seen


def test_only_the_node_event_that_helps_brings_a_pod_back(
    cluster: Cluster, start_scheduler: StartScheduler
) -> None:
    cluster.create(node("n0", cpu="1"))
    scheduler = start_scheduler(configuration(podInitialBackoffSeconds=1, podMaxBackoffSeconds=1))
    cluster.create(pod("picky", scheduler="kuberth", nodeSelector={"disk": "ssd"}))
    cluster.wait_unschedulable("picky")
    attempts = settle(scheduler)
    heartbeat = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2030-01-01T00:00:00Z"}
    cluster.label_node("n0", colour="blue")
    cluster.patch_node("n0", {"metadata": {"annotations": {"note": "changed"}}})
    cluster.patch_node("n0", {"status": {"conditions": [heartbeat]}}, subresource="status")
    cluster.patch_node("n0", {"status": {"allocatable": {"cpu": "2"}}}, subresource="status")
    cluster.create(pod("other", scheduler="kuberth", nodeName="n0"))
    cluster.delete_pod("other")
    stays("no attempt for events that cannot help", lambda: scheduler.attempts() == attempts, seconds=2.5)
    cluster.label_node("n0", disk="ssd")
    assert cluster.seconds_until("it is bound", lambda: "picky" in cluster.placements()) < 5
    assert scheduler.attempts() == attempts + 1


def test_queue_on_a_node_brings_back_a_pod_that_lacked_it(
    cluster: Cluster, start_scheduler: StartScheduler
) -> None:
    cluster.create(node("n0", cpu="1"))
    scheduler = start_scheduler(configuration(podInitialBackoffSeconds=1, podMaxBackoffSeconds=1))
    cluster.create(pod("big", scheduler="kuberth", cpu="2"))
    cluster.wait_unschedulable("big")
    attempts = settle(scheduler)
    cluster.label_node("n0", colour="blue")
    cluster.patch_node("n0", {"status": {"allocatable": {"cpu": "1500m"}}}, subresource="status")
    cluster.create(node("n1", cpu="1"))
    stays("no attempt: there is still too little", lambda: scheduler.attempts() == attempts, seconds=2)
    cluster.patch_node("n0", {"status": {"allocatable": {"cpu": "3"}}}, subresource="status")
    assert cluster.wait_bound("big", seconds=10) == {"big": "n0"}


BACKOFF_SECONDS = 6


@pytest.mark.parametrize("pops_from_backoff", [True, False], ids=["on", "off"])
def test_an_idle_scheduler_takes_pods_out_of_their_backoff(
    cluster: Cluster, start_scheduler: StartScheduler, pops_from_backoff: bool
) -> None:
    cluster.create(node("n0"))
    scheduler = start_scheduler(
        configuration(podInitialBackoffSeconds=BACKOFF_SECONDS, podMaxBackoffSeconds=BACKOFF_SECONDS),
        flags=[f"--feature-gates=SchedulerPopFromBackoffQ={str(pops_from_backoff).lower()}"],
    )
    created = time.monotonic()
    cluster.create(pod("picky", scheduler="kuberth", nodeSelector={"disk": "ssd"}))
    cluster.wait_unschedulable("picky", seconds=3)
    cluster.label_node("n0", disk="ssd")
    if not pops_from_backoff:
        wait_for("the pod to wait out its backoff", lambda: _in_backoff(scheduler), seconds=2)
    cluster.wait_bound("picky", seconds=BACKOFF_SECONDS + 5)
    waited = time.monotonic() - created
    if pops_from_backoff:
        assert waited < BACKOFF_SECONDS - 1
    else:
        # Backoffs end on whole seconds, so it may end up to one early.
        assert waited >= BACKOFF_SECONDS - 1


def _in_backoff(scheduler: RunningScheduler) -> bool:
    return scheduler.metric("scheduler_pending_pods", queue="backoff") == 1
