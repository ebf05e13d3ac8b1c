"""Fewer rights than the shipped ClusterRole gives: what is optional only warns, what is not says so."""

from __future__ import annotations

import re

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.conftest import StartScheduler
from tests.e2e.control_plane import BARE
from tests.e2e.objects import Object, configuration, node, pod
from tests.e2e.waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("kuberth_only")]


def grant_without(cluster: Cluster, *resources: str) -> None:
    """Bind the bare service account to copies of the usual roles from which these resources are missing."""
    subject = {"kind": "ServiceAccount", "namespace": "bare", "name": "bare"}
    for role in ("kuberth", "system:volume-scheduler"):
        name = f"less-{role.replace(':', '-')}"
        rules = cluster.api.get("rbac.authorization.k8s.io/v1", "ClusterRole", role)["rules"]
        kept: list[Object] = []
        for rule in rules:
            left = [resource for resource in rule["resources"] if resource not in resources]
            kept += [{**rule, "resources": left}] if left else []
        api_version = "rbac.authorization.k8s.io/v1"
        for kind in ("ClusterRoleBinding", "ClusterRole"):
            cluster.api.delete(api_version, kind, name)
        metadata = {"name": name}
        cluster.create(
            {"apiVersion": api_version, "kind": "ClusterRole", "metadata": metadata, "rules": kept}
        )
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        cluster.create(
            {
                "apiVersion": api_version,
                "kind": "ClusterRoleBinding",
                "metadata": metadata,
                "roleRef": ref,
                "subjects": [subject],
            }
        )


def test_an_optional_resource_that_may_not_be_read_only_warns(
    cluster: Cluster, start_scheduler: StartScheduler
) -> None:
    grant_without(cluster, "csistoragecapacities", "volumeattachments")
    cluster.create(node("n0"), pod("any", scheduler="kuberth"))
    scheduler = start_scheduler(configuration(), user=BARE, may_be_forbidden=True, ready=False)
    cluster.wait_bound("any")
    scheduler.wait_ready()
    log = scheduler.process.output()
    for resource in ("csistoragecapacities", "volumeattachments"):
        warning = next((line for line in log.splitlines() if resource in line), "")
        assert re.search(r"storage\.k8s\.io", warning), log
        assert "list" in warning, f"it does not name the rule to add: {warning}"
        assert "watch" in warning
    assert "Traceback" not in log


def test_a_scheduler_without_rights_says_what_it_lacks(
    cluster: Cluster, start_scheduler: StartScheduler
) -> None:
    grant_without(cluster, "nodes")
    scheduler = start_scheduler(configuration(), user=BARE, may_be_forbidden=True, ready=False)
    said = wait_for(
        "a word about nodes",
        lambda: re.search(r"^.*nodes.*$", scheduler.process.output(), re.MULTILINE),
        seconds=30,
        explain=scheduler.process.tail,
    )
    assert re.search(r"forbidden|RBAC|may not|ClusterRole", said[0]), said[0]
    assert "Traceback" not in scheduler.process.output()
    if scheduler.process.alive:
        assert not scheduler.is_ready()
