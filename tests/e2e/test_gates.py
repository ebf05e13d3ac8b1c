"""Pod scheduling readiness (KEP-3521) end to end."""

from __future__ import annotations

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.conftest import StartScheduler
from tests.e2e.objects import configuration, node, pod
from tests.e2e.waiting import stays, wait_for

pytestmark = pytest.mark.e2e


def test_a_gated_pod_waits_for_its_last_gate(cluster: Cluster, start_scheduler: StartScheduler) -> None:
    cluster.create(node("n0"))
    scheduler = start_scheduler(configuration())
    cluster.create(pod("gated", scheduler="kuberth", gates=["example.test/quota", "example.test/images"]))
    wait_for(
        "the gated pod to be counted",
        lambda: scheduler.metric("scheduler_pending_pods", queue="gated") == 1,
        seconds=10,
    )
    cluster.patch_pod("gated", {"spec": {"schedulingGates": [{"name": "example.test/images"}]}})
    stays("the pod has no node", lambda: not cluster.placements(), seconds=1.5)
    assert scheduler.attempts() == 0
    condition = cluster.condition("gated")
    assert (condition["status"], condition["reason"]) == ("False", "SchedulingGated")
    assert not cluster.events("FailedScheduling")
    cluster.patch_pod("gated", {"spec": {"schedulingGates": []}})
    assert cluster.seconds_until("it is bound", lambda: "gated" in cluster.placements()) < 5
    assert scheduler.metric("scheduler_pending_pods", queue="gated") == 0
    cluster.assert_bound_once()


def test_gated_pods_do_not_hold_up_others(cluster: Cluster, start_scheduler: StartScheduler) -> None:
    cluster.create(node("n0"))
    start_scheduler(configuration())
    cluster.create(*(pod(f"gated-{i}", scheduler="kuberth", gates=["example.test/wait"]) for i in range(5)))
    cluster.create(pod("ready", scheduler="kuberth"))
    assert cluster.wait_bound("ready", seconds=10).keys() == {"ready"}
