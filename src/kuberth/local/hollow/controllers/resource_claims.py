"""ResourceClaims: made from templates for pods that ask for them, freed and removed when those are done.

In: pods, claims, claim templates. Out: claims owned by their pods, with their names in the pods' status;
reservations without the pods that ended; claims that nobody uses deallocated, so that others get their
devices, and let go. As upstream, claims that people made stay, and who reserved one otherwise than for a pod
takes it back himself.
"""

from __future__ import annotations

import asyncio
from typing import Final

from kuberth.clock import Clock
from kuberth.local.apiserver.objects import Obj, key_of, make_key, name_of, namespace_of
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.hollow.informing import Informers
from kuberth.local.hollow.pod_claims import (
    CLAIMS,
    PodClaim,
    claim_keys,
    claims_of,
    has_claims,
    is_for,
    is_reserved_for,
    owning_pod,
)
from kuberth.local.hollow.pod_states import is_finished, node_of
from kuberth.local.hollow.recording import Recorder
from kuberth.local.hollow.working import Worker

TEMPLATES: Final = "resourceclaimtemplates.resource.k8s.io"
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
_MOST_RESERVED: Final = 256
_LONGEST_BASE: Final = 57
"""Of a generated name: a dash and five random letters follow, and a label has 63."""


class ResourceClaimController:
    name = "resource-claim-controller"

    def __init__(self, informers: Informers, *, clock: Clock) -> None:
        self._pods = informers.of("pods")
        self._claims = informers.of(CLAIMS)
        self._templates = informers.of(TEMPLATES)
        self._recorder = Recorder(informers, clock=clock, component="resource_claim")
        self._pod_worker = Worker("pods with claims", self._sync_pod)
        self._claim_worker = Worker("resource claims", self._sync_claim)
        self._pods.add_index("claim", claim_keys)
        self._pods.add_index("claim template", _template_keys)
        self._claims.add_index("pod", _owner_uids)
        self._pods.add_handler(self._note_pod)
        self._claims.add_handler(self._note_claim)
        self._templates.add_handler(self._note_template)

    async def run(self) -> None:
        for informer in (self._pods, self._claims, self._templates):
            await informer.synced.wait()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pod_worker.run(), name="hollow-pods-with-claims")
            tasks.create_task(self._claim_worker.run(), name="hollow-resource-claims")

    def _note_pod(self, old: Obj | None, new: Obj | None) -> None:
        pod = new or old or {}
        if not has_claims(pod):
            return
        if new is not None and not _is_done(new):
            self._pod_worker.add(key_of(new))
            return
        for key in claim_keys(pod):
            self._claim_worker.add(key)
        for claim in self._claims.by("pod", pod["metadata"]["uid"]):
            self._claim_worker.add(key_of(claim))

    def _note_claim(self, old: Obj | None, new: Obj | None) -> None:
        key = key_of(new or old or {})
        if new is not None:
            self._claim_worker.add(key)
        for pod in self._pods.by("claim", key):
            self._pod_worker.add(key_of(pod))

    def _note_template(self, old: Obj | None, new: Obj | None) -> None:
        if new is not None:
            for pod in self._pods.by("claim template", key_of(new)):
                self._pod_worker.add(key_of(pod))

    # Pods: make what they ask for

    async def _sync_pod(self, key: str) -> None:
        pod = self._pods.get(key)
        if pod is None or self._pods.is_leaving(pod) or is_finished(pod):
            return
        made = {}
        for wanted in claims_of(pod):
            try:
                claim = await self._make(pod, wanted)
            except (StatusError, _MissingTemplateError) as error:
                message = f"PodResourceClaim {wanted.name}: {error}"
                self._recorder.record(
                    pod,
                    api_version="v1",
                    kind="Pod",
                    reason="FailedResourceClaimCreation",
                    message=message,
                    type_="Warning",
                )
                if isinstance(error, _MissingTemplateError):
                    return  # its coming will be noticed
                raise
            if claim is not None:
                made[wanted.name] = name_of(claim)
        if made:
            pod = await self._tell_names(pod, made)
        if node_of(pod):
            await self._reserve(pod)

    async def _make(self, pod: Obj, wanted: PodClaim) -> Obj | None:
        """The claim for a template of the pod, if its status does not have it yet."""
        if not wanted.template or not wanted.needed:
            return None
        if wanted.claim is not None:
            known = self._claims.get(make_key(namespace_of(pod), wanted.claim))
            if known is not None and is_for(pod, known):
                return None
        for claim in self._claims.by("pod", pod["metadata"]["uid"]):
            # Made before, but its name did not get into the pod's status.
            if (claim["metadata"].get("annotations") or {}).get(POD_CLAIM_NAME) == wanted.name:
                return claim
        template = self._templates.get(make_key(namespace_of(pod), wanted.template))
        if template is None:
            raise _MissingTemplateError(
                f'resource claim template "{wanted.template}": '
                f'resourceclaimtemplate.resource.k8s.io "{wanted.template}" not found'
            )
        return await self._claims.create(_claim(pod, wanted, template["spec"]))

    async def _tell_names(self, pod: Obj, made: dict[str, str]) -> Obj:
        status = pod.get("status") or {}
        kept = [each for each in status.get("resourceClaimStatuses") or () if each.get("name") not in made]
        new = [{"name": name, "resourceClaimName": claim} for name, claim in made.items()]
        changed = {**pod, "status": {**status, "resourceClaimStatuses": [*kept, *new]}}
        return await self._pods.update(changed, subresource="status")

    async def _reserve(self, pod: Obj) -> None:
        """For a pod that came to its node without the scheduler: it uses what is allocated."""
        for wanted in claims_of(pod):
            claim = self._claims.get(make_key(namespace_of(pod), wanted.claim)) if wanted.claim else None
            if claim is None or "allocation" not in claim.get("status", {}) or is_reserved_for(pod, claim):
                continue
            if wanted.template and not is_for(pod, claim):
                continue
            status = claim["status"]
            reserved = status.get("reservedFor") or []
            if len(reserved) < _MOST_RESERVED and not self._claims.is_leaving(claim):
                user = {"resource": "pods", "name": name_of(pod), "uid": pod["metadata"]["uid"]}
                changed = {**claim, "status": {**status, "reservedFor": [*reserved, user]}}
                await self._claims.update(changed, subresource="status")

    # Claims: free what nobody uses

    async def _sync_claim(self, key: str) -> None:
        claim = self._claims.get(key)
        if claim is None:
            return
        status = claim.get("status") or {}
        reserved = status.get("reservedFor") or []
        remaining = [user for user in reserved if await self._still_uses(user, namespace_of(claim))]
        protected = FINALIZER in (claim["metadata"].get("finalizers") or ())
        going = "deletionTimestamp" in claim["metadata"]
        if len(remaining) < len(reserved):
            freed = protected and not remaining
            claim = await self._write_status(claim, remaining, freed=freed)
            if freed:
                claim = await self._unprotect(claim)
        elif protected and going and not remaining:
            if "allocation" in status:
                claim = await self._write_status(claim, remaining, freed=True)
            claim = await self._unprotect(claim)
        if not remaining and not self._claims.is_leaving(claim) and self._is_left_over(claim):
            await self._claims.delete(claim)

    async def _still_uses(self, user: Obj, namespace: str) -> bool:
        if user.get("apiGroup") or user.get("resource") != "pods":
            return True  # whatever it is, it is not known here whether it ended
        key = make_key(namespace, user.get("name", ""))
        # The scheduler may know a pod that did not come here yet.
        pod = self._pods.get(key) or await self._pods.fetch(key)
        return pod is not None and pod["metadata"]["uid"] == user.get("uid") and not _is_done(pod)

    async def _write_status(self, claim: Obj, reserved: list[Obj], *, freed: bool) -> Obj:
        status = {**claim["status"], "reservedFor": reserved}
        if not reserved:
            del status["reservedFor"]
        if freed:
            status.pop("allocation", None)
        return await self._claims.update({**claim, "status": status}, subresource="status")

    async def _unprotect(self, claim: Obj) -> Obj:
        rest = [each for each in claim["metadata"].get("finalizers") or () if each != FINALIZER]
        return await self._claims.update({**claim, "metadata": {**claim["metadata"], "finalizers": rest}})

    def _is_left_over(self, claim: Obj) -> bool:
        """Whether its pod is done but still there: of one that is gone, owner garbage is collected."""
        owner = owning_pod(claim)
        if owner is None:
            return False
        pod = self._pods.get(make_key(namespace_of(claim), owner.get("name", "")))
        return pod is not None and (pod["metadata"]["uid"] != owner.get("uid") or _is_done(pod))


