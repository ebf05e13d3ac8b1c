"""Claims, templates, classes and slices; what kube-apiserver answers is compared in tests/e2e."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.patching.patching import MERGE_PATCH
from kuberth.local.apiserver.status_errors import StatusError
from tests.unit.local.apiserver.harness import CoreHarness, run

CLAIMS, TEMPLATES, SLICES, CLASSES = (
    f"{plural}.resource.k8s.io"
    for plural in ("resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses")
)
RESULT = {"request": "r", "driver": "d.example", "pool": "p", "device": "x"}


def claim(**exactly: Any) -> Obj:
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu", **exactly}}]
    return {"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}}


def slice_of(**spec: Any) -> Obj:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": "s"},
        "spec": {"driver": "d.example", "pool": pool, "allNodes": True, **spec},
    }


def test_a_request_is_completed() -> None:
    async def main(harness: CoreHarness) -> None:
        body = claim(tolerations=[{"key": "k"}])
        made = await harness.core.create(CLAIMS, {**body, "status": {"reservedFor": []}}, namespace="default")
        (request,) = made["spec"]["devices"]["requests"]
        assert request["exactly"]["allocationMode"] == "ExactCount"
        assert request["exactly"]["count"] == 1
        assert request["exactly"]["tolerations"] == [{"key": "k", "operator": "Equal"}]
        assert made["status"] == {}
        everything = claim(allocationMode="All")
        everything["metadata"]["name"] = "all"
        made = await harness.core.create(CLAIMS, everything, namespace="default")
        assert "count" not in made["spec"]["devices"]["requests"][0]["exactly"]

    run(main)


def test_what_is_asked_for_does_not_change() -> None:
    async def main(harness: CoreHarness) -> None:
        await harness.core.create(CLAIMS, claim(), namespace="default")
        template = {"metadata": {"name": "t"}, "spec": {"spec": claim()["spec"]}}
        await harness.core.create(TEMPLATES, template, namespace="default")
        for resource, name, patch in (
            (CLAIMS, "c", {"spec": {"devices": {"requests": []}}}),
            (TEMPLATES, "t", {"spec": {"spec": {"devices": {"requests": []}}}}),
        ):
            with pytest.raises(StatusError, match=r"spec: Invalid value: .*: field is immutable"):
                await harness.core.patch(resource, name, patch, content_type=MERGE_PATCH, namespace="default")
            labels = {"metadata": {"labels": {"a": "b"}}}
            await harness.core.patch(resource, name, labels, content_type=MERGE_PATCH, namespace="default")

    run(main)


def test_an_allocation_is_immutable_and_device_status_is_removed_with_it() -> None:
    async def main(harness: CoreHarness) -> None:
        await harness.core.create(CLAIMS, claim(), namespace="default")

        async def write(**status: Any) -> Obj:
            written, _ = await harness.core.patch(
                CLAIMS,
                "c",
                {"status": status},
                content_type=MERGE_PATCH,
                namespace="default",
                subresource="status",
            )
            found: Obj = written["status"]
            return found

        user = {"resource": "pods", "name": "p", "uid": "u"}
        with pytest.raises(StatusError, match=r"status.reservedFor: Forbidden"):
            await write(reservedFor=[user])
        await write(allocation={"devices": {"results": [RESULT]}}, reservedFor=[user])
        with pytest.raises(StatusError, match=r"status.allocation: Invalid value: .*: field is immutable"):
            await write(allocation={"devices": {"results": [{**RESULT, "device": "y"}]}})
        reported = {"driver": "d.example", "pool": "p", "device": "x"}
        assert (await write(devices=[reported]))["devices"] == [reported]
        assert await write(allocation=None, reservedFor=None) == {}

    run(main)


def test_devices_of_others_need_a_label() -> None:
    async def main(harness: CoreHarness) -> None:
        with pytest.raises(StatusError, match="admin access to devices requires"):
            await harness.core.create(CLAIMS, claim(adminAccess=True), namespace="default")
        labels = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
        await harness.core.patch("namespaces", "default", labels, content_type=MERGE_PATCH)
        await harness.core.create(CLAIMS, claim(adminAccess=True), namespace="default")

    run(main)


def test_fields_behind_gates_that_are_off_are_dropped() -> None:
    async def main(harness: CoreHarness) -> None:
        mapping = {"cpu": {"allocationMultiplier": "1"}}
        device = {
            "name": "x",
            "attributes": {"a": {"string": "b", "strings": ["c"]}},
            "nodeAllocatableResourceMappings": mapping,
            "taints": [{"key": "k", "effect": "NoSchedule"}],
        }
        made = await harness.core.create(SLICES, slice_of(devices=[device]))
        (found,) = made["spec"]["devices"]
        assert found["attributes"] == {"a": {"string": "b"}}
        assert "nodeAllocatableResourceMappings" not in found
        assert found["taints"][0]["timeAdded"] == "2023-11-14T22:13:20Z"

    run(main)


@pytest.mark.parametrize(
    "resource, body, problem",
    [
        (CLAIMS, claim(count=-1), "count: Invalid value: -1: must be greater than zero"),
        (CLAIMS, claim(selectors=[{"cel": {"expression": "1"}}]), "must evaluate to bool"),
        (CLAIMS, claim(selectors=[{"cel": {"expression": "(" * 9000}}]), "expression: Invalid value"),
        (
            CLASSES,
            {"metadata": {"name": "x"}, "spec": {"extendedResourceName": "cpu"}},
            "extendedResourceName",
        ),
        (SLICES, slice_of(devices=[{"name": f"d{n}"} for n in range(129)]), "Too many: 129"),
        (SLICES, slice_of(nodeName="n"), "exactly one of `nodeName`"),
        (
            SLICES,
            slice_of(
                devices=[
                    {
                        "name": "x",
                        "allowMultipleAllocations": True,
                        "capacity": {
                            "m": {
                                "value": "4",
                                "requestPolicy": {"default": "1", "validRange": {"min": "1", "step": "0"}},
                            }
                        },
                    }
                ]
            ),
            "",
        ),
    ],
)
def test_refusals(resource: str, body: Obj, problem: str) -> None:
    async def main(harness: CoreHarness) -> None:
        namespace = "default" if resource == CLAIMS else ""
        if not problem:  # a step of nothing ends kube-apiserver's request in a panic; here it is no step
            await harness.core.create(resource, body, namespace=namespace)
            return
        with pytest.raises(StatusError, match=re.escape(problem)):
            await harness.core.create(resource, body, namespace=namespace)

    run(main)


GPU = {"name": "gpu", "resourceClaimTemplateName": "t"}


@pytest.mark.parametrize(
    "claims, uses, problem",
    [
        ([{"resourceClaimName": "c"}], [], "spec.resourceClaims[0].name: Required value"),
        ([GPU, GPU], [], 'spec.resourceClaims[1].name: Duplicate value: "gpu"'),
        ([{"name": "gpu"}], [], "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
        ([{**GPU, "resourceClaimName": "c"}], [], "at most one of `resourceClaimName`"),
        ([], [{"name": "x"}], "must be one of the names in pod.spec.resourceClaims which is empty"),
        ([GPU], [{}], "spec.containers[0].resources.claims[0]: Required value"),
        ([GPU], [{"name": "gpu"}, {"name": "gpu", "request": "a"}], 'claims[1]: Duplicate value: "gpu"'),
        ([GPU], [{"name": "gpu", "request": "a"}, {"name": "gpu"}], 'claims[1]: Duplicate value: "gpu"'),
        ([GPU], [{"name": "gpu", "request": "a"}, {"name": "gpu", "request": "b"}], ""),
    ],
)
def test_claims_of_pods(claims: list[Obj], uses: list[Obj], problem: str) -> None:
    async def main(harness: CoreHarness) -> None:
        containers = [{"name": "c", "image": "i", "resources": {"claims": uses}}]
        if not problem:
            await harness.pod(containers=containers, resourceClaims=claims)
            return
        with pytest.raises(StatusError, match=re.escape(problem)):
            await harness.pod(containers=containers, resourceClaims=claims)

    run(main)


NODE_RESOURCES = {"DRANodeAllocatableResources": True}


def mapped(mappings: Obj, **device: Any) -> Obj:
    return slice_of(devices=[{"name": "x", "nodeAllocatableResourceMappings": mappings, **device}])


def test_a_device_takes_as_much_as_there_are_of_it() -> None:
    async def main(harness: CoreHarness) -> None:
        made = await harness.core.create(
            SLICES, mapped({"cpu": {}, "memory": {"allocationMultiplier": "2Gi"}})
        )
        assert made["spec"]["devices"][0]["nodeAllocatableResourceMappings"] == {
            "cpu": {"allocationMultiplier": "1"},
            "memory": {"allocationMultiplier": "2Gi"},
        }

    run(main, feature_gates=NODE_RESOURCES)


@pytest.mark.parametrize(
    ("mappings", "problem"),
    [
        (
            {"example.com/gpu": {}},
            '[example.com/gpu]: Invalid value: "example.com/gpu": must be a node allocatable resource name',
        ),
        (
            {"cpu": {"allocationMultiplier": "-1"}},
            '[cpu].allocationMultiplier: Invalid value: "-1": must be positive',
        ),
        (
            {"cpu": {"capacityKey": ""}},
            '[cpu].capacityKey: Invalid value: "": capacityKey must not be an empty string',
        ),
        ({"cpu": {"capacityKey": "cores"}}, '[cpu].capacityKey: Not found: "cores"'),
    ],
)
def test_what_a_device_cannot_take(mappings: Obj, problem: str) -> None:
    async def main(harness: CoreHarness) -> None:
        with pytest.raises(StatusError) as refusal:
            await harness.core.create(SLICES, mapped(mappings, capacity={"other": {"value": "1"}}))
        assert f"spec.devices[0].nodeAllocatableResourceMappings{problem}" in str(refusal.value)

    run(main, feature_gates=NODE_RESOURCES)


TAKEN: Obj = {"resourceClaimName": "c", "containers": ["main"], "resources": {"cpu": "1"}}


async def write_status(harness: CoreHarness, *taken: Obj) -> Any:
    patch = {"status": {"nodeAllocatableResourceClaimStatuses": [*taken]}}
    pod, _ = await harness.core.patch(
        "pods", "p", patch, namespace="default", subresource="status", content_type=MERGE_PATCH
    )
    return pod["status"].get("nodeAllocatableResourceClaimStatuses")


def test_what_devices_take_is_kept_in_a_pods_status() -> None:
    async def main(harness: CoreHarness) -> None:
        await harness.pod("p", resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}])
        assert await write_status(harness, TAKEN) == [TAKEN]
        assert await write_status(harness) is None

    run(main, feature_gates=NODE_RESOURCES)


def test_with_the_gate_off_it_is_not() -> None:
    async def main(harness: CoreHarness) -> None:
        await harness.pod("p", resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}])
        assert await write_status(harness, TAKEN) is None

    run(main)


@pytest.mark.parametrize(
    ("taken", "problem"),
    [
        ({"resourceClaimName": ""}, "resourceClaimName: Required value: must not be empty"),
        (
            {"resourceClaimName": "d"},
            'resourceClaimName: Invalid value: "d": no mapping found in pod reference',
        ),
        ({"containers": []}, "containers: Required value: must not be empty"),
        ({"resources": {}}, "resources: Required value: must not be empty"),
        (
            {"resources": {"example.com/x": "1"}},
            'resources[example.com/x]: Invalid value: "example.com/x": must be a node allocatable',
        ),
        ({"resources": {"cpu": "-1"}}, 'resources[cpu]: Invalid value: "-1": must be non-negative'),
    ],
)
def test_what_a_pods_status_cannot_say_of_devices(taken: Obj, problem: str) -> None:
    async def main(harness: CoreHarness) -> None:
        await harness.pod("p", resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}])
        with pytest.raises(StatusError) as refusal:
            await write_status(harness, {**TAKEN, **taken})
        assert f"status.nodeAllocatableResourceClaimStatuses[0].{problem}" in str(refusal.value)

    run(main, feature_gates=NODE_RESOURCES)


def test_a_claim_made_from_a_template_may_take_too() -> None:
    async def main(harness: CoreHarness) -> None:
        await harness.pod("p", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}])
        made = {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "c"}]}}
        await harness.core.patch(
            "pods", "p", made, namespace="default", subresource="status", content_type=MERGE_PATCH
        )
        assert await write_status(harness, TAKEN) == [TAKEN]

    run(main, feature_gates=NODE_RESOURCES)
