"""Claims are made for pods, kept while they are used, freed and removed afterwards; pods wait for them."""

from __future__ import annotations

from typing import Any

import pytest

from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.hollow.controllers.resource_claims import FINALIZER, POD_CLAIM_NAME, generated_prefix
from tests.manifests import pod_manifest
from tests.unit.local.hollow.harness import World, playing, virtual

REQUESTS = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
TEMPLATE: Obj = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "one-gpu", "namespace": "default"},
    "spec": {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": REQUESTS},
}
RESULT = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
ALLOCATION = {"devices": {"results": [RESULT]}}


def claiming_pod(name: str = "p", **spec: Any) -> Obj:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    return pod_manifest(name, **{"resourceClaims": claims, **spec})


def shared_pod(name: str, **spec: Any) -> Obj:
    return claiming_pod(name, resourceClaims=[{"name": "gpu", "resourceClaimName": "shared"}], **spec)


async def claim_of(world: World, name: str = "p") -> Obj:
    """The claim in a pod's status, once it is there."""

    async def recorded() -> bool:
        return bool((await world.get("Pod", name))["status"].get("resourceClaimStatuses"))

    await world.until(recorded)
    (status,) = (await world.get("Pod", name))["status"]["resourceClaimStatuses"]
    assert status["name"] == "gpu"
    return await world.get("ResourceClaim", status["resourceClaimName"])


async def allocate(world: World, claim: str, *pods: str) -> None:
    """As the scheduler does."""
    users = [
        {"resource": "pods", "name": name, "uid": (await world.get("Pod", name))["metadata"]["uid"]}
        for name in pods
    ]
    await world.patch("ResourceClaim", claim, {"metadata": {"finalizers": [FINALIZER]}})
    status = {"status": {"allocation": ALLOCATION, "reservedFor": users}}
    await world.patch("ResourceClaim", claim, status, sub="status")


async def bind(world: World, name: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": "default"},
        "target": {"kind": "Node", "name": "node-1"},
    }
    await world.core.create("pods", body, namespace="default", name=name, subresource="binding")


def test_a_claim_is_created_from_its_template_and_named_in_the_status() -> None:
    async def main() -> None:
        async with playing(nodes=1, binder=False) as world:
            await world.create(claiming_pod())
            await world.quiet()
            events = [event["reason"] for event in await world.all("Event")]
            assert set(events) == {"FailedResourceClaimCreation"}
            await world.create(TEMPLATE)
            claim = await claim_of(world)
            owner = (await world.get("Pod", "p"))["metadata"]["uid"]
            metadata = claim["metadata"]
            assert metadata["generateName"] == "p-gpu-"
            assert metadata["labels"] == {"a": "b"}
            assert metadata["annotations"] == {"c": "d", POD_CLAIM_NAME: "gpu"}
            assert metadata["ownerReferences"] == [
                {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner, "controller": True}
            ]
            await world.delete("ResourceClaim", name_of(claim))

            async def made_again() -> bool:
                return bool(await world.all("ResourceClaim"))

            await world.until(made_again)
            assert len(await world.all("ResourceClaim")) == 1

    virtual(main)


@pytest.mark.parametrize(
    "pod_name, claim_name, prefix",
    [
        ("p", "gpu", "p-gpu-"),
        ("p" * 60, "g" * 60, f"{'p' * 28}-{'g' * 28}"),
        ("p" * 80, "gpu", "p" * 53 + "-gp"),
    ],
)
def test_long_names_are_cut_in_proportion(pod_name: str, claim_name: str, prefix: str) -> None:
    assert generated_prefix(pod_name, claim_name) == prefix


