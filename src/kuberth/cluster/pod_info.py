"""What scheduling needs to know about a pod, derived once: requests, affinity terms, ports, claims.

In: a `Pod`. Out: a `PodInfo` that the queue, the cluster table and the plugins share. A part that cannot be
parsed (an invalid quantity or selector) is left empty and listed in `problems`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from kuberth.api.core import Container, Pod, PodAffinityTerm, WeightedPodAffinityTerm
from kuberth.api.meta import ObjectMeta
from kuberth.api.pod_resources import PodRequest, compute_pod_request, is_resize_infeasible, pod_priority
from kuberth.api.selectors import Selector, compile_label_selector
from kuberth.cluster.pod_volumes import disks, is_attachable
from kuberth.errors import QuantityError, SelectorError

NO_REQUEST: Final = PodRequest(
    milli_cpu=0, memory=0, ephemeral_storage=0, scalars={}, nonzero_milli_cpu=0, nonzero_memory=0
)


class PodMatcher(NamedTuple):
    """Which pods a term matches: by namespace (listed, or by the namespace's labels) and by label."""

    namespaces: frozenset[str]
    """The names of matching namespaces."""
    namespace_selector: Selector
    """The selector of further matching namespaces, by their labels."""
    selector: Selector
    """The selector of the pod's labels."""

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Whether it matches a pod with these labels, in a namespace with those."""
        if namespace not in self.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(labels)


class AffinityTerm(NamedTuple):
    """A pod affinity term: which pods to be near to (or far from), and the topology key for "near"."""

    pods: PodMatcher
    """The pods that the term matches."""
    topology_key: str
    """The node label whose value nearby nodes share."""


class WeightedTerm(NamedTuple):
    """A preferred pod affinity term; the weight is negative for anti-affinity."""

    term: AffinityTerm
    """The term."""
    weight: int
    """1 to 100, or -1 to -100 for anti-affinity."""


ALL_ADDRESSES: Final = "0.0.0.0"


class HostPort(NamedTuple):
    """A host port of a pod."""

    ip: str
    """The address; 0.0.0.0 means all of the node's."""
    protocol: str
    """TCP, UDP or SCTP."""
    port: int
    """The port number."""

    def conflicts_with(self, other: HostPort) -> bool:
        """Whether pods with these two ports cannot share a node."""
        return self.protocol == other.protocol and self.port == other.port and overlap(self.ip, other.ip)


def overlap(address: str, other: str) -> bool:
    """Whether two addresses of host ports are the same, or one means all addresses."""
    return address == other or ALL_ADDRESSES in (address, other)


class PodClass(NamedTuple):
    """Everything about a pod that terms can match. Pods of one class are counted together."""

    namespace: str
    """The pod's namespace."""
    labels: frozenset[tuple[str, str]]
    """Its labels, as pairs."""
    terminating: bool
    """Whether the pod is terminating."""


class PodInfo:
    """A pod with values derived from it. Immutable: a new version of the pod creates a new one."""

    __slots__ = (
        "attachable_volumes",
        "device_claims",
        "digests",
        "disks",
        "group",
        "host_ports",
        "key",
        "pod",
        "pod_class",
        "preferred_terms",
        "priority",
        "problems",
        "request",
        "required_affinity",
        "required_anti_affinity",
        "signed",
        "uid",
        "volume_claims",
    )

    def __init__(self, pod: Pod, *, pod_level_resources: bool = True, with_devices: bool = False) -> None:
        """Without `pod_level_resources` (the feature gate), only the containers' requests count.

        `with_devices` (the gate DRANodeAllocatableResources): if the pod has a node, the node resources of
        its devices count too.
        """
        metadata, spec = pod.metadata, pod.spec
        problems: list[str] = []
        self.pod = pod
        """The pod's object."""
        self.uid = metadata.uid
        """Its UID, the key in the table and the queue."""
        self.key = f"{metadata.namespace}/{metadata.name}"
        """`namespace/name`."""
        self.group = group_of(pod)
        """`namespace/name` of its pod group; "" if it has none."""
        self.priority = pod_priority(pod)
        """Its priority; 0 if it has none."""
        self.pod_class = _class_of(metadata)
        """The part of the pod that terms can match."""
        self.device_claims: frozenset[str] = _NO_CLAIMS
        """`namespace/name` of the claims whose devices use resources of the node."""
        with_devices = with_devices and bool(spec.node_name)
        if with_devices and (taking := pod.status.node_allocatable_resource_claim_statuses):
            namespace = metadata.namespace
            self.device_claims = frozenset(f"{namespace}/{each.resource_claim_name}" for each in taking)
        self.request = NO_REQUEST
        """A `PodRequest`: the pod's requests as integers; zero if they cannot be parsed."""
        try:
            self.request = _shared(
                compute_pod_request(pod, pod_level_resources=pod_level_resources, with_devices=with_devices)
            )
        except QuantityError as exc:
            problems.append(str(exc))

        self.required_affinity: tuple[AffinityTerm, ...] = ()
        """Required pod affinity terms."""
        self.required_anti_affinity: tuple[AffinityTerm, ...] = ()
        """Required pod anti-affinity terms."""
        self.preferred_terms: tuple[WeightedTerm, ...] = ()
        """Preferred terms of both, with a negative weight for anti-affinity."""
        if spec.affinity is not None:
            near, far = spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity
            try:
                if near is not None:
                    self.required_affinity = _terms(
                        pod, near.required_during_scheduling_ignored_during_execution
                    )
                    self.preferred_terms = _weighted(
                        pod, near.preferred_during_scheduling_ignored_during_execution, sign=1
                    )
                if far is not None:
                    self.required_anti_affinity = _terms(
                        pod, far.required_during_scheduling_ignored_during_execution
                    )
                    self.preferred_terms += _weighted(
                        pod, far.preferred_during_scheduling_ignored_during_execution, sign=-1
                    )
            except SelectorError as exc:
                problems.append(f"pod affinity: {exc}")

        self.host_ports = host_ports(pod)
        """A tuple of `HostPort`: the host ports of the pod."""
        self.volume_claims = tuple(
            f"{metadata.namespace}/{volume.persistent_volume_claim.claim_name}"
            for volume in spec.volumes
            if volume.persistent_volume_claim is not None
        )
        """A tuple of `namespace/name`: the persistent volume claims that the pod uses."""
        self.attachable_volumes = tuple(filter(is_attachable, spec.volumes))
        """A tuple of the volumes in its spec that a CSI driver may have to attach."""
        self.disks = disks(spec.volumes)
        """A tuple of `Disk`: the disks in its spec that pods cannot share freely (GCE, AWS, iSCSI, RBD)."""
        self.problems: tuple[str, ...] = tuple(problems)
        """The parts that could not be parsed, as messages; a pod with problems is rejected with them."""
        self.signed: tuple[object, bytes | None] | None = None
        """The last signature with its signer, cached here by the framework."""
        self.digests: dict[object, tuple[int, bytes]] | None = None
        """Long signatures, which are expensive to compute, by signer, with the version."""

    def placed_on(self, node_name: str) -> PodInfo:
        """The same pod with a node; all derived values stay the same."""
        replace = msgspec.structs.replace
        return self._of(replace(self.pod, spec=replace(self.pod.spec, node_name=node_name)))

    def renewed(self, pod: Pod) -> PodInfo | None:
        """The same for a newer version of the pod; None if more than its class may differ."""
        old, new = self.pod.metadata, pod.metadata
        if (
            self.pod.spec != pod.spec
            or (old.deletion_timestamp is None) != (new.deletion_timestamp is None)
            or _reported(self.pod) != _reported(pod)
        ):
            return None
        twin = self._of(pod)
        if old.labels != new.labels:  # a binding adds the node's topology labels
            twin.pod_class = _class_of(new)
        return twin

    def _of(self, pod: Pod) -> PodInfo:
        # One by one: this runs for every pod, and a loop over names takes five times as long.
        twin = PodInfo.__new__(PodInfo)
        twin.pod = pod
        twin.uid = self.uid
        twin.key = self.key
        twin.group = self.group
        twin.priority = self.priority
        twin.pod_class = self.pod_class
        twin.device_claims = self.device_claims
        twin.request = self.request
        twin.required_affinity = self.required_affinity
        twin.required_anti_affinity = self.required_anti_affinity
        twin.preferred_terms = self.preferred_terms
        twin.host_ports = self.host_ports
        twin.volume_claims = self.volume_claims
        twin.attachable_volumes = self.attachable_volumes
        twin.disks = self.disks
        twin.problems = self.problems
        twin.signed = None
        twin.digests = None
        return twin

    @property
    def selecting_controller(self) -> tuple[str, str] | None:
        """Kind and name of its controller, if that kind has a pod selector; None for Jobs."""
        return selecting_controller(self.pod)

    @property
    def labels(self) -> Mapping[str, str]:
        """The pod's labels."""
        return self.pod.metadata.labels

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return self.pod.metadata.namespace

    @property
    def node_name(self) -> str:
        """The node it is on, or ""."""
        return self.pod.spec.node_name

    def __repr__(self) -> str:
        return f"<PodInfo {self.key}>"


def group_of(pod: Pod) -> str:
    """`namespace/name` of the pod group in the pod's spec; "" if there is none."""
    named = pod.spec.scheduling_group
    if named is None or not named.pod_group_name:
        return ""
    return f"{pod.metadata.namespace}/{named.pod_group_name}"


def selecting_controller(pod: Pod) -> tuple[str, str] | None:
    """Kind and name of the pod's ReplicationController, ReplicaSet or StatefulSet; None if it has none."""
    for owner in pod.metadata.owner_references:
        if owner.controller:
            return (owner.kind, owner.name) if (owner.api_version, owner.kind) in _SELECTING else None
    return None


_SELECTING: Final = frozenset(
    {("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")}
)
_NO_CLAIMS: Final = frozenset[str]()
_MAX_SHARED: Final = 4096
_MANY_LABELS: Final = 64
_CLASSES: Final[dict[tuple[int, str, bool], tuple[Mapping[str, str], PodClass]]] = {}
"""Classes by the identity of their labels, since replicas share the object; the values keep it alive."""
_REQUESTS: Final[dict[tuple[int, ...], PodRequest]] = {}


def _class_of(metadata: ObjectMeta) -> PodClass:
    labels, terminating = metadata.labels, metadata.deletion_timestamp is not None
    key = id(labels), metadata.namespace, terminating
    found = _CLASSES.get(key)
    if found is None:
        if len(labels) > _MANY_LABELS:  # not worth caching
            return PodClass(metadata.namespace, frozenset(labels.items()), terminating)
        if len(_CLASSES) >= _MAX_SHARED:
            _CLASSES.clear()
        found = labels, PodClass(metadata.namespace, frozenset(labels.items()), terminating)
        _CLASSES[key] = found
    return found[1]


def _shared(request: PodRequest) -> PodRequest:
    """An equal request object that other pods use."""
    if request.scalars:
        return request
    key = (
        request.milli_cpu,
        request.memory,
        request.ephemeral_storage,
        request.nonzero_milli_cpu,
        request.nonzero_memory,
    )
    if len(_REQUESTS) >= _MAX_SHARED:
        _REQUESTS.clear()
    return _REQUESTS.setdefault(key, request)


def _reported(pod: Pod) -> object:
    """The resources in the pod's status that count among its requests; None if nothing counts."""
    status = pod.status
    if (
        not status.container_statuses
        and not status.init_container_statuses
        and status.resources is None
        and not status.node_allocatable_resource_claim_statuses
    ):
        return None
    reported = [
        (each.name, each.resources, each.allocated_resources)
        for each in (*status.container_statuses, *status.init_container_statuses)
        if each.resources is not None
    ]
    taken = status.node_allocatable_resource_claim_statuses
    if not reported and status.resources is None and not taken:
        return None
    return reported, status.resources, status.allocated_resources, taken, is_resize_infeasible(pod)


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """The host ports of the pod while it runs; no address means all of the node's."""
    return tuple(
        HostPort(port.host_ip or ALL_ADDRESSES, port.protocol or "TCP", port.host_port)
        for container in (*_sidecars(pod), *pod.spec.containers)
        for port in container.ports
        if port.host_port > 0
    )


def compile_term(pod: Pod, term: PodAffinityTerm) -> AffinityTerm:
    """A term of `pod`; without namespaces and namespace selector it matches the pod's own namespace."""
    namespaces = frozenset(term.namespaces)
    if not namespaces and term.namespace_selector is None:
        namespaces = frozenset((pod.metadata.namespace,))
    matcher = PodMatcher(
        namespaces,
        compile_label_selector(term.namespace_selector),
        compile_label_selector(term.label_selector),
    )
    return AffinityTerm(matcher, term.topology_key)


def _terms(pod: Pod, terms: Sequence[PodAffinityTerm]) -> tuple[AffinityTerm, ...]:
    return tuple(compile_term(pod, term) for term in terms)


def _weighted(pod: Pod, terms: Sequence[WeightedPodAffinityTerm], *, sign: int) -> tuple[WeightedTerm, ...]:
    return tuple(
        WeightedTerm(compile_term(pod, weighted.pod_affinity_term), sign * weighted.weight)
        for weighted in terms
    )


def _sidecars(pod: Pod) -> Sequence[Container]:
    return [container for container in pod.spec.init_containers if container.restart_policy == "Always"]
