"""Devices for pods on a real API server; the test plays the drivers and the controller of claims."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.conftest import StartScheduler
from tests.e2e.control_plane import SECOND_SCHEDULER, ControlPlane
from tests.e2e.faulty_proxy import FaultyProxy, How
from tests.e2e.objects import Object, configuration, node, pod
from tests.e2e.schedulers import KUBERTH
from tests.e2e.waiting import wait_for

pytestmark = pytest.mark.e2e

V1 = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"
FINALIZER = "resource.kubernetes.io/delete-protection"
QUICK = configuration(podInitialBackoffSeconds=1, podMaxBackoffSeconds=1)


def device_class(name: str, expression: str = f'device.driver == "{DRIVER}"', **spec: Any) -> Object:
    return {
        "apiVersion": V1,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}], **spec},
    }


def device(name: str, model: str = "small", **fields: Any) -> Object:
    return {"name": name, "attributes": {"model": {"string": model}}, **fields}


def slice_of(node_name: str, *devices: Object, name: str = "") -> Object:
    return {
        "apiVersion": V1,
        "kind": "ResourceSlice",
        "metadata": {"name": name or f"slice-{node_name}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node_name,
            "pool": {"name": node_name, "generation": 1, "resourceSliceCount": 1},
            "devices": list(devices),
        },
    }


def request(name: str = "gpu", *, model: str = "", of: str = "gpu", **fields: Any) -> Object:
    exactly: Object = {"deviceClassName": of, **fields}
    if model:
        expression = f'device.attributes["{DRIVER}"].model == "{model}"'
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    return {"name": name, "exactly": exactly}


def first_of(name: str, *requests: Object) -> Object:
    return {
        "name": name,
        "firstAvailable": [{"name": each["name"], **each["exactly"]} for each in requests],
    }


def claim(name: str, *requests: Object, **devices: Any) -> Object:
    return {
        "apiVersion": V1,
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": list(requests), **devices}},
    }


def pod_with(name: str, *claims: str, **spec: Any) -> Object:
    return pod(
        name,
        scheduler="kuberth",
        resourceClaims=[{"name": each, "resourceClaimName": each} for each in claims],
        **spec,
    )


def pod_from_template(name: str, **spec: Any) -> Object:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    return pod(name, scheduler="kuberth", resourceClaims=claims, **spec)


def make_claim_for(cluster: Cluster, name: str, *requests: Object) -> None:
    """What the controller of claims does for a pod with a template."""
    made = claim(f"{name}-gpu", *requests)
    owner = cluster.pod(name)["metadata"]
    made["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": owner["uid"], "controller": True}
    ]
    cluster.create(made)
    statuses = [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]
    cluster.patch_pod(name, {"status": {"resourceClaimStatuses": statuses}}, subresource="status")


def claims_of(cluster: Cluster) -> dict[str, Object]:
    found = cluster.api.list(V1, "ResourceClaim", namespace=cluster.namespace)
    return {each["metadata"]["name"]: each for each in found}


def taken(cluster: Cluster) -> list[tuple[str, str]]:
    """Pool and device of everything that claims have."""
    return [
        (result["pool"], result["device"])
        for each in claims_of(cluster).values()
        for result in each.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
    ]


# Both schedulers, the same objects


def story(cluster: Cluster) -> Iterator[Sequence[str]]:
    """Objects one after the other; after each step these pods are to be bound."""
    cluster.create(node("n1", cpu="16"))
    cluster.create(
        device_class("gpu", config=[{"opaque": {"driver": DRIVER, "parameters": {"of": "class"}}}]),
        device_class("counted", extendedResourceName="example.com/gpu"),
    )
    cluster.create(
        slice_of(
            "n1",
            *(device(f"small-{n}") for n in range(6)),
            device("big-0", "big", capacity={"memory": {"value": "80Gi"}}),
            device("odd", "odd", taints=[{"key": "odd", "effect": "NoSchedule"}]),
            device(
                "shared",
                "shared",
                allowMultipleAllocations=True,
                capacity={
                    "memory": {
                        "value": "10Gi",
                        "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}},
                    }
                },
            ),
        )
    )
    cluster.create(claim("common", request(count=2)))
    cluster.create(pod_with("first", "common"))
    yield ["first"]
    cluster.create(pod_with("second", "common"))
    yield ["second"]
    cluster.create(pod_from_template("templated"))
    make_claim_for(cluster, "templated", request())
    yield ["templated"]
    cluster.create(
        claim(
            "listed",
            first_of("best", request("two-big", model="big", count=2), request("big", model="big")),
            config=[
                {"requests": ["best"], "opaque": {"driver": DRIVER, "parameters": {"of": "claim"}}},
                {"opaque": {"driver": DRIVER, "parameters": {"of": "all"}}},
            ],
        )
    )
    cluster.create(pod_with("prioritised", "listed"))
    yield ["prioritised"]
    cluster.create(
        claim("tolerant", request(model="odd", tolerations=[{"key": "odd", "operator": "Exists"}]))
    )
    cluster.create(
        claim("shares", request(model="shared", capacity={"requests": {"memory": "1500Mi"}})),
    )
    cluster.create(pod_with("both", "tolerant", "shares"))
    yield ["both"]
    wanted = {"example.com/gpu": "2"}
    container = {"name": "main", "image": "i", "resources": {"requests": wanted, "limits": wanted}}
    cluster.create(pod("extended", scheduler="kuberth", containers=[container]))
    yield ["extended"]


def outcome(cluster: Cluster) -> Any:
    """Everything that the scheduler wrote, without what is different every time."""
    uids = {each["metadata"]["uid"]: name for name, each in cluster.pods().items()}
    claims = claims_of(cluster)
    names = {name: re.sub(r"(-extended-resources-).*", r"\1*", name) for name in claims}
    found = {}
    for name, each in claims.items():
        status = each.get("status", {})
        allocation = status.get("allocation", {})
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", allocation.pop("allocationTimestamp"))
        for result in allocation["devices"].get("results", ()):
            if "shareID" in result:
                result["shareID"] = "*"
        for consumer in status.get("reservedFor", ()):
            consumer["uid"] = uids[consumer["uid"]]
        metadata = each["metadata"]
        found[names[name]] = {
            "spec": each["spec"],
            "status": status,
            "finalizers": metadata.get("finalizers"),
            "annotations": metadata.get("annotations"),
            "owners": [{**owner, "uid": "*"} for owner in metadata.get("ownerReferences", ())],
            "managed": sorted(
                (entry["operation"], entry.get("subresource", ""), _fields(entry["fieldsV1"], uids))
                for entry in metadata["managedFields"]
                if entry["manager"] in ("kuberth", "kube-scheduler")
            ),
        }
    pods = {}
    for name, each in cluster.pods().items():
        mapped = each.get("status", {}).get("extendedResourceClaimStatus")
        if mapped is not None:
            mapped["resourceClaimName"] = names[mapped["resourceClaimName"]]
        pods[name] = (each["spec"].get("nodeName"), mapped)
    return found, pods


def _fields(tree: Any, uids: dict[str, str]) -> str:
    """As text; entries of lists are named by UIDs, in the order of these."""
    text = json.dumps(tree)
    for uid, name in uids.items():
        text = text.replace(uid, name)
    return json.dumps(json.loads(text), sort_keys=True)


def outcome_of(program: str, cluster: Cluster, start_scheduler: StartScheduler) -> Any:
    scheduler = start_scheduler(QUICK, program=program, name=program)
    for names in story(cluster):
        cluster.wait_bound(*names, seconds=60)
    scheduler.kill()
    found = outcome(cluster)
    assert len(taken(cluster)) == len(set(taken(cluster))), "a device was given twice"
    return found


def test_claims_are_written_as_upstream_writes_them(
    cluster: Cluster,
    control_plane: ControlPlane,
    start_scheduler: StartScheduler,
    peer: str,
    kuberth_only: None,
) -> None:
    ours = outcome_of(KUBERTH, cluster, start_scheduler)
    cluster.clean_up()
    again = Cluster(control_plane)
    again.api.close()
    cluster.namespace = again.namespace
    theirs = outcome_of(peer, cluster, start_scheduler)
    assert ours == theirs


def test_parameters_for_drivers_are_left_as_they_are_spelled(
    cluster: Cluster, start_scheduler: StartScheduler
) -> None:
    """The API server keeps them byte by byte, and finds them changed if they are spelled otherwise."""
    with_devices(cluster, nodes=1, devices=1)
    start_scheduler(QUICK)
    parameters = {"of": "a claim", "and": ["more", 1.0]}
    config = [{"opaque": {"driver": DRIVER, "parameters": parameters}}]
    # Without blanks: those would keep the test itself from taking the finalizer away again.
    spelled = json.dumps(claim("spelled", request(), config=config), separators=(",", ":"))
    cluster.api.create_raw(f"/apis/{V1}/namespaces/{cluster.namespace}/resourceclaims", spelled.encode())
    cluster.create(pod_with("p", "spelled"))
    cluster.wait_bound("p")
    written = claims_of(cluster)["spelled"]
    assert written["metadata"]["finalizers"] == [FINALIZER]
    assert written["spec"]["devices"]["config"][0]["opaque"]["parameters"] == parameters
    assert taken(cluster) == [("n0", "dev-0")]


# When something goes wrong


@pytest.fixture
def proxy(control_plane: ControlPlane) -> Iterator[FaultyProxy]:
    with FaultyProxy(control_plane.authority, control_plane.address) as proxy:
        yield proxy


def with_devices(cluster: Cluster, *, nodes: int = 2, devices: int = 4) -> None:
    cluster.create(device_class("gpu"))
    for number in range(nodes):
        cluster.create(node(f"n{number}", cpu="16"))
        cluster.create(slice_of(f"n{number}", *(device(f"dev-{n}") for n in range(devices))))


@pytest.mark.parametrize("how", [How.LOSE_ANSWER, How.LOSE_REQUEST])
@pytest.mark.parametrize("times", [1, 3])
def test_lost_answers_leak_no_device(
    cluster: Cluster, proxy: FaultyProxy, start_scheduler: StartScheduler, how: How, times: int
) -> None:
    """As many pods as devices: all are bound in the end, and every device is given once."""
    with_devices(cluster)
    kubeconfig = cluster.control_plane.kubeconfig(SECOND_SCHEDULER, server=proxy.server)
    start_scheduler(QUICK, kubeconfig=kubeconfig)
    proxy.add("PATCH", "/resourceclaims/", how, times=times)
    names = [f"p{number}" for number in range(8)]
    for name in names:
        cluster.create(claim(name, request()))
        cluster.create(pod_with(name, name))
    cluster.wait_bound(*names, seconds=90)
    assert sorted(taken(cluster)) == sorted((f"n{n}", f"dev-{d}") for n in range(2) for d in range(4))


def test_conflicts_are_tried_again(cluster: Cluster, start_scheduler: StartScheduler) -> None:
    """Another client writes to the claims all the time."""
    with_devices(cluster)
    start_scheduler(QUICK)
    names = [f"p{number}" for number in range(8)]
    for name in names:
        cluster.create(claim(name, request()))
    for name in names:
        cluster.create(pod_with(name, name))
        for number in range(5):
            labels = {"metadata": {"labels": {"touched": str(number)}}}
            cluster.api.patch(V1, "ResourceClaim", name, labels, namespace=cluster.namespace)
    cluster.wait_bound(*names, seconds=60)
    assert len(set(taken(cluster))) == 8
    assert all(each["metadata"]["labels"] == {"touched": "4"} for each in claims_of(cluster).values())


def test_a_restart_leaks_no_device(cluster: Cluster, start_scheduler: StartScheduler) -> None:
    """Killed while claims are being written: what was decided in memory alone is decided again."""
    with_devices(cluster, nodes=4, devices=8)
    names = [f"p{number}" for number in range(32)]
    for name in names:
        cluster.create(claim(name, request()))
        cluster.create(pod_with(name, name))
    first = start_scheduler(QUICK)
    wait_for("some claims to be allocated", lambda: len(taken(cluster)) >= 4)
    first.kill()
    start_scheduler(QUICK)
    cluster.wait_bound(*names, seconds=60)
    assert len(set(taken(cluster))) == len(taken(cluster)) == 32


def test_an_unsatisfiable_claim_is_reported_and_satisfied_later(
    cluster: Cluster, start_scheduler: StartScheduler
) -> None:
    with_devices(cluster, nodes=1, devices=1)
    start_scheduler(QUICK)
    cluster.create(claim("two", request(count=2)))
    cluster.create(pod_with("waiting", "two"), pod_with("plain"))
    cluster.wait_bound("plain")
    assert "cannot allocate all claims" in cluster.wait_unschedulable("waiting")
    cluster.create(
        {
            **slice_of("n0", device("more-0"), device("more-1"), name="more"),
            "spec": {
                **slice_of("n0", device("more-0"), device("more-1"))["spec"],
                "pool": {"name": "more", "generation": 1, "resourceSliceCount": 1},
            },
        }
    )
    cluster.wait_bound("waiting")
    assert claims_of(cluster)["two"]["metadata"]["finalizers"] == [FINALIZER]