def test_a_pod_starts_when_its_claim_is_allocated_and_reserved_for_it() -> None:
    async def main() -> None:
        async with playing(nodes=1, binder=False) as world:
            await world.create(TEMPLATE)
            await world.create(claiming_pod())
            claim = name_of(await claim_of(world))
            await bind(world, "p")
            await world.quiet()
            waiting = (await world.get("Pod", "p"))["status"]
            assert waiting["phase"] == "Pending"
            assert waiting["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
            recorded = [event for event in await world.all("Event") if event["type"] == "Warning"]
            assert {event["reason"] for event in recorded} == {"FailedPrepareDynamicResources"}
            assert f"is not allowed to use ResourceClaim {claim}" in recorded[0]["message"]
            assert len(recorded) == 1
            await allocate(world, claim, "p")
            await world.status("Pod", "p", phase="Running")

    virtual(main)


def test_an_allocated_claim_is_reserved_for_a_pod_that_no_scheduler_placed() -> None:
    async def main() -> None:
        async with playing(nodes=1, binder=False) as world:
            await world.create(TEMPLATE)
            await world.create(claiming_pod(nodeName="node-1"))
            claim = name_of(await claim_of(world))
            await world.patch("ResourceClaim", claim, {"metadata": {"finalizers": [FINALIZER]}})
            await world.patch("ResourceClaim", claim, {"status": {"allocation": ALLOCATION}}, sub="status")
            await world.status("Pod", "p", phase="Running")

    virtual(main)


def test_a_claim_goes_with_the_pod_it_was_made_for() -> None:
    async def main() -> None:
        async with playing(nodes=1, binder=False) as world:
            await world.create(TEMPLATE)
            await world.create(claiming_pod())
            claim = name_of(await claim_of(world))
            await allocate(world, claim, "p")
            await bind(world, "p")
            await world.status("Pod", "p", phase="Running")
            await world.delete("Pod", "p")
            await world.gone("ResourceClaim", claim)

    virtual(main)


def test_a_pod_that_is_done_needs_no_claim_though_it_stays() -> None:
    async def main() -> None:
        async with playing(nodes=1, binder=False) as world:
            await world.create(TEMPLATE)
            body = claiming_pod(restartPolicy="Never")
            body["metadata"]["annotations"] = {"kuberth.dev/run-seconds": "5"}
            await world.create(body)
            claim = name_of(await claim_of(world))
            await allocate(world, claim, "p")
            await bind(world, "p")
            await world.status("Pod", "p", phase="Succeeded")
            await world.gone("ResourceClaim", claim)
            assert await world.there("Pod", "p")

    virtual(main)


def test_a_shared_claim_is_deallocated_after_its_last_pod_and_stays() -> None:
    async def main() -> None:
        async with playing(nodes=1, binder=False) as world:
            metadata = {"name": "shared", "namespace": "default"}
            await world.create(
                {
                    "apiVersion": "resource.k8s.io/v1",
                    "kind": "ResourceClaim",
                    "metadata": metadata,
                    "spec": REQUESTS,
                }
            )
            for name in ("a", "b"):
                await world.create(shared_pod(name))
            await allocate(world, "shared", "a", "b")
            for name in ("a", "b"):
                await bind(world, name)
                await world.status("Pod", name, phase="Running")
            await world.delete("Pod", "a")
            await world.gone("Pod", "a")
            await world.quiet()
            claim = await world.get("ResourceClaim", "shared")
            assert [user["name"] for user in claim["status"]["reservedFor"]] == ["b"]
            assert "allocation" in claim["status"]
            # While it is used, it only looks deleted.
            await world.delete("ResourceClaim", "shared")
            await world.quiet()
            assert await world.there("ResourceClaim", "shared")
            await world.delete("Pod", "b")
            await world.gone("ResourceClaim", "shared")

    virtual(main)


def test_a_claim_of_a_user_stays_deallocated_without_users() -> None:
    async def main() -> None:
        async with playing(nodes=1, binder=False) as world:
            metadata = {"name": "shared", "namespace": "default"}
            await world.create(
                {
                    "apiVersion": "resource.k8s.io/v1",
                    "kind": "ResourceClaim",
                    "metadata": metadata,
                    "spec": REQUESTS,
                }
            )
            await world.create(shared_pod("a"))
            await allocate(world, "shared", "a")
            await world.delete("Pod", "a")  # it never ran
            await world.gone("Pod", "a")
            await world.quiet()
            claim = await world.get("ResourceClaim", "shared")
            assert claim.get("status") == {}
            assert not claim["metadata"].get("finalizers")

    virtual(main)


def test_a_consumer_other_than_a_pod_keeps_its_reservation() -> None:
    async def main() -> None:
        async with playing(nodes=1, binder=False) as world:
            metadata = {"name": "shared", "namespace": "default", "finalizers": [FINALIZER]}
            await world.create(
                {
                    "apiVersion": "resource.k8s.io/v1",
                    "kind": "ResourceClaim",
                    "metadata": metadata,
                    "spec": REQUESTS,
                }
            )
            users = [
                {"apiGroup": "example.com", "resource": "trainings", "name": "t", "uid": "1"},
                {"resource": "pods", "name": "missing", "uid": "2"},
            ]
            status = {"status": {"allocation": ALLOCATION, "reservedFor": users}}
            await world.patch("ResourceClaim", "shared", status, sub="status")
            await world.quiet()
            claim = await world.get("ResourceClaim", "shared")
            assert [user["name"] for user in claim["status"]["reservedFor"]] == ["t"]
            assert "allocation" in claim["status"]

    virtual(main)
