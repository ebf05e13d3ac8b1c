"""What exactly a node misses for a pod, plugin by plugin, and which changes would make up for it.

In: a pod, a node and what a plugin has against it. Out: `Shortcoming`s. A plugin that this table does not
know is quoted with its own reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from kuberth.api.core import Container, NodeSelector, NodeSelectorTerm, Pod
from kuberth.api.nodes import NodeSelectorRequirement
from kuberth.api.pod_resources import has_pod_level_requests
from kuberth.api.quantity import Quantity, QuantityFormat, format_quantity, milli_value, value
from kuberth.api.selectors import CompiledNodeSelector, compile_node_selector
from kuberth.api.selectors.labels import parse_int64
from kuberth.api.taints import find_untolerated
from kuberth.cluster.nodes import NodeRow
from kuberth.cluster.pod_info import PodInfo
from kuberth.errors import QuantityError
from kuberth.explaining.edits import (
    DropNodeSelector,
    Edit,
    RemoveTaint,
    ScaleRequest,
    SetLabel,
    Tolerate,
    Uncordon,
    taint_text,
)
from kuberth.framework.status import Code, Status

Remedy = tuple[Edit, ...]

_BYTES: Final = ("memory", "ephemeral-storage", "hugepages-")


@dataclass(frozen=True, slots=True)
class Shortcoming:
    """One thing that a node misses."""

    plugin: str
    text: str
    remedies: tuple[Remedy, ...] = ()
    """Changes that may make up for it, each on its own."""
    distance: float = 1.0
    """How far the node is off: a share of what is asked for, or 1 for what is there or not."""
    room_helps: bool = False
    """Whether it may help that pods leave the node."""


@dataclass(frozen=True, slots=True)
class Suit:
    """A pod that asks, with what is derived from it once for all nodes."""

    info: PodInfo
    amounts: Mapping[str, int]
    """What it asks for by resource, in the units of the columns."""
    compares_taints: bool = False
    """Feature gate TaintTolerationComparisonOperators."""
    shortages: dict[tuple[str, str, int, bool], Shortcoming] = field(default_factory=dict, compare=False)
    """By plugin, resource, amount, and whether the node would be large enough: what was found already."""

    @property
    def pod(self) -> Pod:
        return self.info.pod


def suit(info: PodInfo, *, compares_taints: bool = False) -> Suit:
    request = info.request
    amounts = {"cpu": request.milli_cpu, "memory": request.memory} | dict(request.scalars)
    amounts["ephemeral-storage"] = request.ephemeral_storage
    amounts = {name: amount for name, amount in amounts.items() if amount > 0}
    return Suit(info, amounts, compares_taints=compares_taints)


def shortcomings(asks: Suit, node: NodeRow, statuses: Iterable[Status]) -> tuple[Shortcoming, ...]:
    """All that the node misses, by what plugins have against it."""
    found: list[Shortcoming] = []
    for status in statuses:
        known = list(_BY_PLUGIN.get(status.plugin, _quoted)(asks, node, status))
        found += known or _quoted(asks, node, status)
    return tuple(found)


def _quoted(_asks: Suit, _node: NodeRow, status: Status) -> Iterator[Shortcoming]:
    room_helps = status.code == Code.UNSCHEDULABLE
    for reason in status.reasons or (f"{status.plugin} rejects it",):
        yield Shortcoming(status.plugin, reason, room_helps=room_helps)


def _resources(asks: Suit, node: NodeRow, status: Status) -> Iterator[Shortcoming]:
    if node.pod_count >= node.table.allowed_pods.item(node.row):
        yield Shortcoming(status.plugin, "room for one more pod", room_helps=True)
    for resource, amount in asks.amounts.items():
        allocatable = node.allocatable(resource)
        short = amount - (allocatable - node.requested(resource))
        if short <= 0 or f"Insufficient {resource}" not in status.reasons:
            continue
        # Thousands of nodes are short of the same.
        key = status.plugin, resource, short, allocatable >= amount
        if (known := asks.shortages.get(key)) is None:
            scaled = scaled_requests(asks.pod, resource, short) if short < amount else ()
            known = asks.shortages[key] = Shortcoming(
                status.plugin,
                f"{amount_text(resource, short)} {resource} short",
                remedies=(scaled,) if scaled else (),
                distance=short / amount,
                room_helps=allocatable >= amount,
            )
        yield known


def scaled_requests(pod: Pod, resource: str, short: int) -> Remedy:
    """Containers that ask for so much less together, the largest first; () if they cannot."""
    if has_pod_level_requests(pod):
        return ()
    read = milli_value if resource == "cpu" else value
    edits: list[Edit] = []
    left = short

    def asked(container: Container) -> int:
        try:
            return read(container.resources.requests.get(resource, "0"))
        except QuantityError:
            return 0

    for container in sorted(pod.spec.containers, key=asked, reverse=True):
        before = asked(container)
        less = min(left, before)
        if less <= 0:
            break
        given = container.resources.requests[resource]
        after = amount_text(resource, before - less)
        edits.append(ScaleRequest(container.name, resource, str(given), after))
        left -= less
    return tuple(edits) if left <= 0 else ()


def _taints(asks: Suit, node: NodeRow, status: Status) -> Iterator[Shortcoming]:
    for taint in node.node.spec.taints:
        untolerated = find_untolerated(
            (taint,), asks.pod.spec.tolerations, comparison_operators=asks.compares_taints
        )
        if untolerated is None:
            continue
        fields = taint.key, taint.value, taint.effect
        yield Shortcoming(
            status.plugin,
            f"a toleration of the taint {taint_text(*fields)}",
            remedies=((RemoveTaint(node.name, *fields),), (Tolerate(*fields),)),
        )


def _cordoned(_asks: Suit, node: NodeRow, status: Status) -> Iterator[Shortcoming]:
    yield Shortcoming(status.plugin, "being open to new pods (it is cordoned)", ((Uncordon(node.name),),))


def _labels(asks: Suit, node: NodeRow, status: Status) -> Iterator[Shortcoming]:
    labels = node.labels
    for key, wanted in asks.pod.spec.node_selector.items():
        if labels.get(key) != wanted:
            yield Shortcoming(
                status.plugin,
                f"the label {key}={wanted}",
                remedies=((SetLabel(node.name, key, wanted),), (DropNodeSelector(key),)),
            )
    affinity = asks.pod.spec.affinity
    required = None
    if affinity is not None and affinity.node_affinity is not None:
        required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    if required is None:
        return
    unmet = [_unmet(term, labels) for term in required.node_selector_terms if not term.match_fields]
    # Any one term suffices: the nearest is what the node is told to miss.
    for requirement in min(unmet, key=len, default=()):
        found = _satisfying(requirement)
        yield Shortcoming(
            status.plugin,
            f"a label with {_requirement_text(requirement)}",
            remedies=() if found is None else ((SetLabel(node.name, requirement.key, found[0]),),),
        )


def _unmet(term: NodeSelectorTerm, labels: Mapping[str, str]) -> Sequence[NodeSelectorRequirement]:
    return [
        each
        for each in term.match_expressions
        if not any(one.matches(labels, "") for one in _compiled(each).terms)
    ]


@lru_cache(maxsize=1024)
def _compiled(requirement: NodeSelectorRequirement) -> CompiledNodeSelector:
    term = NodeSelectorTerm(match_expressions=(requirement,))
    return compile_node_selector(NodeSelector(node_selector_terms=(term,)))


def _satisfying(requirement: NodeSelectorRequirement) -> tuple[str | None] | None:
    """A value of the label that would do, None in it for no label at all; None: nobody can tell."""
    match requirement.operator:
        case "In" if requirement.values:
            return (requirement.values[0],)
        case "Exists":
            return ("true",)
        case "NotIn" | "DoesNotExist":
            return (None,)
        case "Gt" | "Lt" if len(requirement.values) == 1:
            bound = parse_int64(requirement.values[0])
            if bound is None:
                return None
            return (str(bound + 1 if requirement.operator == "Gt" else bound - 1),)
        case _:
            return None


def _requirement_text(requirement: NodeSelectorRequirement) -> str:
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


def _ports(asks: Suit, node: NodeRow, status: Status) -> Iterator[Shortcoming]:
    taken = {(port.protocol, port.port): info.key for info in node.pods for port in info.host_ports}
    for port in asks.info.host_ports:
        holder = taken.get((port.protocol, port.port))
        if holder is not None:
            yield Shortcoming(
                status.plugin,
                f"the host port {port.port}/{port.protocol}, which pod {holder} has",
                room_helps=True,
            )


def _name(asks: Suit, _node: NodeRow, status: Status) -> Iterator[Shortcoming]:
    yield Shortcoming(status.plugin, f"the name {asks.pod.spec.node_name}, which the pod asks for")


_BY_PLUGIN: Final[Mapping[str, Callable[[Suit, NodeRow, Status], Iterator[Shortcoming]]]] = {
    "NodeResourcesFit": _resources,
    "TaintToleration": _taints,
    "NodeUnschedulable": _cordoned,
    "NodeAffinity": _labels,
    "NodePorts": _ports,
    "NodeName": _name,
}


def amount_text(resource: str, amount: int) -> str:
    """An amount as Kubernetes writes it: milli-CPU, bytes in powers of two, units."""
    if resource == "cpu":
        return format_quantity(Quantity(amount, -3))
    if resource.startswith(_BYTES):
        return format_quantity(Quantity(amount, 0, QuantityFormat.BINARY_SI))
    return str(amount)