class _MissingTemplateError(Exception):
    """A pod names a template that is not there."""


def _claim(pod: Obj, wanted: PodClaim, template: Obj) -> Obj:
    metadata = template.get("metadata") or {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": generated_prefix(name_of(pod), wanted.name),
            "namespace": namespace_of(pod),
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": name_of(pod),
                    "uid": pod["metadata"]["uid"],
                    "controller": True,
                }
            ],
            "annotations": {**(metadata.get("annotations") or {}), POD_CLAIM_NAME: wanted.name},
            **({"labels": dict(metadata["labels"])} if metadata.get("labels") else {}),
        },
        "spec": template.get("spec") or {},
    }


def generated_prefix(pod: str, claim: str) -> str:
    """What a claim's name begins with; both names are cut in proportion where they are too long."""
    whole = f"{pod}-{claim}-"
    if len(whole) <= _LONGEST_BASE:
        return whole
    cut = [name[: len(name) * _LONGEST_BASE // len(whole)] for name in (pod, claim)]
    return "-".join(cut)


def _is_done(pod: Obj) -> bool:
    """Whether none of its containers runs or ever will."""
    return is_finished(pod) or ("deletionTimestamp" in pod["metadata"] and not node_of(pod))


def _template_keys(pod: Obj) -> list[str]:
    entries = pod["spec"].get("resourceClaims") or ()
    names = (entry.get("resourceClaimTemplateName") for entry in entries)
    return [make_key(namespace_of(pod), name) for name in names if name]


def _owner_uids(claim: Obj) -> list[str]:
    owner = owning_pod(claim)
    return [] if owner is None else [owner["uid"]]
