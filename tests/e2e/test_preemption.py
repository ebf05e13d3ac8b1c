"""Preemption: the victims, their conditions, and when the preemptor is bound."""

from __future__ import annotations

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.conftest import StartScheduler
from tests.e2e.objects import Object, configuration, node, pod
from tests.e2e.waiting import stays, wait_for

pytestmark = pytest.mark.e2e


def priority_class(name: str, value: int) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def allow_disruptions(cluster: Cluster, app: str, count: int) -> None:
    """A PodDisruptionBudget and its status, which the disruption controller would write."""
    cluster.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": app},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
        }
    )
    status = {"disruptionsAllowed": count, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
    cluster.api.patch(
        "policy/v1",
        "PodDisruptionBudget",
        app,
        {"status": {**status, "observedGeneration": 1}},
        namespace=cluster.namespace,
        subresource="status",
    )


def test_the_victim_that_no_budget_protects_is_taken(
    cluster: Cluster, start_scheduler: StartScheduler
) -> None:
    cluster.create(node("guarded", cpu="1"), node("open", cpu="1"))
    cluster.create(priority_class("low", 10), priority_class("high", 1000))
    allow_disruptions(cluster, "database", 0)
    for name, place in (("database", "guarded"), ("batch", "open")):
        cluster.create(
            pod(
                name,
                scheduler="kuberth",
                cpu="800m",
                labels={"app": name},
                priorityClassName="low",
                nodeName=place,
                terminationGracePeriodSeconds=30,
            )
        )
    start_scheduler(configuration())
    cluster.create(pod("urgent", scheduler="kuberth", cpu="900m", priorityClassName="high"))

    # The victim gets a condition and is deleted, and its node is nominated for the preemptor meanwhile.
    wait_for("the victim to be asked to end", lambda: "deletionTimestamp" in cluster.pod("batch")["metadata"])
    wait_for("the nomination", lambda: cluster.pod("urgent")["status"].get("nominatedNodeName") == "open")
    condition = cluster.condition("batch", "DisruptionTarget")
    assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
    event = wait_for("the event", lambda: next(iter(cluster.events("Preempted", name="batch")), None))
    assert event["action"] == "Preempting"
    uid = cluster.pod("urgent")["metadata"]["uid"]
    assert event["note"] == f"Preempted by pod {uid} on node open"
    stays("the preemptor waits for its victim", lambda: "urgent" not in cluster.placements(), seconds=1)

    cluster.delete_pod("batch")  # as kubelet does when the victim has ended
    assert cluster.wait_bound("urgent")["urgent"] == "open"
    assert "deletionTimestamp" not in cluster.pod("database")["metadata"]


def test_a_pod_that_never_preempts_waits(cluster: Cluster, start_scheduler: StartScheduler) -> None:
    cluster.create(node("n0", cpu="1"), priority_class("low", 10))
    cluster.create({**priority_class("polite", 1000), "preemptionPolicy": "Never"})
    cluster.create(pod("tenant", scheduler="kuberth", cpu="800m", priorityClassName="low", nodeName="n0"))
    start_scheduler(configuration())
    cluster.create(pod("guest", scheduler="kuberth", cpu="800m", priorityClassName="polite"))
    message = cluster.wait_unschedulable("guest")
    assert "Insufficient cpu" in message
    stays("the tenant stays", lambda: "tenant" in cluster.placements(), seconds=1)
    assert "deletionTimestamp" not in cluster.pod("tenant")["metadata"]
