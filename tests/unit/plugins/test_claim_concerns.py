"""Events of claims move only pods that they can concern: no pod that the hint would queue is missed."""

from __future__ import annotations

import itertools
from typing import cast

from msgspec.structs import replace

from kuberth.api.core import Pod
from kuberth.api.meta import OwnerReference
from kuberth.api.resource import AllocationResult, ResourceClaim
from kuberth.plugins.devices.claims import KnownClaims
from kuberth.plugins.dynamic_resources.hints import claim_change_helps, claims_named_by, users_of
from kuberth.plugins.volumes.claims import USERS_OF_CLAIM, uses_claim
from kuberth.testing.factories import make_pod
from tests.unit.plugins.device_objects import exactly, make_claim
from tests.unit.plugins.volume_objects import make_claim as make_volume_claim


class Claims:
    def __init__(self, *claims: ResourceClaim) -> None:
        self._claims = {claim.metadata.name: claim for claim in claims}

    def get(self, name: str, *, namespace: str) -> ResourceClaim | None:
        return self._claims.get(name) if namespace == "default" else None


def owned(claim: ResourceClaim, uid: str) -> ResourceClaim:
    owner = OwnerReference(api_version="v1", kind="Pod", name="p", uid=uid, controller=True)
    return replace(claim, metadata=replace(claim.metadata, owner_references=[owner]))


def pods() -> list[Pod]:
    named = [{"name": "r", "resourceClaimName": "c"}]
    made = [{"name": "r", "resourceClaimTemplateName": "t"}]
    status = {"resourceClaimStatuses": [{"name": "r", "resourceClaimName": "c"}]}
    return [
        make_pod("names-it", uid="u1", resourceClaims=named),
        make_pod("it-was-made-for", uid="u2", resourceClaims=made, status=status),
        make_pod("waits-for-its-own", uid="u3", resourceClaims=made),
        make_pod("both", uid="u2", resourceClaims=[*named, {**made[0], "name": "s"}]),
        make_pod("none", uid="u4"),
        make_pod("elsewhere", uid="u1", namespace="other", resourceClaims=named),
    ]


def test_no_pod_that_a_claim_concerns_is_missed() -> None:
    plain = make_claim("c", exactly())
    given = replace(plain, status=replace(plain.status, allocation=AllocationResult()))
    queued = left_alone = 0
    for before, after in itertools.product((None, plain, given), (plain, given)):
        for owner, pod in itertools.product((None, "u1", "u2"), pods()):
            old, new = (
                None if claim is None else claim if owner is None else owned(claim, owner)
                for claim in (before, after)
            )
            assert new is not None
            claims = cast("KnownClaims", Claims(new))
            helps = claim_change_helps(claims, pod, old, new)
            keys = users_of(old, new)
            is_concerned = keys is None or bool(set(keys) & set(claims_named_by(pod)))
            assert is_concerned or not helps, (pod.metadata.name, owner, before, after)
            queued += helps
            left_alone += not is_concerned
    assert queued
    assert left_alone


def test_no_pod_that_uses_a_volume_claim_is_missed() -> None:
    mounted = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    ephemeral = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
    candidates = [
        make_pod("p", volumes=[mounted]),
        make_pod("p", volumes=[ephemeral]),
        make_pod("p", volumes=[{**mounted, "name": "w"}, ephemeral]),
        make_pod("p", namespace="other", volumes=[mounted]),
        make_pod("p"),
    ]
    users = []
    for pod, name in itertools.product(candidates, ("c", "p-v", "d")):
        claim = make_volume_claim(name)
        about, known_by = USERS_OF_CLAIM.of_event(None, claim), set(USERS_OF_CLAIM.of_pod(pod))
        assert about is not None
        assert bool(set(about) & known_by) == uses_claim(pod, claim, ephemeral=True)
        users.append(uses_claim(pod, claim, ephemeral=True))
    assert users.count(True) == 4
