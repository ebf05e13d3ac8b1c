"""Reads clusters and pods from an API server or from files.

In: an `Api`, or manifests. Out: objects, and the pod in question. A kind that cannot be read is an error, or
a note if the answer hardly depends on it. A pod that does not exist yet gets what Kubernetes would give it:
defaults, the priority of its class, and claims from ResourceClaimTemplates and for its ephemeral volumes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlencode

from msgspec.structs import replace as with_fields

from kuberth.api.core import Namespace, Node, PersistentVolumeClaim, Pod
from kuberth.api.kinds import REGISTRY, KindInfo
from kuberth.api.meta import ObjectMeta, OwnerReference
from kuberth.api.pods import UNFINISHED, PodResourceClaimStatus
from kuberth.api.resource import ResourceClaim, ResourceClaimTemplate
from kuberth.api.scheduling import PriorityClass
from kuberth.api.storage import StorageClass
from kuberth.api.volumes import EphemeralVolumeSource, PersistentVolumeClaimTemplate, Volume
from kuberth.api.wire import convert
from kuberth.client.protocol import Api
from kuberth.errors import ConfigError, ForbiddenError, NotFoundError, WireError
from kuberth.evaluation import Evaluator
from kuberth.explaining.targets import SUGGESTED, WORKLOADS, ExplainTarget, find_pod, unknown_name
from kuberth.informers.store import object_key
from kuberth.local.apiserver.rules.kind_rules import built_in_rules
from kuberth.local.apiserver.schema.fields import copy_tree
from kuberth.local.manifests import Manifest, read_manifests
from kuberth.plugins.volumes.claims import WAIT_FOR_FIRST_CONSUMER

Tree = Mapping[str, Any]

FAILED_CREATE: Final = "FailedCreate"
"""The reason of the events that controllers write about pods that they cannot create."""
_SHORT_OF_PODS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "StatefulSet": (("spec", "replicas"), ("status", "replicas")),
    "DaemonSet": (("status", "desiredNumberScheduled"), ("status", "currentNumberScheduled")),
}
"""By kind: the fields with the desired and the current number of pods."""
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


class RawApi(Protocol):
    """An API with requests to any path."""

    async def call(self, method: str, path: str) -> bytes: ...


# An API server


async def read_cluster(api: Api, evaluator: Evaluator) -> tuple[list[Any], tuple[str, ...]]:
    """All objects that the evaluator's plugins read, and notes about kinds that could not be listed."""
    objects: list[Any] = []
    notes: list[str] = []
    kinds: list[type[Any]] = [Namespace, Node, Pod, PriorityClass, ResourceClaimTemplate]
    kinds += evaluator.stores.kinds()
    for kind in dict.fromkeys(kinds):
        selector = UNFINISHED if kind is Pod else ""
        try:
            objects += (await api.list(kind, field_selector=selector)).items
        except (NotFoundError, ForbiddenError) as error:
            if kind in (Node, Pod):
                raise
            if isinstance(error, ForbiddenError):
                notes.append(f"{REGISTRY.of(kind).plural} could not be read and count as absent: {error}")
    return objects, tuple(notes)


class WorkloadPod(NamedTuple):
    """The pod to explain: one that exists, or one of a workload's template."""

    pod: Pod
    """The pod."""
    refusal: str = ""
    """Why the API server refuses pods of the workload, if it does."""


async def read_template(api: RawApi, target: ExplainTarget, namespace: str) -> WorkloadPod:
    """The workload's template, and why its pods are refused."""
    kind = WORKLOADS[target.kind]
    path = f"{kind.path}/namespaces/{namespace}/{kind.plural}"
    try:
        tree = json.loads(await api.call("GET", f"{path}/{target.name}"))
    except NotFoundError:
        found = json.loads(await api.call("GET", path))
        names = [item["metadata"]["name"] for item in found.get("items") or ()]
        raise unknown_name(target, namespace, names) from None
    tree.setdefault("kind", target.kind)
    return WorkloadPod(template_pod(tree), refusal(tree, await _refusals(api, target, namespace)))


async def _refusals(api: RawApi, target: ExplainTarget, namespace: str) -> Sequence[Tree]:
    """Events about pods that could not be created; none if they may not be read."""
    about = f"involvedObject.kind={target.kind},involvedObject.name={target.name},reason={FAILED_CREATE}"
    path = f"/api/v1/namespaces/{namespace}/events?{urlencode({'fieldSelector': about})}"
    try:
        return json.loads(await api.call("GET", path)).get("items") or ()
    except (ForbiddenError, NotFoundError):
        return ()


