"""Binds a pod's volumes: assumed at Reserve, written and awaited at PreBind, released at Unreserve.

In: the decisions for the chosen node. Out: PersistentVolumes that refer to their claims, claims with the node
on which to provision a volume, and the confirmation that the volume controller has bound them all; or an
error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from kuberth.api.core import ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod
from kuberth.api.storage import CSINode
from kuberth.cluster.nodes import NodeRow
from kuberth.errors import KuberthError
from kuberth.framework.handle import Handle
from kuberth.informers.store import is_older, object_key
from kuberth.plugins.polling import wait_until
from kuberth.plugins.volume_binding.assumptions import AssumedVolumes, Assumptions
from kuberth.plugins.volume_binding.claims import SELECTED_NODE, is_bound
from kuberth.plugins.volume_binding.reach import reach_of_affinity
from kuberth.plugins.volume_binding.volumes import is_for
from kuberth.plugins.volumes import csi_migration
from kuberth.plugins.volumes.csi_migration import TranslationError
from kuberth.plugins.volumes.csi_nodes import migrated_plugins

T = TypeVar("T")
W = TypeVar("W", PersistentVolume, PersistentVolumeClaim)

BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
_LONGEST_PAUSE_SECONDS: Final = 1.0
"""The longest polling interval for claims."""


class VolumeBindingError(KuberthError):
    """The volumes of a pod could not be bound; the pod has to be scheduled again."""


@dataclass(slots=True)
class ClaimBinding:
    """A volume for a claim. `volume` is the version that was last read, assumed or written."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume


@dataclass(slots=True)
class Decisions:
    """The volumes for a pod's claims on its node."""

    bindings: list[ClaimBinding] = field(default_factory=list)
    provisions: list[PersistentVolumeClaim] = field(default_factory=list)
    """Claims for which to provision a volume; the version last read, assumed or written."""


class VolumeBinder:
    def __init__(self, handle: Handle, assumed: AssumedVolumes, *, timeout_seconds: float) -> None:
        self._api = handle.api
        self._cluster = handle.cluster
        self._pods = handle.stores.of(Pod)
        self._csi_nodes = handle.stores.of(CSINode)
        self._claims, self._volumes = assumed
        self._timeout_seconds = timeout_seconds

    # In memory

    def assume(self, decisions: Decisions, node_name: str) -> Decisions:
        """Assume the decisions; raises, and assumes nothing, if an object has changed meanwhile."""
        assumed = Decisions()
        try:
            for binding in decisions.bindings:
                volume = bound_to(binding.volume, binding.claim)
                if volume != binding.volume:
                    self._volumes.assume(volume)
                assumed.bindings.append(ClaimBinding(binding.claim, volume))
            for claim in decisions.provisions:
                selected = with_annotation(claim, SELECTED_NODE, node_name)
                self._claims.assume(selected)
                assumed.provisions.append(selected)
        except KuberthError:
            self.revert(assumed)
            raise
        return assumed

    def revert(self, decisions: Decisions) -> None:
        """Drop the assumptions that were not written; written changes will be confirmed by the watch."""
        self._restore(decisions.bindings, decisions.provisions)

    def _restore(self, bindings: Iterable[ClaimBinding], claims: Iterable[PersistentVolumeClaim]) -> None:
        for binding in bindings:
            self._volumes.restore(binding.volume)
        for claim in claims:
            self._claims.restore(claim)

    # Through the API

    async def bind(self, pod: Pod, node_name: str, decisions: Decisions) -> None:
        """Write the decisions and wait until the claims are bound; raises if that cannot happen any more."""
        await self._write(decisions, node_name)
        if not await wait_until(
            partial(self._is_done, pod, node_name, decisions),
            timeout_seconds=self._timeout_seconds,
            longest_pause_seconds=_LONGEST_PAUSE_SECONDS,
        ):
            raise VolumeBindingError(
                f"binding volumes: the claims were not bound within {self._timeout_seconds:g} seconds: "
                f"{', '.join(self._unbound(decisions))}"
            )

    async def _write(self, decisions: Decisions, node_name: str) -> None:
        written_bindings = written_claims = 0
        try:
            for binding in decisions.bindings:
                binding.volume = await self._api.patch(
                    PersistentVolume, binding.volume.metadata.name, _volume_patch(binding.volume)
                )
                written_bindings += 1
            for index, claim in enumerate(decisions.provisions):
                decisions.provisions[index] = await self._api.patch(
                    PersistentVolumeClaim,
                    claim.metadata.name,
                    _metadata_patch(claim, {SELECTED_NODE: node_name}),
                    namespace=claim.metadata.namespace,
                )
                written_claims += 1
        except BaseException:
            self._restore(decisions.bindings[written_bindings:], decisions.provisions[written_claims:])
            raise

    def _is_done(self, pod: Pod, node_name: str, decisions: Decisions) -> bool:
        """Whether all claims are bound, as far as the API has reported; raises if they cannot be any more.

        It reads the stored objects, not the assumed ones: other pods may assume them again meanwhile.
        """
        node = self._cluster.node_named(node_name)
        if node is None:
            raise VolumeBindingError(f'binding volumes: node "{node_name}" does not exist any more')
        known = self._pods.get(pod.metadata.name, namespace=pod.metadata.namespace)
        if known is None or known.metadata.uid != pod.metadata.uid:
            raise VolumeBindingError("binding volumes: pod does not exist any more")
        for binding in decisions.bindings:
            volume = _stored(self._volumes, binding.volume)
            claim = _stored(self._claims, binding.claim)
            if is_older(volume, binding.volume):  # the store has not seen our own write yet
                return False
            self._check_reachable(node, volume)
            if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
                raise VolumeBindingError(
                    f'binding volumes: ClaimRef got reset for pv "{volume.metadata.name}"'
                )
            if not is_bound(claim):
                return False
        return all(self._is_provisioned(node, claim) for claim in decisions.provisions)

    def _is_provisioned(self, node: NodeRow, written: PersistentVolumeClaim) -> bool:
        claim = _stored(self._claims, written)
        if is_older(claim, written):
            return False
        if claim.metadata.annotations.get(SELECTED_NODE) != node.name:
            # A provisioner removes the node if it cannot provision a volume there.
            raise VolumeBindingError(
                f'binding volumes: provisioning failed for PVC "{claim.metadata.name}": the selected node '
                "was taken back"
            )
        if claim.spec.volume_name:
            volume = self._volumes.store.get(claim.spec.volume_name)
            if volume is None:
                return False  # it may arrive a little later than the claim's new version
            self._check_reachable(node, volume)
        return is_bound(claim)

    def _check_reachable(self, node: NodeRow, volume: PersistentVolume) -> None:
        affinity = volume.spec.node_affinity
        required = affinity.required if affinity is not None else None
        plugin = csi_migration.plugin_of(volume)
        if plugin is not None and plugin.is_migrated:
            csi_node = self._csi_nodes.get(node.name)
            if plugin.name in migrated_plugins(csi_node):
                try:
                    required = csi_migration.translated_affinity(plugin, volume)
                except TranslationError as exc:
                    raise VolumeBindingError(
                        f"binding volumes: failed to translate pv to csi: {exc}"
                    ) from exc
        if not reach_of_affinity(required).mask(node.alone)[0]:
            raise VolumeBindingError(
                f'binding volumes: pv "{volume.metadata.name}" node affinity doesn\'t match '
                f'node "{node.name}"'
            )

    def _unbound(self, decisions: Decisions) -> Sequence[str]:
        claims = [*(binding.claim for binding in decisions.bindings), *decisions.provisions]
        return [
            key
            for key in map(object_key, claims)
            if (stored := self._claims.store.get_by_key(key)) is None or not is_bound(stored)
        ]


def bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """The volume with a full reference to the claim, marked if no other controller reserved it."""
    reference = volume.spec.claim_ref
    ours = claim.metadata
    marked = volume
    if not is_for(volume, claim) and BOUND_BY_CONTROLLER not in volume.metadata.annotations:
        marked = with_annotation(volume, BOUND_BY_CONTROLLER, "yes")
    if reference is not None and (reference.name, reference.namespace, reference.uid) == (
        ours.name,
        ours.namespace,
        ours.uid,
    ):
        return marked
    full = ObjectReference(
        api_version="v1",
        kind="PersistentVolumeClaim",
        namespace=ours.namespace,
        name=ours.name,
        uid=ours.uid,
        resource_version=ours.resource_version,
    )
    return msgspec.structs.replace(marked, spec=msgspec.structs.replace(marked.spec, claim_ref=full))


def with_annotation(obj: W, key: str, text: str) -> W:
    """The object with one annotation set."""
    replace = msgspec.structs.replace
    annotations = {**obj.metadata.annotations, key: text}
    return replace(obj, metadata=replace(obj.metadata, annotations=annotations))


def _volume_patch(volume: PersistentVolume) -> dict[str, Any]:
    annotation = volume.metadata.annotations.get(BOUND_BY_CONTROLLER)
    patch = _metadata_patch(volume, {} if annotation is None else {BOUND_BY_CONTROLLER: annotation})
    reference = volume.spec.claim_ref
    if reference is not None:
        patch["spec"] = {"claimRef": msgspec.to_builtins(reference)}
    return patch


def _metadata_patch(obj: Any, annotations: dict[str, str]) -> dict[str, Any]:
    """Set annotations on exactly the version on which the decision was based."""
    metadata: dict[str, Any] = {"annotations": annotations}
    if obj.metadata.resource_version:
        metadata["resourceVersion"] = obj.metadata.resource_version
    return {"metadata": metadata}


def _stored(objects: Assumptions[T], obj: T) -> T:
    key = object_key(obj)
    stored = objects.store.get_by_key(key)
    if stored is None:
        raise VolumeBindingError(f'binding volumes: {type(obj).__name__} "{key}" does not exist any more')
    return stored
