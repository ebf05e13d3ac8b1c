"""Single changes that may let a pod be scheduled, as values: of the pod, of a node, of other pods.

They name taints, selectors and terms of the pod in kubectl's notation.

In: an `EditedCluster`, a pod and its cluster with the changes so far. Out: the same with one more change. A
proposal consists of edits; trying it and checking it apply the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Literal

import msgspec
from msgspec.structs import replace as with_fields

from kuberth.api.core import (
    Container,
    Node,
    Pod,
    PodAffinityTerm,
    ResourceRequirements,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from kuberth.api.meta import LabelSelector, LabelSelectorRequirement
from kuberth.api.nodes import NodeSelectorRequirement
from kuberth.api.resource import ResourceClaim, ResourceClaimStatus
from kuberth.api.well_known import HOSTNAME

CORDON_TAINT: Final = "node.kubernetes.io/unschedulable"
"""Key of the taint that a cordoned node gets and an uncordoned one loses."""
PROBLEM_TAINTS: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Prefixes of the taints that Kubernetes adds for problems of a node and removes itself."""


@dataclass(frozen=True, slots=True)
class EditedCluster:
    """A pod and its cluster, with the changes made so far."""

    pod: Pod
    present: Callable[[str], Node | None]
    """Returns the unchanged node of a name."""
    nodes: Mapping[str, Node] = field(default_factory=dict)
    """New nodes and changed nodes."""
    gone: frozenset[str] = frozenset()
    """namespace/name of pods that were deleted."""

    def node(self, name: str) -> Node:
        found = self.nodes.get(name) or self.present(name)
        if found is None:
            raise KeyError(name)
        return found

    def with_node(self, node: Node) -> EditedCluster:
        return replace(self, nodes={**self.nodes, node.metadata.name: node})

    def without_taints(self, name: str, is_gone: Callable[[Taint], bool], **spec: Any) -> EditedCluster:
        """Remove taints of a node, and set other fields of its spec."""
        node = self.node(name)
        taints = tuple(taint for taint in node.spec.taints if not is_gone(taint))
        return self.with_node(with_fields(node, spec=with_fields(node.spec, taints=taints, **spec)))

    def with_spec(self, **fields: Any) -> EditedCluster:
        return replace(self, pod=with_fields(self.pod, spec=with_fields(self.pod.spec, **fields)))


class Edit(msgspec.Struct, frozen=True, tag_field="kind", tag=True):
    """One change. Its JSON has the name of its class as `kind`, and its fields."""

    harm: ClassVar[int]
    """How disruptive it is: 0 changes the pod's own constraints, 1 its requests, 2 and 3 a node, 4 other
    pods, 5 the size of the cluster."""
    sentence: ClassVar[str]
    """The change as users read it, with fields in braces."""

    @property
    def text(self) -> str:
        """The change as users read it."""
        return self.sentence.format(**msgspec.structs.asdict(self))

    def apply(self, edited: EditedCluster) -> EditedCluster:
        """The cluster with this change too."""
        raise NotImplementedError


class ScaleRequest(Edit, frozen=True):
    """Lower a request of one of the pod's containers, or of the pod itself if `container` is ""."""

    harm: ClassVar = 1
    container: str
    resource: str
    before: str
    after: str

    @property
    def text(self) -> str:
        whose = f"container {self.container}" if self.container else "the pod"
        return f"scale the {self.resource} request of {whose} from {self.before} to {self.after}"

    def apply(self, edited: EditedCluster) -> EditedCluster:
        spec = edited.pod.spec
        if not self.container and spec.resources is not None:
            return edited.with_spec(resources=self._lowered(spec.resources))
        return edited.with_spec(
            containers=tuple(map(self._scaled, spec.containers)),
            init_containers=tuple(map(self._scaled, spec.init_containers)),
        )

    def _scaled(self, container: Container) -> Container:
        if container.name != self.container:
            return container
        return with_fields(container, resources=self._lowered(container.resources))

    def _lowered(self, resources: ResourceRequirements) -> ResourceRequirements:
        requests = {**resources.requests, self.resource: self.after}
        limits = resources.limits
        # Resources that cannot be overcommitted need limits equal to their requests.
        if limits.get(self.resource) == self.before and "/" in self.resource:
            limits = {**limits, self.resource: self.after}
        return with_fields(resources, requests=requests, limits=limits)


class Tolerate(Edit, frozen=True):
    """Add a toleration to the pod."""

    harm: ClassVar = 0
    key: str
    value: str
    effect: str

    @property
    def text(self) -> str:
        return f"add a toleration of {taint_text(self.key, self.value, self.effect)} to the pod"

    def apply(self, edited: EditedCluster) -> EditedCluster:
        added = Toleration(key=self.key, operator="Equal", value=self.value, effect=self.effect)
        return edited.with_spec(tolerations=(*edited.pod.spec.tolerations, added))