def refusal(workload: Tree, events: Iterable[Tree] = ()) -> str:
    """Why pods of the workload could not be created; "" if this is unknown, or they could."""
    for condition in _field(workload, ("status", "conditions")) or ():
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            return f"cannot create pods: {condition.get('message', '')}"
    fields = _SHORT_OF_PODS.get(str(workload.get("kind")))
    if fields is not None and (_field(workload, fields[0]) or 0) <= (_field(workload, fields[1]) or 0):
        return ""
    last = max((event for event in events if _is_refusal(event, workload)), key=_event_time, default=None)
    return "" if last is None else f"could not create a pod at {_event_time(last)}: {last.get('message', '')}"


def _is_refusal(event: Tree, workload: Tree) -> bool:
    about, metadata = event.get("involvedObject") or {}, workload.get("metadata") or {}
    return (
        event.get("reason") == FAILED_CREATE
        and about.get("kind") == workload.get("kind")
        and about.get("name") == metadata.get("name")
        and about.get("namespace", "default") == (metadata.get("namespace") or "default")
        # An object of the same name may have existed before.
        and about.get("uid") in (None, "", metadata.get("uid"))
    )


def _event_time(event: Tree) -> str:
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return max((str(each) for each in times if each), default="an unknown time")


def _field(tree: Any, path: Iterable[str]) -> Any:
    for field in path:
        tree = tree.get(field) if isinstance(tree, Mapping) else None
    return tree


# Files


def read_dump(path: Path) -> tuple[list[Any], list[Manifest]]:
    """The objects of a dump that scheduling reads, and all its manifests."""
    manifests = list(read_manifests(path))
    objects = [obj for manifest in manifests if (obj := _object(manifest)) is not None]
    if not any(isinstance(obj, Node) for obj in objects):
        kinds = sorted({str(manifest.tree["kind"]) for manifest in manifests})
        raise ConfigError(
            f"{path} is not a dump of a cluster: it has no nodes, only {', '.join(kinds) or 'nothing'}; "
            "make one with: kubectl get nodes,pods,namespaces,pv,pvc,sc,pdb -A -o yaml"
        )
    return objects, manifests


def read_pods(path: Path) -> list[Pod]:
    """The pods of a file of manifests."""
    pods = [obj for each in read_manifests(path) if isinstance(obj := _object(each), Pod)]
    if not pods:
        raise ConfigError(f"{path} has no pods; make one with: kubectl get pods -o yaml")
    return pods


def _object(manifest: Manifest) -> Any:
    group, _, version = str(manifest.tree.get("apiVersion", "")).rpartition("/")
    info = REGISTRY.find(group, version, str(manifest.tree["kind"]))
    if info is None:
        return None
    try:
        obj = _with_defaults(manifest.tree, info)
    except WireError as error:
        raise ConfigError(f"{manifest.origin}: {error}") from error
    if isinstance(obj, Node | Pod) and not obj.metadata.name:
        raise ConfigError(f"{manifest}: it needs metadata.name")
    return _with_identity(obj) if info.namespaced else obj


def _with_identity(obj: Any) -> Any:
    """The object with a UID and a namespace, which manifests often leave out."""
    metadata = obj.metadata
    namespace = metadata.namespace or "default"
    uid = metadata.uid or f"{namespace}/{metadata.name}"
    return with_fields(obj, metadata=with_fields(metadata, namespace=namespace, uid=uid))


def find_in_dump(
    objects: Sequence[Any], manifests: Sequence[Manifest], target: ExplainTarget, namespace: str
) -> WorkloadPod:
    """The pod of a dump, or the template of a workload in it."""
    if target.kind == "Pod":
        return WorkloadPod(find_pod(objects, target, namespace))
    found = {}
    for manifest in manifests:
        metadata = manifest.tree.get("metadata")
        if manifest.tree["kind"] != target.kind or not isinstance(metadata, dict):
            continue
        if (metadata.get("namespace") or "default") == namespace:
            found[str(metadata.get("name", ""))] = manifest.tree
    if target.name not in found:
        raise unknown_name(target, namespace, list(found))
    workload = found[target.name]
    events = [each.tree for each in manifests if each.tree["kind"] == "Event"]
    return WorkloadPod(template_pod(workload), refusal(workload, events))


def read_pod(path: Path, *, namespace: str | None, otherwise: str = "default") -> Pod:
    """The one pod, or workload with a template, of a manifest file.

    Its namespace is `namespace`, else the manifest's, else `otherwise`.
    """
    manifests = list(read_manifests(path))
    found = [each for each in manifests if each.tree["kind"] == "Pod" or each.tree["kind"] in WORKLOADS]
    if len(found) != 1:
        kinds = ", ".join(sorted({str(each.tree["kind"]) for each in manifests})) or "nothing"
        problem = (
            f"holds {len(found)} pods or workloads" if found else f"holds no pod or workload, but {kinds}"
        )
        listed = f": {'; '.join(map(str, found[:SUGGESTED]))}" if found else ""
        raise ConfigError(f"{path} {problem}{listed}; explain takes one at a time")
    tree = copy_tree(dict(found[0].tree))
    metadata = tree.get("metadata")
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        raise ConfigError(f"{found[0]}: it needs metadata.name")
    metadata["namespace"] = namespace or metadata.get("namespace") or otherwise
    if tree["kind"] in WORKLOADS:
        return template_pod(tree)
    return _new_pod(tree)


