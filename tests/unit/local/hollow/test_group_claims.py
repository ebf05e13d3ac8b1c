"""Claims of pod groups: made once for all pods, reserved for the group, gone with it."""

from __future__ import annotations

from typing import Any

import pytest

from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.hollow.controllers.resource_claims import FINALIZER, POD_CLAIM_NAME
from kuberth.local.hollow.pod_claims import PodClaim, is_of_group, problem_with_claims
from tests.unit.local.hollow.harness import World, playing, virtual
from tests.unit.local.hollow.test_device_taint_eviction import NO_EXECUTE, slice_with
from tests.unit.local.hollow.test_resource_claims import ALLOCATION, TEMPLATE, bind, claiming_pod

GATES = {"GenericWorkload": True, "DRAWorkloadResourceClaims": True}
CLAIMS = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
GROUP: Obj = {
    "apiVersion": "scheduling.k8s.io/v1alpha2",
    "kind": "PodGroup",
    "metadata": {"name": "team", "namespace": "default"},
    "spec": {"schedulingPolicy": {"basic": {}}, "resourceClaims": CLAIMS},
}


def member(name: str, **spec: Any) -> Obj:
    return claiming_pod(name, schedulingGroup={"podGroupName": "team"}, **spec)


async def claim_in_status(world: World, kind: str, name: str) -> str:
    """The claim in the status of a pod or a group, once it is there."""

    async def there() -> bool:
        return bool((await world.get(kind, name)).get("status", {}).get("resourceClaimStatuses"))

    await world.until(there)
    (status,) = (await world.get(kind, name))["status"]["resourceClaimStatuses"]
    assert status["name"] == "gpu"
    return str(status["resourceClaimName"])


def user(group: Obj) -> Obj:
    return {
        "apiGroup": "scheduling.k8s.io",
        "resource": "podgroups",
        "name": name_of(group),
        "uid": group["metadata"]["uid"],
    }


async def allocate(world: World, claim: str, *users: Obj) -> None:
    await world.patch("ResourceClaim", claim, {"metadata": {"finalizers": [FINALIZER]}})
    status = {"status": {"allocation": ALLOCATION, "reservedFor": [*users]}}
    await world.patch("ResourceClaim", claim, status, sub="status")


def test_one_claim_is_made_for_all_pods_of_a_group() -> None:
    async def main() -> None:
        async with playing(gates=GATES, nodes=1, binder=False) as world:
            await world.create(member("early"))
            await world.quiet()
            assert not await world.all("ResourceClaim")
            group = await world.create(GROUP)
            await world.quiet()
            events = {(event["reason"], event["message"]) for event in await world.all("Event")}
            assert events == {
                (
                    "FailedResourceClaimCreation",
                    'PodGroupResourceClaim gpu: resource claim template "one-gpu": '
                    'resourceclaimtemplate.resource.k8s.io "one-gpu" not found',
                )
            }
            await world.create(TEMPLATE)
            name = await claim_in_status(world, "PodGroup", "team")
            await world.create(member("late"))
            assert (
                await claim_in_status(world, "Pod", "early")
                == await claim_in_status(world, "Pod", "late")
                == name
            )
            (claim,) = await world.all("ResourceClaim")
            assert name_of(claim).startswith("team-gpu-")
            assert claim["metadata"]["annotations"] == {"c": "d", POD_CLAIM_NAME: "gpu"}
            assert claim["metadata"]["labels"] == {"a": "b"}
            assert claim["metadata"]["ownerReferences"] == [
                {
                    "apiVersion": "scheduling.k8s.io/v1alpha2",
                    "kind": "PodGroup",
                    "name": "team",
                    "uid": group["metadata"]["uid"],
                    "controller": True,
                }
            ]

    virtual(main)


def test_a_claim_that_the_group_does_not_have_is_made_for_the_pod() -> None:
    async def main() -> None:
        async with playing(gates=GATES, nodes=1, binder=False) as world:
            await world.create(TEMPLATE)
            await world.create(GROUP)
            own = {"name": "nic", "resourceClaimTemplateName": "one-gpu"}
            await world.create(member("p", resourceClaims=[own]))
            await world.quiet()
            claims = await world.all("ResourceClaim")
            owners = {claim["metadata"]["ownerReferences"][0]["kind"] for claim in claims}
            assert owners == {"Pod", "PodGroup"}

    virtual(main)


def test_with_the_gate_off_every_pod_has_a_claim_of_its_own() -> None:
    async def main() -> None:
        async with playing(gates={"GenericWorkload": True}, nodes=1, binder=False) as world:
            await world.create(TEMPLATE)
            group = await world.create(GROUP)
            assert "resourceClaims" not in group["spec"]
            await world.create(member("p"))
            name = await claim_in_status(world, "Pod", "p")
            claim = await world.get("ResourceClaim", name)
            assert claim["metadata"]["ownerReferences"][0]["kind"] == "Pod"

    virtual(main)


def test_a_claim_that_was_deleted_is_made_again() -> None:
    async def main() -> None:
        async with playing(gates=GATES, nodes=1, binder=False) as world:
            await world.create(TEMPLATE)
            await world.create(GROUP)
            first = await claim_in_status(world, "PodGroup", "team")
            await world.create(member("p"))
            await claim_in_status(world, "Pod", "p")
            await world.delete("ResourceClaim", first)

            async def again() -> bool:
                names = {
                    await claim_in_status(world, "PodGroup", "team"),
                    await claim_in_status(world, "Pod", "p"),
                }
                return len(names) == 1 and first not in names

            await world.until(again)

    virtual(main)


