"""Claims that Kubernetes creates for a new pod: from ResourceClaimTemplates, and for its ephemeral volumes.

In: a pod that may not exist yet, and the objects of its cluster. Out: both with these claims, so that the pod
is evaluated as it would be after its creation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace as with_fields

from kuberth.api.core import PersistentVolumeClaim, Pod
from kuberth.api.meta import ObjectMeta, OwnerReference
from kuberth.api.pods import PodResourceClaimStatus
from kuberth.api.resource import ResourceClaim, ResourceClaimTemplate
from kuberth.api.storage import StorageClass
from kuberth.informers.store import object_key
from kuberth.plugins.volumes.claims import WAIT_FOR_FIRST_CONSUMER

DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


class NewPod(NamedTuple):
    """A pod that may not exist yet, and its cluster with the claims that Kubernetes would create for it."""

    pod: Pod
    objects: Sequence[Any]
    notes: tuple[str, ...] = ()


def with_claims(pod: Pod, objects: Sequence[Any]) -> NewPod:
    """Add the claims that a new pod gets from templates: ResourceClaims, and claims for its volumes.

    A pod that is among the objects is not changed: whether its claims exist is part of the answer.
    """
    key = object_key(pod)
    if any(isinstance(obj, Pod) and object_key(obj) == key for obj in objects):
        return NewPod(pod, objects)
    devices, statuses = _resource_claims(pod, objects)
    volumes, late = _volume_claims(pod, objects)
    pod = with_fields(
        pod,
        status=with_fields(pod.status, resource_claim_statuses=statuses),
        spec=with_fields(pod.spec, volumes=tuple(each for each in pod.spec.volumes if each.name not in late)),
    )
    notes = tuple(
        f"the volume {name} is bound before the pod is scheduled, and may limit its nodes" for name in late
    )
    return NewPod(pod, [*objects, *devices, *volumes], notes)


def _owned(pod: Pod, name: str) -> ObjectMeta:
    owner = OwnerReference(
        api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid, controller=True
    )
    namespace = pod.metadata.namespace
    return ObjectMeta(name=name, namespace=namespace, uid=f"{namespace}/{name}", owner_references=(owner,))


def _resource_claims(
    pod: Pod, objects: Iterable[Any]
) -> tuple[list[ResourceClaim], tuple[PodResourceClaimStatus, ...]]:
    templates = {object_key(obj): obj for obj in objects if isinstance(obj, ResourceClaimTemplate)}
    claims, statuses = [], []
    for reference in pod.spec.resource_claims:
        template = templates.get(f"{pod.metadata.namespace}/{reference.resource_claim_template_name}")
        if template is not None:
            name = f"{pod.metadata.name}-{reference.name}-"  # no claim in the API can have this name
            claims.append(ResourceClaim(metadata=_owned(pod, name), spec=template.spec.spec))
            statuses.append(PodResourceClaimStatus(name=reference.name, resource_claim_name=name))
    return claims, tuple(statuses)


def _volume_claims(pod: Pod, objects: Iterable[Any]) -> tuple[list[PersistentVolumeClaim], list[str]]:
    """Claims for ephemeral volumes, and the names of volumes that do not wait for the pod to be scheduled."""
    classes = {obj.metadata.name: obj for obj in objects if isinstance(obj, StorageClass)}
    defaults = [
        name for name, each in classes.items() if each.metadata.annotations.get(DEFAULT_CLASS) == "true"
    ]
    default = max(defaults, key=lambda name: _order_of_creation(classes[name]), default=None)
    claims, late = [], []
    for volume in pod.spec.volumes:
        template = None if volume.ephemeral is None else volume.ephemeral.volume_claim_template
        if template is None:
            continue
        name = template.spec.storage_class_name
        name = default if name is None else name
        found = classes.get(name or "")
        if found is not None and found.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER:
            late.append(volume.name)
            continue
        spec = with_fields(template.spec, storage_class_name=name)
        metadata = _owned(pod, f"{pod.metadata.name}-{volume.name}")
        claims.append(PersistentVolumeClaim(metadata=metadata, spec=spec))
    return claims, late


def _order_of_creation(storage_class: StorageClass) -> tuple[float, str]:
    created = storage_class.metadata.creation_timestamp
    return (0.0 if created is None else created.timestamp()), storage_class.metadata.name