class RemoveTaint(Edit, frozen=True):
    """Remove a taint from a node."""

    harm: ClassVar = 3
    node: str
    key: str
    value: str
    effect: str

    @property
    def text(self) -> str:
        return f"remove the taint {taint_text(self.key, self.value, self.effect)} from node {self.node}"

    def apply(self, edited: EditedCluster) -> EditedCluster:
        gone = self.key, self.value, self.effect
        return edited.without_taints(self.node, lambda taint: (taint.key, taint.value, taint.effect) == gone)


class Uncordon(Edit, frozen=True):
    """Make a node schedulable, which also removes the taint that cordoning added."""

    harm: ClassVar = 2
    sentence: ClassVar = "uncordon node {node}"
    node: str

    def apply(self, edited: EditedCluster) -> EditedCluster:
        return edited.without_taints(self.node, lambda taint: taint.key == CORDON_TAINT, unschedulable=False)


class RepairNode(Edit, frozen=True):
    """Solve the problem of a node for which Kubernetes has added a taint."""

    harm: ClassVar = 2
    sentence: ClassVar = "repair node {node}, which has the taint {taint}"
    node: str
    taint: str
    """The taint's key; Kubernetes removes the taint, with each of its effects, when the problem is solved."""

    def apply(self, edited: EditedCluster) -> EditedCluster:
        return edited.without_taints(self.node, lambda taint: taint.key == self.taint)


class SetLabel(Edit, frozen=True):
    """Set a label of a node, or remove it with None."""

    harm: ClassVar = 3
    node: str
    key: str
    value: str | None

    @property
    def text(self) -> str:
        if self.value is None:
            return f"remove the label {self.key} from node {self.node}"
        return f"label node {self.node} with {self.key}={self.value}"

    def apply(self, edited: EditedCluster) -> EditedCluster:
        node = edited.node(self.node)
        labels = {key: value for key, value in node.metadata.labels.items() if key != self.key}
        if self.value is not None:
            labels[self.key] = self.value
        return edited.with_node(with_fields(node, metadata=with_fields(node.metadata, labels=labels)))


class DropNodeSelector(Edit, frozen=True):
    """Remove a key from the pod's nodeSelector."""

    harm: ClassVar = 0
    sentence: ClassVar = "drop {key} from the pod's nodeSelector"
    key: str

    def apply(self, edited: EditedCluster) -> EditedCluster:
        selector = edited.pod.spec.node_selector
        return edited.with_spec(node_selector={key: selector[key] for key in selector if key != self.key})


class DropNodeAffinity(Edit, frozen=True):
    """Drop the pod's required node affinity."""

    harm: ClassVar = 0
    sentence: ClassVar = "drop the pod's required node affinity"

    def apply(self, edited: EditedCluster) -> EditedCluster:
        affinity = edited.pod.spec.affinity
        if affinity is None or affinity.node_affinity is None:
            return edited
        kept = with_fields(affinity.node_affinity, required_during_scheduling_ignored_during_execution=None)
        return edited.with_spec(affinity=with_fields(affinity, node_affinity=kept))


class DropAffinity(Edit, frozen=True):
    """Drop a required term of the pod's affinity or anti-affinity to other pods."""

    harm: ClassVar = 0
    affinity: Literal["podAffinity", "podAntiAffinity"]
    term: str
    """Its text (`affinity_text`); equal terms go together."""

    @property
    def text(self) -> str:
        what = "affinity to" if self.affinity == "podAffinity" else "anti-affinity to"
        return f"drop the pod's required {what} pods with {self.term}"

    def apply(self, edited: EditedCluster) -> EditedCluster:
        affinity = edited.pod.spec.affinity
        field_name = "pod_affinity" if self.affinity == "podAffinity" else "pod_anti_affinity"
        given = getattr(affinity, field_name, None)
        if affinity is None or given is None:
            return edited
        terms = given.required_during_scheduling_ignored_during_execution
        left = tuple(term for term in terms if affinity_text(term) != self.term)
        kept = with_fields(given, required_during_scheduling_ignored_during_execution=left)
        return edited.with_spec(affinity=with_fields(affinity, **{field_name: kept}))


