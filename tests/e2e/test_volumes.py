"""Volumes that are made where their pod goes, by a provisioner that the test plays."""

from __future__ import annotations

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.conftest import StartScheduler
from tests.e2e.objects import Object, configuration, node, pod
from tests.e2e.waiting import stays, wait_for
from tests.manifests import HOSTNAME

pytestmark = pytest.mark.e2e

SELECTED_NODE = "volume.kubernetes.io/selected-node"


def storage_class() -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "tiny"},
        "provisioner": "example.test/tiny",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def claim(name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "storageClassName": "tiny",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def volume(cluster: Cluster, name: str, *, place: str) -> Object:
    """A volume on one node for the claim of this name."""
    owner = get_claim(cluster, name)["metadata"]
    terms = [{"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [place]}]}]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"pv-{name}"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "tiny",
            "hostPath": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            "claimRef": {
                "kind": "PersistentVolumeClaim",
                "apiVersion": "v1",
                "namespace": cluster.namespace,
                "name": name,
                "uid": owner["uid"],
            },
        },
    }


def get_claim(cluster: Cluster, name: str) -> Object:
    return cluster.api.get("v1", "PersistentVolumeClaim", name, namespace=cluster.namespace)


def provision(cluster: Cluster, name: str, *, place: str) -> None:
    """What a provisioner and the volume controller do: make the volume, tie it to its claim."""
    cluster.create(volume(cluster, name, place=place))
    cluster.api.patch(
        "v1", "PersistentVolume", f"pv-{name}", {"status": {"phase": "Bound"}}, subresource="status"
    )
    done = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}
    cluster.api.patch(
        "v1",
        "PersistentVolumeClaim",
        name,
        {**done, "spec": {"volumeName": f"pv-{name}"}},
        namespace=cluster.namespace,
    )
    cluster.api.patch(
        "v1",
        "PersistentVolumeClaim",
        name,
        {"status": {"phase": "Bound"}},
        namespace=cluster.namespace,
        subresource="status",
    )


def with_claim(name: str) -> list[Object]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]


def selected_node(cluster: Cluster, name: str) -> str | None:
    annotations = get_claim(cluster, name)["metadata"].get("annotations", {})
    found: str | None = annotations.get(SELECTED_NODE)
    return found


def test_a_volume_is_made_where_its_first_consumer_goes(
    cluster: Cluster, start_scheduler: StartScheduler
) -> None:
    cluster.create(node("full", cpu="100m"), node("free", cpu="4"), storage_class(), claim("data"))
    start_scheduler(configuration())
    cluster.create(pod("consumer", scheduler="kuberth", cpu="1", volumes=with_claim("data")))
    place = wait_for("a node to be selected", lambda: selected_node(cluster, "data"))
    assert place == "free"
    stays("the pod waits for its volume", lambda: not cluster.placements(), seconds=1)
    provision(cluster, "data", place=place)
    assert cluster.wait_bound("consumer") == {"consumer": "free"}
    cluster.assert_bound_once()


def test_a_pod_follows_its_volume(cluster: Cluster, start_scheduler: StartScheduler) -> None:
    cluster.create(*(node(f"n{i}") for i in range(4)), storage_class(), claim("data"))
    provision(cluster, "data", place="n2")
    start_scheduler(configuration())
    cluster.create(pod("reader", scheduler="kuberth", volumes=with_claim("data")))
    assert cluster.wait_bound("reader") == {"reader": "n2"}


def test_a_pod_waits_for_a_claim_that_does_not_exist_yet(
    cluster: Cluster, start_scheduler: StartScheduler
) -> None:
    cluster.create(node("n0"), storage_class())
    start_scheduler(configuration())
    cluster.create(pod("early", scheduler="kuberth", volumes=with_claim("late")))
    assert 'persistentvolumeclaim "late" not found' in cluster.wait_unschedulable("early")
    cluster.create(claim("late"))
    place = wait_for("a node to be selected", lambda: selected_node(cluster, "late"))
    provision(cluster, "late", place=place)
    assert cluster.wait_bound("early") == {"early": "n0"}
