"""What a node misses for a pod, plugin by plugin, and which changes would remedy it.

In: a pod, a node and the statuses of plugins that reject it. Out: `Shortcoming`s. For a plugin that is not in
the table, the shortcoming is the plugin's own reason.
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
    """Changes of which each may remedy it."""
    distance: float = 1.0
    """How much is missing: a share of the request, or 1 for things without an amount."""
    room_helps: bool = False
    """Whether deleting pods of the node may help."""


@dataclass(frozen=True, slots=True)
class PodNeeds:
    """What a pod needs of a node, computed once for all nodes."""

    info: PodInfo
    amounts: Mapping[str, int]
    """Requests by resource, in the units of the columns."""
    compares_taints: bool = False
    """Feature gate TaintTolerationComparisonOperators."""
    shortages: dict[tuple[str, str, int, bool], Shortcoming] = field(default_factory=dict, compare=False)
    """Cache by plugin, resource, missing amount, and whether an empty node would be large enough."""

    @property
    def pod(self) -> Pod:
        return self.info.pod


def needs_of(info: PodInfo, *, compares_taints: bool = False) -> PodNeeds:
    request = info.request
    amounts = {"cpu": request.milli_cpu, "memory": request.memory} | dict(request.scalars)
    amounts["ephemeral-storage"] = request.ephemeral_storage
    amounts = {name: amount for name, amount in amounts.items() if amount > 0}
    return PodNeeds(info, amounts, compares_taints=compares_taints)


def shortcomings(needs: PodNeeds, node: NodeRow, statuses: Iterable[Status]) -> tuple[Shortcoming, ...]:
    """Everything that the node misses, by the statuses of the plugins that reject it."""
    found: list[Shortcoming] = []
    for status in statuses:
        known = list(_BY_PLUGIN.get(status.plugin, _quoted)(needs, node, status))
        found += known or _quoted(needs, node, status)
    return tuple(found)


def _quoted(_needs: PodNeeds, _node: NodeRow, status: Status) -> Iterator[Shortcoming]:
    room_helps = status.code == Code.UNSCHEDULABLE
    for reason in status.reasons or (f"{status.plugin} rejects it",):
        yield Shortcoming(status.plugin, reason, room_helps=room_helps)


def _resources(needs: PodNeeds, node: NodeRow, status: Status) -> Iterator[Shortcoming]:
    if node.pod_count >= node.table.allowed_pods.item(node.row):
        yield Shortcoming(status.plugin, "room for one more pod", room_helps=True)
    for resource, amount in needs.amounts.items():
        allocatable = node.allocatable(resource)
        short = amount - (allocatable - node.requested(resource))
        if short <= 0 or f"Insufficient {resource}" not in status.reasons:
            continue
        # Thousands of nodes miss the same amount.
        key = status.plugin, resource, short, allocatable >= amount
        if (known := needs.shortages.get(key)) is None:
            scaled = scaled_requests(needs.pod, resource, short) if short < amount else ()
            known = needs.shortages[key] = Shortcoming(
                status.plugin,
                f"{amount_text(resource, short)} {resource} short",
                remedies=(scaled,) if scaled else (),
                distance=short / amount,
                room_helps=allocatable >= amount,
            )
        yield known


def scaled_requests(pod: Pod, resource: str, short: int) -> Remedy:
    """Lower the requests of containers by `short` together, largest first; () if that is impossible."""
    if has_pod_level_requests(pod):
        return ()
    read = milli_value if resource == "cpu" else value
    edits: list[Edit] = []
    left = short

    def requested(container: Container) -> int:
        try:
            return read(container.resources.requests.get(resource, "0"))
        except QuantityError:
            return 0

    for container in sorted(pod.spec.containers, key=requested, reverse=True):
        before = requested(container)
        less = min(left, before)
        if less <= 0:
            break
        given = container.resources.requests[resource]
        after = amount_text(resource, before - less)
        edits.append(ScaleRequest(container.name, resource, str(given), after))
        left -= less
    return tuple(edits) if left <= 0 else ()


def _taints(needs: PodNeeds, node: NodeRow, status: Status) -> Iterator[Shortcoming]:
    for taint in node.node.spec.taints:
        untolerated = find_untolerated(
            (taint,), needs.pod.spec.tolerations, comparison_operators=needs.compares_taints
        )
        if untolerated is None:
            continue
        fields = taint.key, taint.value, taint.effect
        yield Shortcoming(
            status.plugin,
            f"a toleration of the taint {taint_text(*fields)}",
            remedies=((RemoveTaint(node.name, *fields),), (Tolerate(*fields),)),
        )


def _cordoned(_needs: PodNeeds, node: NodeRow, status: Status) -> Iterator[Shortcoming]:
    yield Shortcoming(status.plugin, "being open to new pods (it is cordoned)", ((Uncordon(node.name),),))


def _labels(needs: PodNeeds, node: NodeRow, status: Status) -> Iterator[Shortcoming]:
    labels = node.labels
    for key, wanted in needs.pod.spec.node_selector.items():
        if labels.get(key) != wanted:
            yield Shortcoming(
                status.plugin,
                f"the label {key}={wanted}",
                remedies=((SetLabel(node.name, key, wanted),), (DropNodeSelector(key),)),
            )
    affinity = needs.pod.spec.affinity
    required = None
    if affinity is not None and affinity.node_affinity is not None:
        required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    if required is None:
        return
    unmet = [_unmet(term, labels) for term in required.node_selector_terms if not term.match_fields]
    # One term suffices: the one with the fewest unmet requirements is reported.
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
    """A value that meets the requirement, (None,) for no label; None if no value is known."""
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


def _ports(needs: PodNeeds, node: NodeRow, status: Status) -> Iterator[Shortcoming]:
    taken = {(port.protocol, port.port): info.key for info in node.pods for port in info.host_ports}
    for port in needs.info.host_ports:
        holder = taken.get((port.protocol, port.port))
        if holder is not None:
            yield Shortcoming(
                status.plugin,
                f"the host port {port.port}/{port.protocol}, which pod {holder} has",
                room_helps=True,
            )


def _name(needs: PodNeeds, _node: NodeRow, status: Status) -> Iterator[Shortcoming]:
    yield Shortcoming(status.plugin, f"the name {needs.pod.spec.node_name}, which the pod requests")


_BY_PLUGIN: Final[Mapping[str, Callable[[PodNeeds, NodeRow, Status], Iterator[Shortcoming]]]] = {
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
