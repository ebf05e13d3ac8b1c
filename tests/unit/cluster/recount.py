"""What a cluster table must say, counted afresh from the nodes and pods that are left.

In: nodes and placed pods. Out: a picture per node name, to be compared with the picture that a table's
columns give.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kuberth.api.core import Node, Taint
from kuberth.api.quantity import milli_value, value
from kuberth.cluster.pod_info import PodInfo, PodMatcher
from kuberth.cluster.table import ClusterTable
from kuberth.cluster.terms import Carried, Tally, carried_terms

Picture = dict[str, dict[str, Any]]

LABEL_KEYS = ("zone", "disk", "topology.kubernetes.io/zone", "kubernetes.io/hostname")
IMAGES = ("busybox", "nginx")
PORTS = (("TCP", 80), ("UDP", 80), ("TCP", 443))
PRIORITIES = (-5, 0, 1, 10)


def picture_of(table: ClusterTable) -> Picture:
    """What the columns say of every live row."""
    slots = table.slots
    live = table.live.tolist()
    allocatable, requested = table.allocatable.tolist(), table.requested.tolist()
    nonzero = table.nonzero_requested.tolist()
    allowed, counts, cordoned = (
        table.allowed_pods.tolist(),
        table.pod_count.tolist(),
        table.unschedulable.tolist(),
    )
    labels = {key: table.label_column(key) for key in LABEL_KEYS}
    images = {name: table.image_column(name) for name in IMAGES}
    below = {priority: table.rows_with_priority_below(priority).tolist() for priority in PRIORITIES}
    picture: Picture = {}
    for row in range(slots):
        if not live[row]:
            assert table.names[row] == ""
            continue
        picture[table.names[row]] = {
            "allocatable": {
                name: allocatable[index][row]
                for name, index in table.resources.items()
                if allocatable[index][row]
            },
            "requested": {
                name: requested[index][row]
                for name, index in table.resources.items()
                if requested[index][row]
            },
            "nonzero": (nonzero[0][row], nonzero[1][row]),
            "allowed": allowed[row],
            "count": counts[row],
            "unschedulable": cordoned[row],
            "taints": table.taints.values[table.taints.ids[row]],
            "features": table.declared_features.values[table.declared_features.ids[row]],
            "labels": {key: column.values[column.ids[row]] for key, column in labels.items()},
            "images": {
                name: int(column.size_bytes[row]) if column.present[row] else None
                for name, column in images.items()
            },
            "pods": {info.uid: info for info in table.pods_at(row)},
            "ports": {
                (protocol, port, address): users[row]
                for protocol, port in PORTS
                for address, users in table.port_users(protocol, port).items()
                if users[row]
            },
            "claims": {claim: users[row] for claim, users in table.claims.items() if users[row]},
            "device claims": {key: users[row] for key, users in table.device_claims.items() if users[row]},
            "disks": {disk: users[row] for disk, users in table.disks.items() if users[row]},
            "below": {priority: rows[row] for priority, rows in below.items()},
        }
    return picture


def expected_picture(nodes: Mapping[str, Node], pods: Iterable[PodInfo]) -> Picture:
    """What they must say."""
    at: dict[str, list[PodInfo]] = {name: [] for name in nodes}
    for info in pods:
        if info.node_name in at:
            at[info.node_name].append(info)
    counted = {"cpu", "memory", "ephemeral-storage"}
    for node in nodes.values():
        counted |= {name for name, amount in _offered(node).items() if amount}
    return {name: _expected(node, at[name], counted) for name, node in nodes.items()}


def _offered(node: Node) -> dict[str, int]:
    return {
        name: milli_value(quantity) if name == "cpu" else value(quantity)
        for name, quantity in node.status.allocatable.items()
    }


def _expected(node: Node, pods: Sequence[PodInfo], counted: set[str]) -> dict[str, Any]:
    """`counted` are the resources that some node offers; others are not counted."""
    offered = _offered(node)
    allowed = offered.pop("pods", 0)
    requested: Counter[str] = Counter()
    for info in pods:
        requested["cpu"] += info.request.milli_cpu
        requested["memory"] += info.request.memory
        requested["ephemeral-storage"] += info.request.ephemeral_storage
        requested.update(info.request.scalars)
    return {
        "allocatable": {name: amount for name, amount in offered.items() if amount},
        "requested": {name: amount for name, amount in requested.items() if amount and name in counted},
        "nonzero": (
            sum(info.request.nonzero_milli_cpu for info in pods),
            sum(info.request.nonzero_memory for info in pods),
        ),
        "allowed": allowed,
        "count": len(pods),
        "unschedulable": node.spec.unschedulable,
        "taints": tuple(
            Taint(key=taint.key, value=taint.value, effect=taint.effect) for taint in node.spec.taints
        ),
        "features": frozenset(node.status.declared_features),
        "labels": {key: node.metadata.labels.get(key) for key in LABEL_KEYS},
        "images": {
            name: next((image.size_bytes for image in node.status.images if name in image.names), None)
            for name in IMAGES
        },
        "pods": {info.uid: info for info in pods},
        "ports": dict(
            Counter((port.protocol, port.port, port.ip) for info in pods for port in info.host_ports)
        ),
        "claims": dict(Counter(claim for info in pods for claim in info.volume_claims)),
        "device claims": dict(Counter(claim for info in pods for claim in info.device_claims)),
        "disks": dict(Counter(disk for info in pods for disk in info.disks)),
        "below": {priority: any(info.priority < priority for info in pods) for priority in PRIORITIES},
    }


def gaps_are_empty(table: ClusterTable) -> None:
    """Rows without a node, and the room beyond, hold nothing."""
    for column in (
        table.allocatable,
        table.requested,
        table.nonzero_requested,
        table.allowed_pods,
        table.pod_count,
        table.unschedulable,
        table.taints.ids,
        table.declared_features.ids,
        *(table.label_column(key).ids for key in LABEL_KEYS),
        *(table.image_column(name).present for name in IMAGES),
        *(table.image_column(name).size_bytes for name in IMAGES),
    ):
        assert column.shape[-1] == len(table.live)
        assert not column[..., ~table.live].any()


def tally_by_name(table: ClusterTable, tally: Tally) -> dict[str, int]:
    return {table.names[row]: tally.counts[row] for row in tally.counts.rows().tolist()}


def tally_by_domain(table: ClusterTable, tally: Tally, key: str) -> dict[str | None, int]:
    label = table.label_column(key)
    sums = tally.by_domain(label).tolist()
    return {value: number for value, number in zip(label.values, sums, strict=True) if number}


def expected_tally(
    picture: Picture, matcher: PodMatcher, namespaces: Mapping[str, Mapping[str, str]]
) -> dict[str, int]:
    """Pods per node that the matcher speaks of."""
    counts = {
        name: sum(
            matcher.matches(info.namespace, info.labels, namespaces.get(info.namespace, {}))
            for info in of_node["pods"].values()
        )
        for name, of_node in picture.items()
    }
    return {name: number for name, number in counts.items() if number}


def summed_by_domain(picture: Picture, counts: Mapping[str, int], key: str) -> dict[str | None, int]:
    sums: Counter[str | None] = Counter()
    for name, number in counts.items():
        sums[picture[name]["labels"][key]] += number
    return dict(sums)


def carried_by_name(table: ClusterTable) -> dict[Any, dict[str, int]]:
    return {
        carried: tally_by_name(table, tally)
        for role in Carried
        for carried, tally in table.terms.carried(role).items()
    }


def expected_carried(picture: Picture) -> dict[Any, dict[str, int]]:
    found: dict[Any, Counter[str]] = {}
    for name, of_node in picture.items():
        for info in of_node["pods"].values():
            for carried in carried_terms(info):
                found.setdefault(carried, Counter())[name] += 1
    return {carried: dict(names) for carried, names in found.items()}
