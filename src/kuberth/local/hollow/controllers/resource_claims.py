"""ResourceClaims: created from templates for pods and pod groups, deallocated and deleted after them.

In: pods, claims, claim templates and, with the gate DRAWorkloadResourceClaims, pod groups. Out: claims owned
by their pods or groups, with their names in the owners' status; reservations of finished pods and deleted
groups removed; unused claims deallocated, so that others can use their devices. As upstream, claims that
users created stay, and so do reservations for other kinds of objects.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kuberth.local.apiserver.objects import Obj, annotation_of, key_of, make_key, name_of, namespace_of
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.apiserver.verbs.core import Core
from kuberth.local.hollow import pod_claims
from kuberth.local.hollow.controlling import Controller
from kuberth.local.hollow.informing import Informer
from kuberth.local.hollow.ownership import owner_reference
from kuberth.local.hollow.pod_states import is_finished, node_of

TEMPLATES: Final = "resourceclaimtemplates.resource.k8s.io"
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
_MOST_RESERVED: Final = 256
_LONGEST_BASE: Final = 57
"""The longest start of a generated name: a dash and five random letters follow, and a label has 63."""


class ResourceClaimController(Controller):
    name = "resource-claim-controller"
    component = "resource_claim"

    def set_up(self) -> None:
        server = self._informers.server
        self._with_groups = isinstance(server, Core) and server.gates.get(pod_claims.GROUP_CLAIMS_GATE, False)
        self._groups: Informer | None = None
        self._group_queue = self.queue_of(pod_claims.GROUPS, self._sync_group, name="pod groups with claims")
        self._pod_queue = self.queue_of("pods", self._sync_pod, name="pods with claims")
        self._claim_queue = self.queue_of(pod_claims.CLAIMS, self._sync_claim, name="resource claims")
        indexes = {"claim": pod_claims.claim_keys, "claim template": _template_keys}
        self._claims = self.watch(pod_claims.CLAIMS, indexes={"owner": _owner_uids})
        self._pods = self.watch("pods", self._on_pod, indexes=indexes)
        self._templates = self.watch(TEMPLATES)
        if self._with_groups:
            self._pods.add_index("group", pod_claims.group_keys)
            self._groups = self.watch(pod_claims.GROUPS, self._on_group, indexes=indexes)
        self._claims.add_handler(self._on_claim)
        self._templates.add_handler(self._on_template)

    def _on_pod(self, old: Obj | None, new: Obj | None) -> None:
        pod = new or old or {}
        if not pod_claims.has_claims(pod):
            return
        if new is not None and not _is_done(new):
            self._pod_queue.add(key_of(new))
            return
        self._queue_claims_of(pod)

    def _queue_claims_of(self, owner: Obj) -> None:
        """Queue the claims of a pod or group that has ended."""
        for key in pod_claims.claim_keys(owner):
            self._claim_queue.add(key)
        for claim in self._claims.by("owner", owner["metadata"]["uid"]):
            self._claim_queue.add(key_of(claim))

    def _on_group(self, old: Obj | None, new: Obj | None) -> None:
        group = new or old or {}
        if not group["spec"].get("resourceClaims"):
            return
        if new is None:
            self._queue_claims_of(group)
            return
        self._group_queue.add(key_of(group))
        for pod in self._pods.by("group", key_of(group)):
            self._on_pod(None, pod)

    def _on_claim(self, old: Obj | None, new: Obj | None) -> None:
        key = key_of(new or old or {})
        if new is not None:
            self._claim_queue.add(key)
        self._queue_owners("claim", key)

    def _on_template(self, old: Obj | None, new: Obj | None) -> None:
        if new is not None:
            self._queue_owners("claim template", key_of(new))

    def _queue_owners(self, index: str, key: str) -> None:
        """Queue the pods and groups that an index files under a key."""
        for pod in self._pods.by(index, key):
            self._pod_queue.add(key_of(pod))
        for group in [] if self._groups is None else self._groups.by(index, key):
            self._group_queue.add(key_of(group))

    # Pods and groups: make what they ask for

    async def _sync_pod(self, pod: Obj) -> None:
        if self._pods.is_terminating(pod) or is_finished(pod):
            return
        group = None
        if self._groups is not None and (keys := pod_claims.group_keys(pod)):
            group = self._groups.get(keys[0])
            if group is None:
                return  # the watch will queue the pod again
        updated = await self._make_all(pod, _POD, self._pods, group)
        if updated is not None and node_of(updated):
            await self._reserve(updated, group)

    async def _sync_group(self, group: Obj) -> None:
        if self._groups is not None and not self._groups.is_terminating(group):
            await self._make_all(group, _GROUP, self._groups, None)

    async def _make_all(
        self, owner: Obj, kind: _OwnerKind, informer: Informer, group: Obj | None
    ) -> Obj | None:
        """The owner with the names of its claims in its status; None: a template is missing."""
        made = {}
        for wanted in pod_claims.claims_of(owner):
            try:
                claim = await self._make(owner, wanted, kind, group)
            except (StatusError, _MissingTemplateError) as error:
                # Items in lists of a real server have no apiVersion and kind.
                about = {**owner, "apiVersion": kind.api_version, "kind": kind.kind}
                message = f"{kind.kind}ResourceClaim {wanted.name}: {error}"
                self.record(about, "FailedResourceClaimCreation", message, type_="Warning")
                if isinstance(error, _MissingTemplateError):
                    return None  # the watch will queue the pod again
                raise
            if claim is not None:
                made[wanted.name] = name_of(claim)
        return await _write_names(informer, owner, made) if made else owner

    async def _make(
        self, owner: Obj, wanted: pod_claims.PodClaim, kind: _OwnerKind, group: Obj | None
    ) -> Obj | None:
        """The claim for a template of its owner, if the status of that does not have it yet."""
        if not wanted.template or not wanted.needed:
            return None
        if wanted.claim is not None:
            known = self._claims.get(make_key(namespace_of(owner), wanted.claim))
            if known is not None and self._is_for(owner, known, kind):
                return None
        if group is not None and pod_claims.is_of_group(group, wanted):
            return self._made_before(group, wanted)  # None until the group's claim is created
        claim = self._made_before(owner, wanted)
        if claim is not None:
            return claim
        template = self._templates.get(make_key(namespace_of(owner), wanted.template))
        if template is None:
            raise _MissingTemplateError(
                f'resource claim template "{wanted.template}": '
                f'resourceclaimtemplate.resource.k8s.io "{wanted.template}" not found'
            )
        return await self._claims.create(_claim(owner, wanted, template["spec"], kind))

    def _is_for(self, owner: Obj, claim: Obj, kind: _OwnerKind) -> bool:
        if kind is _GROUP:
            return owner["metadata"]["uid"] in _owner_uids(claim)
        return pod_claims.is_for(owner, claim, with_groups=self._with_groups)

    def _made_before(self, owner: Obj, wanted: pod_claims.PodClaim) -> Obj | None:
        """A claim that was created before its name was written to the owner's status."""
        for claim in self._claims.by("owner", owner["metadata"]["uid"]):
            if annotation_of(claim, POD_CLAIM_NAME) == wanted.name:
                return claim
        return None

    async def _reserve(self, pod: Obj, group: Obj | None) -> None:
        """Reserve allocated claims for a pod that was bound without the scheduler."""
        for wanted in pod_claims.claims_of(pod):
            claim = self._claims.get(make_key(namespace_of(pod), wanted.claim)) if wanted.claim else None
            if claim is None or "allocation" not in claim.get("status", {}):
                continue
            if pod_claims.is_reserved_for(pod, claim, with_groups=self._with_groups):
                continue
            if wanted.template and not pod_claims.is_for(pod, claim, with_groups=self._with_groups):
                continue
            status = claim["status"]
            reserved = status.get("reservedFor") or []
            if len(reserved) < _MOST_RESERVED and not self._claims.is_terminating(claim):
                user = pod_claims.as_user(pod, is_group=False)
                if group is not None and pod_claims.is_of_group(group, wanted):
                    user = pod_claims.as_user(group, is_group=True)
                await self._claims.write_status(claim, {**status, "reservedFor": [*reserved, user]})

    # Claims: deallocate unused ones

    async def _sync_claim(self, claim: Obj) -> None:
        status = claim.get("status") or {}
        reserved = status.get("reservedFor") or []
        remaining = [user for user in reserved if await self._still_uses(user, namespace_of(claim))]
        protected = FINALIZER in (claim["metadata"].get("finalizers") or ())
        going = "deletionTimestamp" in claim["metadata"]
        if len(remaining) < len(reserved):
            freed = protected and not remaining
            claim = await self._write_status(claim, remaining, freed=freed)
            if freed:
                claim = await self._claims.remove_finalizer(claim, FINALIZER)
        elif protected and going and not remaining:
            if "allocation" in status:
                claim = await self._write_status(claim, remaining, freed=True)
            claim = await self._claims.remove_finalizer(claim, FINALIZER)
        if not remaining and not self._claims.is_terminating(claim) and self._is_left_over(claim):
            await self._claims.delete(claim)

    async def _still_uses(self, user: Obj, namespace: str) -> bool:
        key = make_key(namespace, user.get("name", ""))
        if self._groups is not None and pod_claims.is_group(user):
            group = self._groups.get(key) or await self._groups.fetch(key)
            return group is not None and group["metadata"]["uid"] == user.get("uid")
        if user.get("apiGroup") or user.get("resource") != "pods":
            return True  # another kind: whether it ended is not known here
        # The scheduler may have seen a pod that this watch has not.
        pod = self._pods.get(key) or await self._pods.fetch(key)
        return pod is not None and pod["metadata"]["uid"] == user.get("uid") and not _is_done(pod)

    async def _write_status(self, claim: Obj, reserved: list[Obj], *, freed: bool) -> Obj:
        status = {**claim["status"], "reservedFor": reserved}
        if not reserved:
            del status["reservedFor"]
        if freed:
            status.pop("allocation", None)
        return await self._claims.write_status(claim, status)

    def _is_left_over(self, claim: Obj) -> bool:
        """Whether its pod has ended but still exists; of a deleted pod the garbage collector deletes it."""
        owner = pod_claims.owning_pod(claim)
        if owner is None:
            return False
        pod = self._pods.get(make_key(namespace_of(claim), owner.get("name", "")))
        return pod is not None and (pod["metadata"]["uid"] != owner.get("uid") or _is_done(pod))