class RelaxSpread(Edit, frozen=True):
    """Make a topology spread constraint of the pod a preference."""

    harm: ClassVar = 0
    sentence: ClassVar = "set whenUnsatisfiable of the spread of {constraint} to ScheduleAnyway"
    constraint: str
    """Its text (`spread_text`)."""

    def apply(self, edited: EditedCluster) -> EditedCluster:
        constraints = tuple(
            with_fields(each, when_unsatisfiable="ScheduleAnyway")
            if spread_text(each) == self.constraint
            else each
            for each in edited.pod.spec.topology_spread_constraints
        )
        return edited.with_spec(topology_spread_constraints=constraints)


class RemoveGate(Edit, frozen=True):
    """Remove a scheduling gate from the pod."""

    harm: ClassVar = 0
    sentence: ClassVar = "remove the scheduling gate {gate}"
    gate: str

    def apply(self, edited: EditedCluster) -> EditedCluster:
        gates = edited.pod.spec.scheduling_gates
        return edited.with_spec(scheduling_gates=tuple(gate for gate in gates if gate.name != self.gate))


class DeletePod(Edit, frozen=True):
    """Delete another pod."""

    harm: ClassVar = 4
    pod: str
    node: str
    preempted: bool = False
    """Whether the scheduler itself would evict it."""

    @property
    def text(self) -> str:
        return f"{'preempt' if self.preempted else 'delete'} pod {self.pod} on node {self.node}"

    def apply(self, edited: EditedCluster) -> EditedCluster:
        return replace(edited, gone=edited.gone | {self.pod})


class AddNodes(Edit, frozen=True):
    """Add nodes with the resources, taints and labels of another node."""

    harm: ClassVar = 5
    like: str
    count: int

    @property
    def text(self) -> str:
        return f"add {'a node' if self.count == 1 else f'{self.count} nodes'} of the shape of {self.like}"

    def apply(self, edited: EditedCluster) -> EditedCluster:
        model = edited.node(self.like)
        for number in range(1, self.count + 1):
            name = f"{self.like}-added-{number}"
            labels = {**model.metadata.labels}
            if HOSTNAME in labels:
                labels[HOSTNAME] = name
            metadata = with_fields(model.metadata, name=name, uid=name, labels=labels)
            spec = with_fields(model.spec, unschedulable=False, taints=permanent_taints(model.spec.taints))
            edited = edited.with_node(with_fields(model, metadata=metadata, spec=spec))
        return edited


def permanent_taints(taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    """The taints without those for a node's own problems, which a new node does not have."""
    return tuple(taint for taint in taints if not taint.key.startswith(PROBLEM_TAINTS))


def taint_text(key: str, value: str, effect: str) -> str:
    """The taint in kubectl's notation."""
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"


def selector_text(selector: LabelSelector | None) -> str:
    """`app=db, tier in (a, b)`."""
    if selector is None:
        return "no labels that could match"
    parts = [f"{key}={wanted}" for key, wanted in selector.match_labels.items()]
    parts += map(requirement_text, selector.match_expressions)
    return ", ".join(parts) or "any labels"


def requirement_text(requirement: NodeSelectorRequirement | LabelSelectorRequirement) -> str:
    values = ", ".join(requirement.values)
    match requirement.operator:
        case "In":
            return f"{requirement.key} in ({values})"
        case "NotIn":
            return f"{requirement.key} not in ({values})"
        case "Exists":
            return f"the key {requirement.key}"
        case "DoesNotExist":
            return f"no key {requirement.key}"
        case _:
            return f"{requirement.key} {requirement.operator} {values}"


def affinity_text(term: PodAffinityTerm) -> str:
    """`app=db within kubernetes.io/hostname`, with the namespaces if the term names some."""
    where = f" in namespace {' or '.join(sorted(term.namespaces))}" if term.namespaces else ""
    if term.namespace_selector is not None:
        where = f" in a namespace with {selector_text(term.namespace_selector)}"
    return f"{selector_text(term.label_selector)}{where} within {term.topology_key}"


def spread_text(constraint: TopologySpreadConstraint) -> str:
    """`app=db over topology.kubernetes.io/zone`."""
    return f"{selector_text(constraint.label_selector)} over {constraint.topology_key}"


def released_claims(
    claims: Iterable[ResourceClaim], gone: Collection[str]
) -> list[tuple[ResourceClaim, ResourceClaim]]:
    """Claims whose last pods were deleted, each before and after Kubernetes deallocates its devices."""
    found = []
    for claim in claims if gone else ():
        reserved = claim.status.reserved_for
        keys = {f"{claim.metadata.namespace}/{each.name}" for each in reserved if each.resource == "pods"}
        if keys and len(keys) == len(reserved) and keys <= set(gone):
            found.append((claim, with_fields(claim, status=ResourceClaimStatus())))
    return found