def test_the_group_uses_its_claim_until_it_is_gone() -> None:
    """Pods come and go; with the group go the reservation, the devices and the claim."""

    async def main() -> None:
        async with playing(gates=GATES, nodes=1, binder=False) as world:
            await world.create(TEMPLATE)
            group = await world.create(GROUP)
            name = await claim_in_status(world, "PodGroup", "team")
            await world.create(member("p"))
            await claim_in_status(world, "Pod", "p")
            await allocate(world, name, user(group))
            await bind(world, "p")

            async def runs() -> bool:
                return bool((await world.get("Pod", "p"))["status"]["phase"] == "Running")

            await world.until(runs)
            await world.delete("Pod", "p")
            await world.quiet(seconds=60)
            claim = await world.get("ResourceClaim", name)
            assert claim["status"]["reservedFor"] == [user(group)]
            await world.delete("PodGroup", "team")

            async def gone() -> bool:
                return not await world.all("ResourceClaim")

            await world.until(gone)

    virtual(main)


def test_a_claim_that_the_group_only_names_is_freed_when_it_is_gone() -> None:
    async def main() -> None:
        async with playing(gates=GATES, nodes=1, binder=False) as world:
            claims = [{"name": "gpu", "resourceClaimName": "shared"}]
            group = await world.create({**GROUP, "spec": {**GROUP["spec"], "resourceClaims": claims}})
            metadata = {"name": "shared", "namespace": "default"}
            spec = TEMPLATE["spec"]["spec"]
            await world.create(
                {
                    "apiVersion": "resource.k8s.io/v1",
                    "kind": "ResourceClaim",
                    "metadata": metadata,
                    "spec": spec,
                }
            )
            await allocate(world, "shared", user(group))
            await world.quiet()
            assert "allocation" in (await world.get("ResourceClaim", "shared"))["status"]
            await world.delete("PodGroup", "team")

            async def freed() -> bool:
                return not (await world.get("ResourceClaim", "shared")).get("status")

            await world.until(freed)

    virtual(main)


def test_a_pod_that_came_without_the_scheduler_uses_the_claim_in_its_groups_name() -> None:
    async def main() -> None:
        async with playing(gates=GATES, nodes=1, binder=False) as world:
            await world.create(TEMPLATE)
            group = await world.create(GROUP)
            name = await claim_in_status(world, "PodGroup", "team")
            await allocate(world, name)
            await world.create(member("p", nodeName="node-1"))

            async def used() -> bool:
                claim = await world.get("ResourceClaim", name)
                return bool(claim["status"].get("reservedFor") == [user(group)])

            await world.until(used)

    virtual(main)


def test_a_taint_evicts_a_pod_that_uses_the_device_through_its_group() -> None:
    async def main() -> None:
        async with playing(gates=GATES, nodes=1, binder=False) as world:
            group = await world.create(GROUP)
            await world.create(slice_with(NO_EXECUTE))
            claim = {**TEMPLATE, "kind": "ResourceClaim", "spec": TEMPLATE["spec"]["spec"]}
            await world.create({**claim, "metadata": {"name": "shared", "namespace": "default"}})
            await allocate(world, "shared", user(group))
            named = [{"name": "gpu", "resourceClaimName": "shared"}]
            await world.create(
                member("p", resourceClaims=named, nodeName="node-1", terminationGracePeriodSeconds=0)
            )
            await world.gone("Pod", "p")

    virtual(main)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (PodClaim("gpu", None, "one-gpu"), True),
        (PodClaim("gpu", "made", "one-gpu"), True),
        (PodClaim("gpu", None, "two-gpus"), False),
        (PodClaim("nic", None, "one-gpu"), False),
        (PodClaim("gpu", "one-gpu"), False),
    ],
)
def test_what_is_the_groups(wanted: PodClaim, expected: bool) -> None:
    assert is_of_group(GROUP, wanted) is expected


@pytest.mark.parametrize(
    ("owner", "reserved", "with_groups", "problem"),
    [
        ("team", "team", True, ""),
        ("others", "team", True, "(neither Pod nor PodGroup team is the owner)"),
        ("team", "team", False, "(Pod is not owner)"),
        ("team", "others", True, "is not allowed to use ResourceClaim c"),
    ],
)
def test_a_kubelet_lets_pods_use_what_is_their_groups(
    owner: str, reserved: str, with_groups: bool, problem: str
) -> None:
    reference = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "controller": True}
    group = {"metadata": {"name": reserved, "uid": "u"}}
    claim: Obj = {
        "metadata": {
            "name": "c",
            "namespace": "default",
            "uid": "c",
            "ownerReferences": [{**reference, "name": owner, "uid": "u"}],
        },
        "status": {"allocation": ALLOCATION, "reservedFor": [user(group)]},
    }
    status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "c"}]}
    asking = member("p")
    asking = {**asking, "metadata": {**asking["metadata"], "uid": "p"}, "status": status}
    found = problem_with_claims(asking, lambda _key: claim, with_groups=with_groups)
    assert problem in found if problem else not found
