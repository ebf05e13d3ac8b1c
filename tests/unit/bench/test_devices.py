"""Workloads with devices: drivers, claims, and their controller."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from kuberth.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from kuberth.api.wire import convert
from kuberth.bench.making import RandomAllocation
from kuberth.errors import ConfigError
from kuberth.testing.factories import make_node
from tests.unit.bench.harness import MEASURED, Ran, run

NODES = "{opcode: createNodes, count: 2}"
DRIVER = "{opcode: createResourceDriver, driverName: d.example.com, nodes: node-0-*, maxClaimsPerNode: 3}"
CLASS = "{opcode: createAny, templatePath: class.yaml}"
TEMPLATE = "{opcode: createAny, templatePath: claim-template.yaml, namespace: test}"
CLAIMS, SLICES = "resourceclaims.resource.k8s.io", "resourceslices.resource.k8s.io"


def devices_of(claim: Any) -> list[tuple[str, str]]:
    results = claim["status"]["allocation"]["devices"]["results"]
    return [(each["pool"], each["device"]) for each in results]


def test_a_driver_publishes_devices_of_the_nodes_it_is_on(tmp_path: Path) -> None:
    ran = run(tmp_path, NODES, "{opcode: createNodes, count: 1}", DRIVER, MEASURED)
    slices = ran.objects(SLICES)
    assert len(slices) == 2, "the third node has another name"
    for each in slices:
        spec = each["spec"]
        assert spec["nodeName"] == spec["pool"]["name"] == each["metadata"]["name"]
        assert [device["name"] for device in spec["devices"]] == ["instance-0", "instance-1", "instance-2"]
        assert spec["devices"][1]["attributes"]["dra.example.com/numa"] == {"int": 1}
        assert spec["devices"][1]["capacity"] == {"memory": {"value": "1Gi"}}


def test_pods_get_claims_from_templates_and_devices(tmp_path: Path) -> None:
    pods = (
        "{opcode: createPods, count: 6, namespace: test, podTemplatePath: claiming.yaml, "
        "collectMetrics: true}"
    )
    ran = run(tmp_path, NODES, DRIVER, CLASS, TEMPLATE, pods)
    assert [each.scheduled for each in ran.measurements] == [6]
    claims = ran.objects(CLAIMS, "test")
    assert len({device for claim in claims for device in devices_of(claim)}) == 6, "none twice"
    assert all(len(claim["status"]["reservedFor"]) == 1 for claim in claims)


def test_claims_go_with_their_pods(tmp_path: Path) -> None:
    """Six devices, batches of six: without those of the last batch the next could not run."""
    ran = run(
        tmp_path,
        NODES,
        DRIVER,
        CLASS,
        TEMPLATE,
        "{opcode: createPods, count: 6, namespace: test, podTemplatePath: claiming.yaml, steadyState: true, "
        "duration: 4s, collectMetrics: true}",
    )
    assert ran.measurements[0].scheduled > 6
    assert len(ran.objects(CLAIMS, "test")) <= 12


def allocated(folder: Path) -> Ran:
    return run(
        folder,
        NODES,
        DRIVER,
        CLASS,
        "{opcode: createResourceClaims, count: 4, namespace: init, templatePath: claim.yaml}",
        "{opcode: createResourceClaims, count: 1, namespace: other, templatePath: claim.yaml}",
        "{opcode: allocResourceClaims, namespace: init}",
        "{opcode: allocResourceClaims, namespace: init}",
        MEASURED,
    )


def test_claims_get_devices_without_pods(tmp_path: Path) -> None:
    ran = allocated(tmp_path)
    claims = ran.objects(CLAIMS, "init")
    assert len({device for claim in claims for device in devices_of(claim)}) == 4
    assert all("reservedFor" not in claim["status"] for claim in claims)
    (other,) = ran.objects(CLAIMS, "other")
    assert "allocation" not in other["status"]


def allocation_of(devices: int) -> RandomAllocation:
    tree = {
        "metadata": {"name": "s"},
        "spec": {
            "driver": "d",
            "nodeName": "n",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"x{number}"} for number in range(devices)],
        },
    }
    return RandomAllocation(
        [make_node("n")],
        [convert(ResourceSlice, tree)],
        [convert(DeviceClass, {"metadata": {"name": "c"}})],
        (),
        rng=random.Random(1),
    )


def claim(*requests: Any) -> ResourceClaim:
    tree = {"metadata": {"name": "a", "namespace": "ns"}, "spec": {"devices": {"requests": list(requests)}}}
    return convert(ResourceClaim, tree)


REQUEST = {"name": "r", "exactly": {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}}


def test_what_others_have_is_not_drawn() -> None:
    random_allocation = allocation_of(2)
    first, second = random_allocation.draw(claim(REQUEST)), random_allocation.draw(claim(REQUEST))
    assert [each.devices.results[0].device for each in (first, second)] == ["x0", "x1"]
    with pytest.raises(ConfigError, match="no node has devices for the claim ns/a; are there drivers"):
        random_allocation.draw(claim(REQUEST))


def test_a_claim_of_an_unknown_class_is_refused() -> None:
    random_allocation = allocation_of(1)
    with pytest.raises(ConfigError, match="allocate claim: claim ns/a, request r: could not retrieve device"):
        random_allocation.draw(claim({"name": "r", "exactly": {"deviceClassName": "gone", "count": 1}}))
