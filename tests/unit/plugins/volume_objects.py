"""Short ways to make storage objects and pods that use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kuberth.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from kuberth.api.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment
from kuberth.api.wire import convert
from kuberth.testing.factories import make_pod

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
HOST = "kubernetes.io/hostname"
DRIVER = "csi.test"


def claim_volume(name: str) -> dict[str, Any]:
    return {"name": f"v-{name}", "persistentVolumeClaim": {"claimName": name}}


def ephemeral(name: str) -> dict[str, Any]:
    return {"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}


def pod_with(*volumes: str | Mapping[str, Any], name: str = "p", node: str = "", **kwargs: Any) -> Pod:
    """A pod with volumes: the names of claims, or whole volumes."""
    listed = [claim_volume(one) if isinstance(one, str) else {"name": "v", **one} for one in volumes]
    return make_pod(name, node=node, volumes=listed, **kwargs)


def make_claim(
    name: str,
    *,
    volume: str = "",
    storage_class: str | None = "wait",
    size: str | None = "5Gi",
    modes: Sequence[str] = ("ReadWriteOnce",),
    namespace: str = "default",
    bound: bool | None = None,
    owner: Pod | None = None,
    annotations: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    phase: str = "",
    **spec: Any,
) -> PersistentVolumeClaim:
    """A claim; with a volume it is bound, unless `bound` says otherwise."""
    marks = dict(annotations or {})
    if bound if bound is not None else bool(volume):
        marks["pv.kubernetes.io/bind-completed"] = "yes"
    owners = []
    if owner is not None:
        owners = [{"kind": "Pod", "uid": owner.metadata.uid, "controller": True}]
    tree: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"claim-{name}",
            "annotations": marks,
            "ownerReferences": owners,
            **(metadata or {}),
        },
        "spec": {
            "volumeName": volume,
            "accessModes": list(modes),
            "resources": {"requests": {} if size is None else {"storage": size}},
            **({} if storage_class is None else {"storageClassName": storage_class}),
            **spec,
        },
        "status": {"phase": phase},
    }
    return convert(PersistentVolumeClaim, tree)


def in_zone(*zones: str, key: str = ZONE) -> dict[str, Any]:
    """A required node affinity, as a volume has it."""
    expression = {"key": key, "operator": "In", "values": list(zones)}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def make_volume(
    name: str,
    *,
    storage_class: str = "wait",
    size: str = "10Gi",
    modes: Sequence[str] = ("ReadWriteOnce",),
    labels: Mapping[str, str] | None = None,
    phase: str = "Available",
    claim: PersistentVolumeClaim | None = None,
    metadata: Mapping[str, Any] | None = None,
    csi: bool = True,
    handle: str | None = None,
    **spec: Any,
) -> PersistentVolume:
    """A CSI volume whose handle is its name by default; with `claim` it is bound to it."""
    tree: dict[str, Any] = {
        "metadata": {"name": name, "labels": dict(labels or {}), **(metadata or {})},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": list(modes),
            "storageClassName": storage_class,
            **(
                {"csi": {"driver": DRIVER, "volumeHandle": name if handle is None else handle}} if csi else {}
            ),
            **spec,
        },
        "status": {"phase": "Bound" if claim is not None else phase},
    }
    if claim is not None:
        ours = claim.metadata
        tree["spec"]["claimRef"] = {"namespace": ours.namespace, "name": ours.name, "uid": ours.uid}
    return convert(PersistentVolume, tree)


def make_class(
    name: str = "wait", *, provisioner: str = DRIVER, mode: str | None = "WaitForFirstConsumer", **fields: Any
) -> StorageClass:
    tree = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode, **fields}
    return convert(StorageClass, tree)


def allowed(*requirements: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """allowedTopologies: any of the terms, each a map from label to values."""
    return [
        {"matchLabelExpressions": [{"key": key, "values": list(values)} for key, values in term.items()]}
        for term in requirements
    ]


def make_csi_node(
    name: str,
    limits: Mapping[str, int | None] | None = None,
    *,
    migrated: str | None = None,
) -> CSINode:
    """A CSINode with drivers and how much each attaches; None: it does not say."""
    annotations = {} if migrated is None else {"storage.alpha.kubernetes.io/migrated-plugins": migrated}
    drivers = [
        {"name": driver, "nodeID": name, **({} if count is None else {"allocatable": {"count": count}})}
        for driver, count in (limits or {}).items()
    ]
    return convert(
        CSINode, {"metadata": {"name": name, "annotations": annotations}, "spec": {"drivers": drivers}}
    )


def make_csi_driver(name: str = DRIVER, **spec: Any) -> CSIDriver:
    return convert(CSIDriver, {"metadata": {"name": name}, "spec": spec})


def make_capacity(name: str = "c", *, storage_class: str = "wait", **fields: Any) -> CSIStorageCapacity:
    tree = {
        "metadata": {"name": name, "namespace": "kube-system"},
        "storageClassName": storage_class,
        **fields,
    }
    return convert(CSIStorageCapacity, tree)


def make_attachment(name: str, *, node: str, volume: str | None, attacher: str = DRIVER) -> VolumeAttachment:
    source = {} if volume is None else {"persistentVolumeName": volume}
    return convert(
        VolumeAttachment,
        {
            "metadata": {"name": name},
            "spec": {"attacher": attacher, "nodeName": node, "source": source},
        },
    )
