"""The official Python client against the embedded API server: it was written by others, for others."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.embedded import Embedded, embedded_server
from tests.e2e.waiting import wait_for

pytestmark = pytest.mark.e2e

# A development dependency, half of it without types.
client: Any = pytest.importorskip("kubernetes.client")
config: Any = pytest.importorskip("kubernetes.config")
dynamic: Any = pytest.importorskip("kubernetes.dynamic")
watch: Any = pytest.importorskip("kubernetes.watch")
electionconfig: Any = pytest.importorskip("kubernetes.leaderelection.electionconfig")
leaderelection: Any = pytest.importorskip("kubernetes.leaderelection.leaderelection")
locks: tuple[Any, ...] = (
    pytest.importorskip("kubernetes.leaderelection.resourcelock.leaselock").LeaseLock,
    pytest.importorskip("kubernetes.leaderelection.resourcelock.configmaplock").ConfigMapLock,
)

REQUEST_SECONDS = 20


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Embedded]:
    with embedded_server(tmp_path) as cluster:
        config.load_kube_config(config_file=str(cluster.kubeconfig))
        yield cluster


@pytest.fixture
def core(cluster: Embedded) -> Iterator[Any]:
    with client.ApiClient() as api:
        yield client.CoreV1Api(api)


def pod(name: str, **labels: str) -> Any:
    return client.V1Pod(
        metadata=client.V1ObjectMeta(name=name, labels=labels or None),
        spec=client.V1PodSpec(containers=[client.V1Container(name="main", image="nginx")]),
    )


def names(found: Any) -> list[str]:
    return [item.metadata.name for item in found.items]


def test_create_read_replace_delete(core: Any) -> None:
    made = core.create_namespaced_pod("default", pod("web", app="web"))
    assert made.metadata.uid
    assert made.spec.scheduler_name == "default-scheduler"
    read = core.read_namespaced_pod("web", "default")
    assert read == made
    read.metadata.labels["tier"] = "front"
    assert core.replace_namespaced_pod("web", "default", read).metadata.labels["tier"] == "front"
    with pytest.raises(client.ApiException) as caught:
        core.replace_namespaced_pod("web", "default", read)
    assert (caught.value.status, json.loads(caught.value.body)["reason"]) == (409, "Conflict")
    core.delete_namespaced_pod("web", "default", grace_period_seconds=0)
    with pytest.raises(client.ApiException) as caught:
        core.read_namespaced_pod("web", "default")
    assert caught.value.status == 404


def test_lists(core: Any) -> None:
    for number in range(5):
        core.create_namespaced_pod("default", pod(f"p{number}", parity="odd" if number % 2 else "even"))
    assert names(core.list_namespaced_pod("default")) == ["p0", "p1", "p2", "p3", "p4"]
    assert names(core.list_pod_for_all_namespaces(label_selector="parity=odd")) == ["p1", "p3"]
    assert names(core.list_namespaced_pod("default", field_selector="metadata.name=p2")) == ["p2"]
    first = core.list_namespaced_pod("default", limit=2)
    assert (names(first), first.metadata.remaining_item_count) == (["p0", "p1"], 3)
    core.delete_namespaced_pod("p2", "default", grace_period_seconds=0)
    rest = core.list_namespaced_pod("default", limit=3, _continue=first.metadata._continue)
    assert names(rest) == ["p2", "p3", "p4"], "later chunks show the moment of the first"
    core.delete_collection_namespaced_pod("default", label_selector="parity=even", grace_period_seconds=0)
    assert names(core.list_namespaced_pod("default")) == ["p1", "p3"]


def test_patches(core: Any) -> None:
    core.create_namespaced_pod("default", pod("web", app="web"))
    # The client sends a list as a JSON patch and a dict as a strategic merge patch.
    strategic = {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}
    assert core.patch_namespaced_pod("web", "default", strategic).spec.containers[0].image == "nginx:2"
    operations = [{"op": "replace", "path": "/metadata/labels/app", "value": "other"}]
    assert core.patch_namespaced_pod("web", "default", operations).metadata.labels == {"app": "other"}
    condition = {"type": "Ready", "status": "True"}
    status = {"status": {"phase": "Running", "conditions": [condition]}}
    patched = core.patch_namespaced_pod_status("web", "default", status)
    assert patched.status.phase == "Running"
    assert "Ready" in {found.type for found in patched.status.conditions}


def test_binding_and_eviction(core: Any) -> None:
    core.create_node(client.V1Node(metadata=client.V1ObjectMeta(name="n1")))
    core.create_namespaced_pod("default", pod("web"))
    target = client.V1ObjectReference(api_version="v1", kind="Node", name="n1")
    binding = client.V1Binding(metadata=client.V1ObjectMeta(name="web"), target=target)
    # Its answer is a Status, which the client cannot read as a Binding.
    core.create_namespaced_pod_binding("web", "default", binding, _preload_content=False)
    assert core.read_namespaced_pod("web", "default").spec.node_name == "n1"
    eviction = client.V1Eviction(
        metadata=client.V1ObjectMeta(name="web"),
        delete_options=client.V1DeleteOptions(grace_period_seconds=0),
    )
    core.create_namespaced_pod_eviction("web", "default", eviction, _preload_content=False)
    assert names(core.list_namespaced_pod("default")) == []


def test_a_watch_sees_everything_and_resumes(core: Any) -> None:
    start = core.list_namespaced_pod("default").metadata.resource_version
    for name in ("a", "b"):
        core.create_namespaced_pod("default", pod(name))
    core.delete_namespaced_pod("a", "default", grace_period_seconds=0)
    watching = watch.Watch()
    seen: list[tuple[str, str, str]] = []
    for event in watching.stream(
        core.list_namespaced_pod, "default", resource_version=start, timeout_seconds=REQUEST_SECONDS
    ):
        metadata = event["object"].metadata
        seen.append((event["type"], metadata.name, metadata.resource_version))
        if event["type"] == "DELETED":
            watching.stop()
    # A pod is marked as being deleted before it goes, as on any API server.
    assert [entry[:2] for entry in seen] == [
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("MODIFIED", "a"),
        ("DELETED", "a"),
    ]
    resumed = watch.Watch()
    for event in resumed.stream(
        core.list_namespaced_pod, "default", resource_version=seen[0][2], timeout_seconds=REQUEST_SECONDS
    ):
        assert (event["type"], event["object"].metadata.name) == ("ADDED", "b")
        resumed.stop()


def test_a_watch_ends_in_time(core: Any) -> None:
    events = list(watch.Watch().stream(core.list_namespaced_pod, "default", timeout_seconds=1))
    assert events == []


def test_a_version_that_is_unknown_is_gone(core: Any) -> None:
    with pytest.raises(client.ApiException) as caught:
        for _ in watch.Watch().stream(
            core.list_namespaced_pod, "default", resource_version="999999", timeout_seconds=REQUEST_SECONDS
        ):
            pass
    assert caught.value.status == 410


def test_the_dynamic_client_finds_its_way(core: Any) -> None:
    found = dynamic.DynamicClient(core.api_client)
    deployments = found.resources.get(api_version="apps/v1", kind="Deployment")
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    }
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    assert deployments.create(body=body, namespace="default").spec.replicas == 2
    applied = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 4},
    }
    deployments.server_side_apply(
        body=applied, name="web", namespace="default", field_manager="tester", force_conflicts=True
    )
    assert deployments.get(name="web", namespace="default").spec.replicas == 4


@pytest.mark.parametrize("lock", locks)
def test_leader_election(cluster: Embedded, lock: Any) -> None:
    def candidate(identity: str, led: threading.Event | None = None) -> Any:
        def lead() -> None:
            assert led is not None
            led.set()
            raise RuntimeError("the work is done")

        return leaderelection.LeaderElection(
            electionconfig.Config(
                lock("election", "default", identity),
                lease_duration=3,
                renew_deadline=2,
                retry_period=1,
                onstarted_leading=lead,
                onstopped_leading=lambda: None,
            )
        )

    first, second = candidate("first"), candidate("second")
    assert first.try_acquire_or_renew()
    assert not second.try_acquire_or_renew()
    assert first.try_acquire_or_renew(), "the leader renews"
    assert not second.try_acquire_or_renew()
    # The first one rests; its lease runs out.
    wait_for("the second to lead", lambda: second.try_acquire_or_renew() or None, every=0.3)
    assert not first.try_acquire_or_renew()
    led = threading.Event()
    third = candidate("second", led)
    third.run()
    assert led.is_set()
