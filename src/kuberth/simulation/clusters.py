"""Reads the cluster of a simulation.

In: a file of nodes (manifests, shapes as `kuberth up` takes them, or a snapshot), or a number of nodes and a
shape. Out: nodes and other objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from kuberth.api.core import Node
from kuberth.api.kinds import REGISTRY
from kuberth.api.wire import convert
from kuberth.errors import ConfigError, WireError
from kuberth.explaining.targets import WORKLOADS
from kuberth.local.hollow.shapes import check_amounts, load_shapes, make_nodes
from kuberth.local.manifests import Manifest, read_manifests
from kuberth.simulation.snapshots import is_snapshot, read_snapshot
from kuberth.text.documents import read_tree
from kuberth.text.field_errors import InvalidConfiguration
from kuberth.text.figures import count

BEGINNING: Final = "1970-01-01T00:00:00Z"
"""The start of virtual time."""


MANAGED: Final = frozenset(
    {(each.api_version, kind) for kind, each in WORKLOADS.items()} | {("policy/v1", "PodDisruptionBudget")}
)
"""Kinds on which controllers act; a cluster without such objects needs no controllers."""


class ClusterState(NamedTuple):
    """The cluster before the first arrival."""

    nodes: Sequence[Node]
    objects: Sequence[Any] = ()
    managed: Sequence[Manifest] = ()
    """Objects that controllers act on."""

    def __repr__(self) -> str:
        return f"<ClusterState: {count(len(self.nodes), 'node')}>"


def read_cluster(path: Path | str) -> ClusterState:
    """Read the cluster from a file: a snapshot, node shapes, or manifests."""
    path = Path(path)
    if is_snapshot(path):
        trees = [
            Manifest(tree, f"{path}: item {number}") for number, tree in enumerate(read_snapshot(path), 1)
        ]
        # Its pods were created by its controllers, which do not run here.
        return from_manifests(trees, managed=False)
    if path.suffix in (".yaml", ".yml", ".json") and holds_shapes(path):
        return from_shapes(path, count=0)
    return from_manifests(read_manifests(path))


def from_shapes(source: Path | Sequence[Any] | None, *, count: int) -> ClusterState:
    """Nodes of these shapes; `count` is divided among shapes without a number."""
    shapes = load_shapes(source, count=count)
    nodes = [convert(Node, tree) for tree in make_nodes(shapes, now=BEGINNING)]
    if not nodes:
        raise ConfigError("there are no nodes; give every shape a count, or use --nodes")
    return ClusterState(nodes)


def nodes_of(
    count: int = 0, shape: Mapping[str, Any] | None = None, *, shapes: Sequence[Mapping[str, Any]] = ()
) -> ClusterState:
    """A cluster of `count` nodes of a shape (by default 8 CPUs and 32 GiB), or of several shapes.

    A shape has the format of node shape files: `{"capacity": {"cpu": "64", "memory": "256Gi"}}`.
    """
    if shapes:
        return from_shapes(shapes, count=count)
    return from_shapes(None if shape is None else [{"name": "node", **shape}], count=count)


def shape_of(text: str) -> dict[str, Any]:
    """A shape as written on a command line: `cpu=64,memory=256Gi,nvidia.com/gpu=8`."""
    capacity: dict[str, str] = {}
    for part in text.split(","):
        name, equals, amount = part.strip().partition("=")
        if not equals or not name or not amount:
            raise ConfigError(f"--shape is RESOURCE=AMOUNT,..., such as cpu=64,memory=256Gi; got {part!r}")
        capacity[name] = amount
    return {"capacity": capacity}


def from_manifests(manifests: Iterable[Manifest], *, managed: bool = True) -> ClusterState:
    """Without `managed`, objects that controllers act on are not separated."""
    nodes: list[Node] = []
    objects: list[Any] = []
    for_controllers: list[Manifest] = []
    for manifest in manifests:
        if managed and is_managed(manifest):
            for_controllers.append(manifest)
            continue
        obj = as_object(manifest)
        if isinstance(obj, Node):
            node = _with_allocatable(obj)
            try:
                check_amounts(node.status.allocatable, "status.allocatable")
            except ValueError as error:
                raise ConfigError(f"{manifest}: {error}") from error
            nodes.append(node)
        else:
            objects.append(obj)
    if not nodes:
        raise ConfigError("the cluster has no nodes")
    return ClusterState(nodes, objects, for_controllers)


def is_managed(manifest: Manifest) -> bool:
    """Whether controllers act on it; ConfigError if it has no name."""
    tree = manifest.tree
    if (tree.get("apiVersion"), tree["kind"]) not in MANAGED:
        return False
    metadata = tree.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        raise ConfigError(f"{manifest}: an object needs a name")
    return True


def as_object(manifest: Manifest) -> Any:
    """The typed object of a manifest; ConfigError for a kind that a scheduler does not read."""
    tree = manifest.tree
    group, _, version = str(tree.get("apiVersion", "")).rpartition("/")
    info = REGISTRY.find(group, version, str(tree.get("kind", "")))
    if info is None:
        known = ", ".join(sorted(kind for _, kind in MANAGED))
        raise ConfigError(
            f"{manifest}: a simulation knows the kinds that a scheduler reads, and {known}; "
            "for anything else, name the pods themselves"
        )
    try:
        obj = convert(info.type, tree)
    except WireError as error:
        raise ConfigError(f"{manifest}: {error}") from error
    if not obj.metadata.name:
        raise ConfigError(f"{manifest}: an object needs a name")
    # `kubectl get -o yaml` prints it, and it may not be set on creation.
    metadata = msgspec.structs.replace(obj.metadata, resource_version="")
    return msgspec.structs.replace(obj, metadata=metadata)


def _with_allocatable(node: Node) -> Node:
    """Add defaults to a node: its whole capacity is allocatable."""
    if node.status.allocatable:
        return node
    status = msgspec.structs.replace(node.status, allocatable=node.status.capacity)
    return msgspec.structs.replace(node, status=status)


def holds_shapes(path: Path) -> bool:
    """Whether a file has node shapes, instead of objects or a scheduler configuration."""
    try:
        tree, _errors = read_tree(path.read_bytes())
    except (OSError, InvalidConfiguration):
        return False
    return isinstance(tree, list) or (isinstance(tree, dict) and "nodes" in tree and "kind" not in tree)