class _MissingTemplateError(Exception):
    """A pod names a template that is not there."""


class _OwnerKind(NamedTuple):
    api_version: str
    kind: str


_POD: Final = _OwnerKind("v1", "Pod")
_GROUP: Final = _OwnerKind("scheduling.k8s.io/v1alpha2", "PodGroup")


async def _write_names(informer: Informer, owner: Obj, made: dict[str, str]) -> Obj:
    status = owner.get("status") or {}
    kept = [each for each in status.get("resourceClaimStatuses") or () if each.get("name") not in made]
    new = [{"name": name, "resourceClaimName": claim} for name, claim in made.items()]
    return await informer.write_status(owner, {**status, "resourceClaimStatuses": [*kept, *new]})


def _claim(owner: Obj, wanted: pod_claims.PodClaim, template: Obj, kind: _OwnerKind) -> Obj:
    metadata = template.get("metadata") or {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": generated_prefix(name_of(owner), wanted.name),
            "namespace": namespace_of(owner),
            "ownerReferences": [owner_reference(owner, kind.api_version, kind.kind, controller=True)],
            "annotations": {**(metadata.get("annotations") or {}), POD_CLAIM_NAME: wanted.name},
            **({"labels": dict(metadata["labels"])} if metadata.get("labels") else {}),
        },
        "spec": template.get("spec") or {},
    }


def generated_prefix(owner: str, claim: str) -> str:
    """The start of a claim's generated name; owner and claim are cut in proportion if it is too long."""
    whole = f"{owner}-{claim}-"
    if len(whole) <= _LONGEST_BASE:
        return whole
    cut = [name[: len(name) * _LONGEST_BASE // len(whole)] for name in (owner, claim)]
    return "-".join(cut)


def _is_done(pod: Obj) -> bool:
    """Whether none of its containers runs or ever will."""
    return is_finished(pod) or ("deletionTimestamp" in pod["metadata"] and not node_of(pod))


def _template_keys(pod: Obj) -> list[str]:
    entries = pod["spec"].get("resourceClaims") or ()
    names = (entry.get("resourceClaimTemplateName") for entry in entries)
    return [make_key(namespace_of(pod), name) for name in names if name]


def _owner_uids(claim: Obj) -> list[str]:
    owner = pod_claims.owning_pod(claim) or pod_claims.owning_group(claim)
    return [] if owner is None else [owner["uid"]]
