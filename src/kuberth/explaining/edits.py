"""Single changes that may free a pod, as values: of the pod, of a node, of who else is there.

In: a `Scene`, which is a pod and a cluster as they are. Out: the scene as it would be. A proposal is made of
edits; whoever tries one, and whoever checks it later, applies the very same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Protocol

from msgspec.structs import replace as with_fields

from kuberth.api.core import Container, Node, Pod, Taint, Toleration
from kuberth.informers.store import object_key

HOSTNAME: Final = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class Scene:
    """A pod and its cluster, with the changes made so far."""

    pod: Pod
    present: Callable[[str], Node | None]
    """The node of a name, as it is in the cluster."""
    nodes: Mapping[str, Node] = field(default_factory=dict)
    """Nodes that are new or another version."""
    gone: frozenset[str] = frozenset()
    """namespace/name of pods that were deleted."""

    def node(self, name: str) -> Node:
        found = self.nodes.get(name) or self.present(name)
        if found is None:
            raise KeyError(name)
        return found

    def with_node(self, node: Node) -> Scene:
        return replace(self, nodes={**self.nodes, node.metadata.name: node})

    def with_spec(self, **fields: Any) -> Scene:
        return replace(self, pod=with_fields(self.pod, spec=with_fields(self.pod.spec, **fields)))


class Edit(Protocol):
    """One change. Its fields are what a program is told of it, `text` what a person is."""

    @property
    def kind(self) -> str:
        """What it is called in JSON."""
        ...

    @property
    def text(self) -> str: ...

    def apply(self, scene: Scene) -> Scene: ...


@dataclass(frozen=True, slots=True)
class ScaleRequest:
    """Have a container of the pod ask for less."""

    kind: ClassVar[str] = "ScaleRequest"
    container: str
    resource: str
    before: str
    after: str

    @property
    def text(self) -> str:
        return (
            f"scale the {self.resource} request of container {self.container} "
            f"from {self.before} to {self.after}"
        )

    def apply(self, scene: Scene) -> Scene:
        spec = scene.pod.spec
        return scene.with_spec(
            containers=tuple(map(self._scaled, spec.containers)),
            init_containers=tuple(map(self._scaled, spec.init_containers)),
        )

    def _scaled(self, container: Container) -> Container:
        if container.name != self.container:
            return container
        resources = container.resources
        requests = {**resources.requests, self.resource: self.after}
        limits = resources.limits
        # Resources that cannot be overcommitted need limits equal to their requests.
        if limits.get(self.resource) == self.before and "/" in self.resource:
            limits = {**limits, self.resource: self.after}
        return with_fields(container, resources=with_fields(resources, requests=requests, limits=limits))


@dataclass(frozen=True, slots=True)
class Tolerate:
    """Have the pod tolerate a taint."""

    kind: ClassVar[str] = "Tolerate"
    key: str
    value: str
    effect: str

    @property
    def text(self) -> str:
        return f"add a toleration of {taint_text(self.key, self.value, self.effect)} to the pod"

    def apply(self, scene: Scene) -> Scene:
        added = Toleration(key=self.key, operator="Equal", value=self.value, effect=self.effect)
        return scene.with_spec(tolerations=(*scene.pod.spec.tolerations, added))


@dataclass(frozen=True, slots=True)
class RemoveTaint:
    """Take a taint from a node."""

    kind: ClassVar[str] = "RemoveTaint"
    node: str
    key: str
    value: str
    effect: str

    @property
    def text(self) -> str:
        return f"remove the taint {taint_text(self.key, self.value, self.effect)} from node {self.node}"

    def apply(self, scene: Scene) -> Scene:
        node = scene.node(self.node)
        left = tuple(taint for taint in node.spec.taints if not self._is(taint))
        return scene.with_node(with_fields(node, spec=with_fields(node.spec, taints=left)))

    def _is(self, taint: Taint) -> bool:
        return (taint.key, taint.value, taint.effect) == (self.key, self.value, self.effect)


@dataclass(frozen=True, slots=True)
class Uncordon:
    """Open a node to new pods."""

    kind: ClassVar[str] = "Uncordon"
    node: str

    @property
    def text(self) -> str:
        return f"uncordon node {self.node}"

    def apply(self, scene: Scene) -> Scene:
        node = scene.node(self.node)
        return scene.with_node(with_fields(node, spec=with_fields(node.spec, unschedulable=False)))


@dataclass(frozen=True, slots=True)
class SetLabel:
    """Give a node a label, or take it away with None."""

    kind: ClassVar[str] = "SetLabel"
    node: str
    key: str
    value: str | None

    @property
    def text(self) -> str:
        if self.value is None:
            return f"remove the label {self.key} from node {self.node}"
        return f"label node {self.node} with {self.key}={self.value}"

    def apply(self, scene: Scene) -> Scene:
        node = scene.node(self.node)
        labels = {key: value for key, value in node.metadata.labels.items() if key != self.key}
        if self.value is not None:
            labels[self.key] = self.value
        return scene.with_node(with_fields(node, metadata=with_fields(node.metadata, labels=labels)))


@dataclass(frozen=True, slots=True)
class DropNodeSelector:
    """Have the pod not insist on a label of its node."""

    kind: ClassVar[str] = "DropNodeSelector"
    key: str

    @property
    def text(self) -> str:
        return f"drop {self.key} from the pod's nodeSelector"

    def apply(self, scene: Scene) -> Scene:
        selector = scene.pod.spec.node_selector
        return scene.with_spec(node_selector={key: selector[key] for key in selector if key != self.key})


@dataclass(frozen=True, slots=True)
class RemoveGate:
    """Take a scheduling gate from the pod."""

    kind: ClassVar[str] = "RemoveGate"
    gate: str

    @property
    def text(self) -> str:
        return f"remove the scheduling gate {self.gate}"

    def apply(self, scene: Scene) -> Scene:
        gates = scene.pod.spec.scheduling_gates
        return scene.with_spec(scheduling_gates=tuple(gate for gate in gates if gate.name != self.gate))


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete another pod."""

    kind: ClassVar[str] = "DeletePod"
    pod: str
    node: str
    preempted: bool = False
    """Whether the scheduler itself would evict it."""

    @property
    def text(self) -> str:
        return f"{'preempt' if self.preempted else 'delete'} pod {self.pod} on node {self.node}"

    def apply(self, scene: Scene) -> Scene:
        return replace(scene, gone=scene.gone | {self.pod})


