"""A plugin that reads a custom resource: its definition may be missing, come later, or be forbidden."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.api_client import RefusedError
from tests.e2e.assets import REPOSITORY
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import StartScheduler
from tests.e2e.control_plane import SECOND_SCHEDULER
from tests.e2e.objects import configuration, node, pod
from tests.e2e.schedulers import RunningScheduler
from tests.e2e.waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("kuberth_only")]

DEFINITION = str(REPOSITORY / "examples" / "budget-crd.yaml")
RBAC = "rbac.authorization.k8s.io/v1"


@pytest.fixture
def budgets(cluster: Cluster) -> Iterator[None]:
    """Whatever a test leaves of budgets goes away."""
    yield
    cluster.control_plane.kubectl("delete", "--ignore-not-found", "-f", DEFINITION)
    for kind in ("ClusterRoleBinding", "ClusterRole"):
        cluster.api.delete(RBAC, kind, "read-budgets")


def allow(cluster: Cluster) -> None:
    metadata = {"name": "read-budgets"}
    rule = {"apiGroups": ["example.com"], "resources": ["budgets"], "verbs": ["get", "list", "watch"]}
    cluster.api.create({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": metadata, "rules": [rule]})
    cluster.api.create(
        {
            "apiVersion": RBAC,
            "kind": "ClusterRoleBinding",
            "metadata": metadata,
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "read-budgets",
            },
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": SECOND_SCHEDULER}],
        }
    )


def define(cluster: Cluster) -> None:
    cluster.control_plane.kubectl("apply", "-f", DEFINITION)

    def served() -> bool:
        try:
            cluster.api.list("example.com/v1", "Budget")
        except RefusedError:
            return False
        return True

    wait_for("budgets to be served", served)


def start(start_scheduler: StartScheduler, **options: Any) -> RunningScheduler:
    profile = {
        "schedulerName": "kuberth",
        "plugins": {"multiPoint": {"enabled": [{"name": "TeamBudgets"}]}},
    }
    paths = [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]
    return start_scheduler(
        configuration(profile),
        flags=["--plugin=examples.team_budgets:TeamBudgets"],
        env={"PYTHONPATH": os.pathsep.join(filter(None, paths))},
        **options,
    )


def budget(cluster: Cluster, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "b", "namespace": cluster.namespace}
    return {"apiVersion": "example.com/v1", "kind": "Budget", "metadata": metadata, "spec": spec}


@pytest.mark.usefixtures("budgets")
def test_a_definition_may_come_after_the_scheduler(cluster: Cluster, start_scheduler: StartScheduler) -> None:
    cluster.create(node("n0"))
    allow(cluster)
    start(start_scheduler)
    cluster.create(pod("p", scheduler="kuberth"))
    assert "the namespace has no budget" in cluster.wait_unschedulable("p")
    define(cluster)
    cluster.api.create(budget(cluster, open=False))
    cluster.api.patch("example.com/v1", "Budget", "b", {"spec": {"open": True}}, namespace=cluster.namespace)
    cluster.wait_bound("p", seconds=90)


@pytest.mark.usefixtures("budgets")
def test_a_kind_that_may_not_be_read_delays_no_other_pod(
    cluster: Cluster, start_scheduler: StartScheduler
) -> None:
    cluster.create(node("n0"))
    define(cluster)
    cluster.api.create(budget(cluster, open=True))
    scheduler = start(start_scheduler, may_be_forbidden=True)
    cluster.create(pod("p", scheduler="kuberth"))
    assert "the namespace has no budget" in cluster.wait_unschedulable("p")
    assert 'apiGroups: ["example.com"], resources: ["budgets"]' in scheduler.process.tail(200)
    allow(cluster)
    cluster.wait_bound("p", seconds=90)
