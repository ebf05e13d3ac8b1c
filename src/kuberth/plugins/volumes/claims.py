"""The claims of a pod's volumes, and how claims, volumes and storage classes refer to each other.

In: pods, PersistentVolumeClaims and PersistentVolumes. Out: names and classes for all volume plugins, and the
messages for missing objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kuberth.api.core import PersistentVolume, PersistentVolumeClaim, Pod, Volume
from kuberth.cluster.pod_volumes import is_attachable
from kuberth.framework.cluster_events import Concern
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.hint_objects import expect

BETA_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"


class ClaimUse(NamedTuple):
    """A pod's use of a claim; an ephemeral volume's claim is named after the pod and the volume."""

    name: str
    is_ephemeral: bool


def claim_of(pod: Pod, volume: Volume) -> ClaimUse | None:
    """The claim of a volume of the pod, if it has one."""
    if volume.persistent_volume_claim is not None:
        return ClaimUse(volume.persistent_volume_claim.claim_name, False)
    if volume.ephemeral is not None:
        return ClaimUse(f"{pod.metadata.name}-{volume.name}", True)
    return None


def claims_of(pod: Pod, volumes: Iterable[Volume]) -> Iterator[ClaimUse]:
    """The claims of some of the pod's volumes, in order."""
    return (use for volume in volumes if (use := claim_of(pod, volume)) is not None)


def attachable_volumes(state: CycleState, pod: Pod) -> tuple[Volume, ...]:
    """The pod's volumes that are attached to nodes."""
    if state.pod_info is not None:
        return state.pod_info.attachable_volumes
    return tuple(filter(is_attachable, pod.spec.volumes))


def ownership_problem(pod: Pod, claim: PersistentVolumeClaim) -> str:
    """What is wrong with a claim for an ephemeral volume of the pod; empty if it was created for it."""
    ours, theirs = pod.metadata, claim.metadata
    controller = next((owner for owner in theirs.owner_references if owner.controller), None)
    if theirs.namespace == ours.namespace and controller is not None and controller.uid == ours.uid:
        return ""
    return (
        f"PVC {theirs.namespace}/{theirs.name} was not created for pod "
        f"{ours.namespace}/{ours.name} (pod is not owner)"
    )


def claim_class(claim: PersistentVolumeClaim) -> str:
    """The storage class that a claim requests, the old annotation first; empty if there is none."""
    return claim.metadata.annotations.get(BETA_STORAGE_CLASS, claim.spec.storage_class_name or "")


def volume_class(volume: PersistentVolume) -> str:
    """The storage class a volume belongs to, the old annotation first."""
    return volume.metadata.annotations.get(BETA_STORAGE_CLASS, volume.spec.storage_class_name)


def claim_not_found(name: str) -> str:
    return f'persistentvolumeclaim "{name}" not found'


def volume_not_found(name: str) -> str:
    return f'persistentvolume "{name}" not found'


def storage_class_not_found(name: str) -> str:
    return f'storageclass.storage.k8s.io "{name}" not found'


def uses_claim(pod: Pod, claim: PersistentVolumeClaim, *, ephemeral: bool) -> bool:
    """Whether the pod uses the claim; with `ephemeral`, also by an ephemeral volume."""
    if claim.metadata.namespace != pod.metadata.namespace:
        return False
    return any(
        use.name == claim.metadata.name and (ephemeral or not use.is_ephemeral)
        for use in claims_of(pod, pod.spec.volumes)
    )


def concerns_claim(pod: Pod, _before: PersistentVolumeClaim | None, claim: PersistentVolumeClaim) -> bool:
    """A hint: whether the pod uses a new or changed claim."""
    return uses_claim(pod, claim, ephemeral=True)


def mounts_claim(pod: Pod, _before: PersistentVolumeClaim | None, claim: PersistentVolumeClaim) -> bool:
    """A hint: whether the pod names a new or changed claim."""
    return uses_claim(pod, claim, ephemeral=False)


def _claims_named_by(pod: Pod) -> Iterator[str]:
    return (f"{pod.metadata.namespace}/{use.name}" for use in claims_of(pod, pod.spec.volumes))


def _name_of(_old: object, new: object) -> list[str]:
    metadata = expect(PersistentVolumeClaim, new).metadata
    return [f"{metadata.namespace}/{metadata.name}"]


USERS_OF_CLAIM: Final = Concern(_claims_named_by, _name_of)
"""A claim's event concerns the pods that use it."""
