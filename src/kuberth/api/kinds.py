"""Every kind Kuberth reads or writes, as data: where it lives in the API and which struct holds it."""

from __future__ import annotations

from dataclasses import dataclass

from kuberth.api import (
    apps,
    authentication,
    authorization,
    coordination,
    core,
    events,
    policy,
    scheduling,
    storage,
)
from kuberth.api.wire import Wire


@dataclass(frozen=True, slots=True)
class KindInfo:
    """One kind: `kind` is its name on the wire, `type` the struct it decodes into."""

    kind: str
    group: str
    version: str
    plural: str
    namespaced: bool
    type: type[Wire]

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def path(self) -> str:
        """The API path of the group and version: `/api/v1` or `/apis/<group>/<version>`."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


def _row(type_: type[Wire], group: str, plural: str, *, namespaced: bool) -> KindInfo:
    return KindInfo(type_.__name__, group, "v1", plural, namespaced, type_)


# Keyed by kind. Two kinds share the name Event: the key "Event" is the one the scheduler writes.
KINDS: dict[str, KindInfo] = {
    "Pod": _row(core.Pod, "", "pods", namespaced=True),
    "Binding": _row(core.Binding, "", "bindings", namespaced=True),
    "Node": _row(core.Node, "", "nodes", namespaced=False),
    "Namespace": _row(core.Namespace, "", "namespaces", namespaced=False),
    "Service": _row(core.Service, "", "services", namespaced=True),
    "ReplicationController": _row(core.ReplicationController, "", "replicationcontrollers", namespaced=True),
    "PersistentVolume": _row(core.PersistentVolume, "", "persistentvolumes", namespaced=False),
    "PersistentVolumeClaim": _row(core.PersistentVolumeClaim, "", "persistentvolumeclaims", namespaced=True),
    "CoreEvent": _row(core.Event, "", "events", namespaced=True),
    "Event": _row(events.Event, "events.k8s.io", "events", namespaced=True),
    "ReplicaSet": _row(apps.ReplicaSet, "apps", "replicasets", namespaced=True),
    "StatefulSet": _row(apps.StatefulSet, "apps", "statefulsets", namespaced=True),
    "StorageClass": _row(storage.StorageClass, "storage.k8s.io", "storageclasses", namespaced=False),
    "CSINode": _row(storage.CSINode, "storage.k8s.io", "csinodes", namespaced=False),
    "CSIDriver": _row(storage.CSIDriver, "storage.k8s.io", "csidrivers", namespaced=False),
    "CSIStorageCapacity": _row(
        storage.CSIStorageCapacity, "storage.k8s.io", "csistoragecapacities", namespaced=True
    ),
    "VolumeAttachment": _row(
        storage.VolumeAttachment, "storage.k8s.io", "volumeattachments", namespaced=False
    ),
    "PodDisruptionBudget": _row(
        policy.PodDisruptionBudget, "policy", "poddisruptionbudgets", namespaced=True
    ),
    "PriorityClass": _row(scheduling.PriorityClass, "scheduling.k8s.io", "priorityclasses", namespaced=False),
    "TokenReview": _row(
        authentication.TokenReview, "authentication.k8s.io", "tokenreviews", namespaced=False
    ),
    "SubjectAccessReview": _row(
        authorization.SubjectAccessReview, "authorization.k8s.io", "subjectaccessreviews", namespaced=False
    ),
    "Lease": _row(coordination.Lease, "coordination.k8s.io", "leases", namespaced=True),
}
