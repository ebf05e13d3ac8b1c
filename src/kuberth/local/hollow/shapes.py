"""Creates hollow nodes from a number or a file of shapes.

In: a number of nodes, or a file of shapes. Out: Node objects to create. A shape has a number of nodes, their
names, labels, taints and capacity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec.structs import force_setattr, replace

from kuberth.api import quantity
from kuberth.errors import ConfigError, QuantityError
from kuberth.local.apiserver.objects import Obj
from kuberth.text.decoding import decode_tree
from kuberth.text.documents import read_file

HOLLOW: Final = "kuberth.dev/hollow"
"""The annotation of hollow nodes; set it on any Node to make it hollow."""
VERSION: Final = "v1.36.4+hollow"

_CAPACITY: Final = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}
_TEXTS: Final = ("labels", "annotations", "capacity", "allocatable")
"""Fields whose values are text, also where YAML reads a number."""


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A number of identical nodes."""

    name: str = "node"
    """Prefix of their names; `-1`, `-2` and so on follow."""
    count: Annotated[int, msgspec.Meta(ge=0)] = 1
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    taints: tuple[dict[str, Any], ...] = ()
    capacity: dict[str, str] = {}
    """What differs from the default capacity."""
    allocatable: dict[str, str] | None = None
    """The allocatable resources of a node that differ from the capacity; None: all of the capacity."""
    zones: tuple[str, ...] = ("a", "b", "c")
    """Zones that the nodes are assigned to in turn; empty: no zone label."""

    def __post_init__(self) -> None:
        check_amounts(self.capacity, "capacity")
        check_amounts(self.allocatable or {}, "allocatable")
        capacity = _CAPACITY | (self.capacity or self.allocatable or {})
        force_setattr(self, "capacity", capacity)
        force_setattr(self, "allocatable", capacity | (self.allocatable or {}))


def check_amounts(amounts: Mapping[str, Any], field: str) -> None:
    """Raise ValueError, naming the field and the resource, for an amount that no node can have."""
    for resource, amount in amounts.items():
        try:
            parsed = quantity.parse(amount)
        except QuantityError as error:
            raise ValueError(f"{field}.{resource}: {error}") from error
        if parsed.mantissa < 0:
            raise ValueError(f"{field}.{resource}: must not be negative, got {amount}")


def load_shapes(source: Path | Sequence[Mapping[str, Any]] | None, *, count: int) -> list[Shape]:
    """The shapes of a file or list; `count` nodes of the default shape without one.

    Shapes without a count share the rest of `count` evenly.
    """
    if source is None:
        return [Shape(count=count)] if count else []
    where = str(source) if isinstance(source, Path) else "shapes"
    tree = read_file(source, "node shapes") if isinstance(source, Path) else source
    if isinstance(tree, Mapping) and isinstance(tree.get("nodes"), list):
        tree = tree["nodes"]
    if not isinstance(tree, Sequence) or isinstance(tree, str):
        raise ConfigError(f"{where}: expected a list of node shapes")
    shapes = decode_tree([_with_texts(entry) for entry in tree], list[Shape], source=where, path="shape")
    names = [shape.name for shape in shapes]
    if doubled := {name for name in names if names.count(name) > 1}:
        raise ConfigError(f"{where}: more than one shape is called {', '.join(sorted(doubled))}")
    return _with_counts(shapes, ["count" in entry for entry in tree], count)


def _with_texts(entry: Any) -> Any:
    if not isinstance(entry, Mapping):
        return entry
    maps = {name: entry[name] for name in _TEXTS if isinstance(entry.get(name), Mapping)}
    return {**entry, **{name: {key: str(value) for key, value in maps[name].items()} for name in maps}}


def make_nodes(shapes: Sequence[Shape], *, now: str) -> Iterator[Obj]:
    """A Node for each, Ready, with unique addresses."""
    number = 0
    for shape in shapes:
        for index in range(shape.count):
            yield _node(shape, index, address=node_address(number), now=now)
            number += 1


def node_address(number: int) -> str:
    """An address of 172.16.0.0/12, which has a million."""
    return address(172 << 24 | 16 << 16, number)


def address(net: int, number: int) -> str:
    """The `number`-th address after the first of a network, dotted."""
    value = net + number + 1
    return ".".join(str(value >> shift & 255) for shift in (24, 16, 8, 0))


def reported_conditions(now: str, *, ready: bool = True) -> list[Obj]:
    """The conditions of a healthy node, or of one that is only not ready."""
    return [
        {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        for type_, status, reason, message in (*_NO_PRESSURE, _READY if ready else _NOT_READY)
    ]


_NO_PRESSURE: Final = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)
_READY: Final = ("Ready", "True", "KubeletReady", "kubelet is posting ready status (hollow: it runs nothing)")
_NOT_READY: Final = ("Ready", "False", "KubeletNotReady", "the node's annotation kuberth.dev/ready is false")


def _node(shape: Shape, index: int, *, address: str, now: str) -> Obj:
    name = f"{shape.name}-{index + 1}"
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": f"hollow.{shape.name}",
    }
    if shape.zones:
        labels["topology.kubernetes.io/region"] = "hollow"
        labels["topology.kubernetes.io/zone"] = shape.zones[index % len(shape.zones)]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**labels, **shape.labels},
            "annotations": {HOLLOW: "true", **shape.annotations},
        },
        "spec": {
            "providerID": f"kuberth://hollow/{name}",
            **({"taints": [dict(taint) for taint in shape.taints]} if shape.taints else {}),
        },
        "status": node_status(shape.capacity, shape.allocatable, name=name, address=address, now=now),
    }


def node_status(
    capacity: Mapping[str, str], allocatable: Mapping[str, str] | None, *, name: str, address: str, now: str
) -> Obj:
    return {
        "capacity": dict(capacity),
        "allocatable": dict(capacity if allocatable is None else allocatable),
        "conditions": reported_conditions(now),
        "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": "",
            "systemUUID": "",
            "bootID": "",
            "kernelVersion": "hollow",
            "osImage": "Hollow Linux",
            "containerRuntimeVersion": "hollow://1.0",
            "kubeletVersion": VERSION,
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
    }


def default_capacity() -> dict[str, str]:
    return dict(_CAPACITY)


def _with_counts(shapes: list[Shape], counted: list[bool], count: int) -> list[Shape]:
    open_ = counted.count(False)
    left = max(0, count - sum(shape.count for shape, own in zip(shapes, counted, strict=True) if own))
    shared = []
    for shape, own in zip(shapes, counted, strict=True):
        if own:
            shared.append(shape)
        else:
            part = -(-left // open_)
            shared.append(replace(shape, count=part))
            left, open_ = left - part, open_ - 1
    return shared