@dataclass(frozen=True, slots=True)
class AddNodes:
    """Add nodes that offer, wear and are labelled with what another does."""

    kind: ClassVar[str] = "AddNodes"
    like: str
    count: int

    @property
    def text(self) -> str:
        return f"add {'a node' if self.count == 1 else f'{self.count} nodes'} of the shape of {self.like}"

    def apply(self, scene: Scene) -> Scene:
        model = scene.node(self.like)
        for number in range(1, self.count + 1):
            name = f"{self.like}-added-{number}"
            labels = {**model.metadata.labels}
            if HOSTNAME in labels:
                labels[HOSTNAME] = name
            metadata = with_fields(model.metadata, name=name, uid=name, labels=labels)
            spec = with_fields(model.spec, unschedulable=False, taints=_lasting(model.spec.taints))
            scene = scene.with_node(with_fields(model, metadata=metadata, spec=spec))
        return scene


def _lasting(taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    """A node's troubles are its own; a new one of its kind starts without them."""
    return tuple(taint for taint in taints if not taint.key.startswith("node.kubernetes.io/"))


def taint_text(key: str, value: str, effect: str) -> str:
    """As kubectl writes it."""
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"


def applied(scene: Scene, objects: list[Any]) -> tuple[Pod, list[Any]]:
    """The pod and all objects of its cluster, as the scene has them."""
    kept = [
        obj
        for obj in objects
        if not (isinstance(obj, Node) and obj.metadata.name in scene.nodes)
        and not (isinstance(obj, Pod) and object_key(obj) in scene.gone)
    ]
    return scene.pod, [*kept, *scene.nodes.values()]
