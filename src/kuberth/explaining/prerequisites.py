"""What a pod waits for besides a node: objects that it names, members of its gang, victims of preemption.

In: a pod and the stores of its cluster. Out: `Prerequisite`s, each with the name of an object and its
problem; and the `Nomination` of a preemptor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from kuberth.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from kuberth.api.pod_resources import pod_priority
from kuberth.api.resource import DeviceClass, DeviceRequest, ResourceClaim, ResourceClaimTemplate
from kuberth.api.scheduling import PodGroup
from kuberth.api.storage import StorageClass
from kuberth.cluster.pod_info import PodInfo, group_of
from kuberth.explaining.question import PodEvaluation
from kuberth.informers.store import Stores, object_key
from kuberth.plugins.volume_binding.claims import is_bound
from kuberth.plugins.volumes.claims import WAIT_FOR_FIRST_CONSUMER, claim_class, claims_of

MAX_NAMED: Final = 5
"""How many members of a gang are named."""


@dataclass(frozen=True, slots=True)
class Prerequisite:
    """An object that keeps the pod from being scheduled on any node."""

    kind: str
    name: str
    """Includes the namespace, if it has one."""
    problem: str

    @property
    def text(self) -> str:
        return f"{self.kind} {self.name} {self.problem}"


class Nomination(msgspec.Struct, frozen=True):
    """The pod's nominated node and its victims."""

    node: str
    terminating: tuple[str, ...]
    """namespace/name of pods of lower priority that are being deleted there."""


def nomination(evaluation: PodEvaluation) -> Nomination | None:
    """The pod's nomination; None if it has none."""
    node, priority = evaluation.pod.status.nominated_node_name, pod_priority(evaluation.pod)
    if not node or evaluation.node:
        return None
    terminating = [
        info.key
        for info in evaluation.pods_of(node)
        if info.pod.metadata.deletion_timestamp is not None and info.priority < priority
    ]
    return Nomination(node, tuple(sorted(terminating)))


def prerequisites(evaluation: PodEvaluation, *, refusal: str = "") -> Iterator[Prerequisite]:
    """Missing or unready objects that the pod names, and its workload if its pods are rejected."""
    stores = evaluation.evaluator.stores
    for owner in evaluation.pod.metadata.owner_references[:1] if refusal else ():
        yield Prerequisite(owner.kind, f"{evaluation.pod.metadata.namespace}/{owner.name}", refusal)
    yield from _volumes(evaluation.pod, stores)
    yield from dict.fromkeys(_resource_claims(evaluation.pod, stores))
    yield from _gang(evaluation, stores)


def _volumes(pod: Pod, stores: Stores) -> Iterator[Prerequisite]:
    for use in claims_of(pod, pod.spec.volumes):
        key = f"{pod.metadata.namespace}/{use.name}"
        claim = stores.of(PersistentVolumeClaim).get_by_key(key)
        if claim is None:
            problem = "is not created yet for the ephemeral volume" if use.is_ephemeral else "does not exist"
            yield Prerequisite("PersistentVolumeClaim", key, problem)
            continue
        if claim.metadata.deletion_timestamp is not None:
            yield Prerequisite("PersistentVolumeClaim", key, "is being deleted")
        volume = claim.spec.volume_name
        if volume and stores.of(PersistentVolume).get(volume) is None:
            yield Prerequisite("PersistentVolume", volume, f"of PersistentVolumeClaim {key} does not exist")
        if not is_bound(claim):
            yield from _unbound(claim, stores)


def _unbound(claim: PersistentVolumeClaim, stores: Stores) -> Iterator[Prerequisite]:
    key, name = object_key(claim), claim_class(claim)
    storage_class = stores.of(StorageClass).get(name) if name else None
    if name and storage_class is None:
        yield Prerequisite("StorageClass", name, f"of PersistentVolumeClaim {key} does not exist")
    mode = None if storage_class is None else storage_class.volume_binding_mode
    if mode != WAIT_FOR_FIRST_CONSUMER or claim.spec.volume_name:
        wanted = f"a volume of StorageClass {name}" if name else "a volume without a StorageClass"
        yield Prerequisite("PersistentVolumeClaim", key, f"is not bound; it waits for {wanted}")


def _resource_claims(pod: Pod, stores: Stores) -> Iterator[Prerequisite]:
    namespace = pod.metadata.namespace
    created = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    for reference in pod.spec.resource_claims:
        template = reference.resource_claim_template_name
        name = reference.resource_claim_name or created.get(reference.name)
        if name is None:
            if template is not None and reference.name not in created:
                yield from _from_template(f"{namespace}/{template}", stores)
            continue
        key = f"{namespace}/{name}"
        claim = stores.of(ResourceClaim).get_by_key(key)
        if claim is None:
            yield Prerequisite("ResourceClaim", key, "does not exist")
            continue
        if claim.metadata.deletion_timestamp is not None:
            yield Prerequisite("ResourceClaim", key, "is being deleted")
        if claim.status.allocation is None:
            yield from _classes(f"ResourceClaim {key}", claim.spec.devices.requests, stores)


def _from_template(key: str, stores: Stores) -> Iterator[Prerequisite]:
    template = stores.of(ResourceClaimTemplate).get_by_key(key)
    if template is None:
        problem = "is not among the objects that were read, and no ResourceClaim was made from it"
        yield Prerequisite("ResourceClaimTemplate", key, problem)
        return
    yield Prerequisite("ResourceClaimTemplate", key, "exists, but no ResourceClaim was made from it yet")
    requests = template.spec.spec.devices.requests
    yield from _classes(f"ResourceClaimTemplate {key}", requests, stores)


def _classes(owner: str, requests: tuple[DeviceRequest, ...], stores: Stores) -> Iterator[Prerequisite]:
    for request in requests:
        names = [each.device_class_name for each in request.first_available]
        if request.exactly is not None:
            names.append(request.exactly.device_class_name)
        for name in names:
            if name and stores.of(DeviceClass).get(name) is None:
                yield Prerequisite("DeviceClass", name, f"of {owner} does not exist")


def _gang(evaluation: PodEvaluation, stores: Stores) -> Iterator[Prerequisite]:
    key = group_of(evaluation.pod)
    if not key or not evaluation.schedules_gangs:
        return
    group = stores.of(PodGroup).get_by_key(key)
    if group is None:
        yield Prerequisite("PodGroup", key, "does not exist")
        return
    gang, members = group.spec.scheduling_policy.gang, evaluation.evaluator.cluster.pod_groups.get(key)
    if gang is None or members is None:
        return
    if members.total < gang.min_count:
        missing = gang.min_count - members.total
        problem = f"needs {gang.min_count} pods and has {members.total}: {missing} more must be created"
        yield Prerequisite("PodGroup", key, problem)
    elif members.scheduled < gang.min_count:
        problem = f"needs nodes for {gang.min_count} pods and has {members.scheduled} so far"
        yield Prerequisite("PodGroup", key, f"{problem}; without a node: {_names(members.unscheduled)}")


def _names(pods: Mapping[str, PodInfo]) -> str:
    """The names of some pods, by UID, in order."""
    names = sorted(info.pod.metadata.name for info in pods.values())
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f"{', '.join(names[:MAX_NAMED])}{more}"