def template_pod(tree: Tree) -> Pod:
    """A pod as the workload's controller would create it."""
    kind, metadata = WORKLOADS[tree["kind"]], tree["metadata"]
    template = _field(tree, kind.template)
    if not isinstance(template, Mapping) or not isinstance(template.get("spec"), Mapping):
        raise ConfigError(
            f"{tree['kind']} {metadata['name']} has no pod template at {'.'.join(kind.template)}"
        )
    own = {
        **(template.get("metadata") or {}),
        "name": metadata["name"],
        "namespace": metadata.get("namespace") or "default",
        "ownerReferences": [{"kind": tree["kind"], "name": metadata["name"], "controller": True}],
    }
    pod = _new_pod({"apiVersion": "v1", "kind": "Pod", "metadata": own, "spec": template["spec"]})
    return _with_volumes(pod, tree["spec"].get("volumeClaimTemplates"), str(tree["kind"]))


def _with_volumes(pod: Pod, templates: Any, kind: str) -> Pod:
    """The pod with a volume for each claim that its StatefulSet creates for every pod."""
    if kind != "StatefulSet" or not templates:
        return pod
    try:
        claims = convert(tuple[PersistentVolumeClaim, ...], templates)
    except WireError as error:
        raise ConfigError(f"{kind} {pod.metadata.name}: volumeClaimTemplates: {error}") from error
    own = {
        claim.metadata.name: EphemeralVolumeSource(
            volume_claim_template=PersistentVolumeClaimTemplate(spec=claim.spec)
        )
        for claim in claims
    }
    others = [volume for volume in pod.spec.volumes if volume.name not in own]
    volumes = (*others, *(Volume(name=name, ephemeral=source) for name, source in own.items()))
    return with_fields(pod, spec=with_fields(pod.spec, volumes=volumes))


def _with_defaults(tree: Tree, info: KindInfo) -> Any:
    """The object with the defaults of the API server that matter to scheduling."""
    if info.type not in (Pod, ResourceClaim, ResourceClaimTemplate):
        return convert(info.type, tree)
    whole = copy_tree(dict(tree))
    convert(info.type, whole)  # so that defaults find the shapes they expect
    built_in_rules(info.resource_id).default(whole)
    return convert(info.type, whole)


def _new_pod(tree: Tree) -> Pod:
    """A pod that does not exist yet, as the API server would create it."""
    try:
        pod: Pod = _with_identity(_with_defaults(tree, REGISTRY.of(Pod)))
    except WireError as error:
        raise ConfigError(str(error)) from error
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        for resource, amount in container.resources.requests.items():
            if str(amount).startswith("-"):
                raise ConfigError(
                    f"Pod {object_key(pod)}: container {container.name} requests {amount} of {resource}; "
                    "an amount is zero or more"
                )
    return pod


def with_priority(pod: Pod, objects: Iterable[Any]) -> Pod:
    """The pod with the priority of its class, as the API server sets it on creation."""
    if pod.spec.priority is not None:
        return pod
    classes = [obj for obj in objects if isinstance(obj, PriorityClass)]
    name = pod.spec.priority_class_name
    for one in classes:
        if one.metadata.name == name or (not name and one.global_default):
            policy = pod.spec.preemption_policy or one.preemption_policy
            spec = with_fields(pod.spec, priority=one.value, preemption_policy=policy)
            return with_fields(pod, spec=spec)
    if name.startswith("system-"):
        return pod
    if name and classes:
        raise ConfigError(f"pod {pod.metadata.name}: there is no PriorityClass {name}")
    return pod


# Claims of a new pod


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


def _owned_metadata(pod: Pod, name: str) -> ObjectMeta:
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
            claims.append(ResourceClaim(metadata=_owned_metadata(pod, name), spec=template.spec.spec))
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
        metadata = _owned_metadata(pod, f"{pod.metadata.name}-{volume.name}")
        claims.append(PersistentVolumeClaim(metadata=metadata, spec=spec))
    return claims, late


def _order_of_creation(storage_class: StorageClass) -> tuple[float, str]:
    created = storage_class.metadata.creation_timestamp
    return (0.0 if created is None else created.timestamp()), storage_class.metadata.name
