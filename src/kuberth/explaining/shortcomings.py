"""What a node lacks for a pod, plugin by plugin, and which changes would fix it.

In: a pod, a node and the statuses of plugins that reject it. Out: `Shortcoming`s. For a plugin that is not in
the table, the shortcoming is the plugin's own reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec.structs import replace as with_fields

from kuberth.api.core import Container, NodeSelector, NodeSelectorTerm, Taint
from kuberth.api.nodes import NodeSelectorRequirement
from kuberth.api.pod_resources import PODS, is_pod_level_resource
from kuberth.api.quantity import Quantity, QuantityFormat, format_quantity, milli_value, value
from kuberth.api.selectors import CompiledNodeSelector, compile_node_selector, required_node_selector
from kuberth.api.selectors.labels import parse_int64
from kuberth.api.taints import find_untolerated
from kuberth.cluster.nodes import NodeRow
from kuberth.cluster.pod_info import PodInfo
from kuberth.errors import QuantityError
from kuberth.explaining.devices import DeviceShortage
from kuberth.explaining.edits import (
    CORDON_TAINT,
    PROBLEM_TAINTS,
    DeletePod,
    DropNodeAffinity,
    DropNodeSelector,
    Edit,
    RemoveTaint,
    RepairNode,
    ScaleRequest,
    SetLabel,
    Tolerate,
    Uncordon,
    requirement_text,
    taint_text,
)
from kuberth.explaining.needs import PodNeeds, Remedy, Shortcoming
from kuberth.explaining.topology import affinity_shortcomings, spread_shortcomings
from kuberth.framework.status import Code, Status
from kuberth.informers.store import object_key
from kuberth.text.figures import count as counted

MAX_HOLDERS: Final = 3
"""How many claims are named that hold devices of a node."""
_BYTES: Final = ("memory", "ephemeral-storage", "hugepages-")


def shortcomings(needs: PodNeeds, node: NodeRow, statuses: Iterable[Status]) -> tuple[Shortcoming, ...]:
    """Everything that the node lacks, by the statuses of the plugins that reject it."""
    found: list[Shortcoming] = []
    for status in statuses:
        known = list(_BY_PLUGIN.get(status.plugin, _from_reasons)(needs, node, status))
        found += known or _from_reasons(needs, node, status)
    # Two plugins may report the same: NodeUnschedulable the cordon, TaintToleration its taint.
    return tuple({missed.text: missed for missed in found}.values()) if len(found) > 1 else tuple(found)


def _from_reasons(_needs: PodNeeds, _node: NodeRow, status: Status) -> Iterator[Shortcoming]:
    deletion_helps = status.code == Code.UNSCHEDULABLE
    for reason in status.reasons or (f"{status.plugin} rejects it",):
        yield Shortcoming(status.plugin, reason, deletion_helps=deletion_helps, new_helps=deletion_helps)


def _resources(needs: PodNeeds, node: NodeRow, status: Status) -> Iterator[Shortcoming]:
    if node.pod_count >= node.table.allowed_pods.item(node.row):
        never = node.table.allowed_pods.item(node.row) < 1
        yield Shortcoming(
            status.plugin,
            "capacity for one more pod",
            deletion_helps=not never,
            new_helps=not never,
            kind=PODS,
            short=1,
            never=never,
        )
    for resource, amount in needs.amounts.items():
        allocatable = node.allocatable(resource)
        short = amount - (allocatable - node.requested(resource))
        if short <= 0 or f"Insufficient {resource}" not in status.reasons:
            continue
        # Thousands of nodes lack the same amount.
        key = status.plugin, resource, short, allocatable >= amount
        if (known := needs.shortages.get(key)) is None:
            scaled = scaled_requests(needs.info, resource, short) if short < amount else ()
            known = needs.shortages[key] = Shortcoming(
                status.plugin,
                f"{amount_text(resource, short)} {resource} short",
                remedies=(scaled,) if scaled else (),
                distance=short / amount,
                deletion_helps=allocatable >= amount,
                new_helps=allocatable >= amount,
                kind=resource,
                pattern=resource,
                short=short,
                never=allocatable < amount,
            )
        yield known


def scaled_requests(info: PodInfo, resource: str, short: int) -> Remedy:
    """Reduce the pod's request by `short`; () if that is impossible.

    The largest containers are reduced first. An init container is reduced if it alone requests too much.
    """
    pod = info.pod
    read = milli_value if resource == "cpu" else value

    def requested(container: Container) -> int:
        try:
            return read(container.resources.requests.get(resource, "0"))
        except QuantityError:
            return 0

    def lowered(container: Container, after: int) -> Edit:
        given = str(container.resources.requests[resource])
        return ScaleRequest(container.name, resource, given, amount_text(resource, after))

    sidecars = [each for each in pod.spec.init_containers if each.restart_policy == "Always"]
    long_running = [*pod.spec.containers, *sidecars]
    together = sum(map(requested, long_running))
    own = None if pod.spec.resources is None else pod.spec.resources.requests.get(resource)
    if own is not None and is_pod_level_resource(resource):
        # The API requires the pod-level request to cover those of its containers.
        after = read(own) - short
        is_valid = after >= together and after > 0
        return (ScaleRequest("", resource, str(own), amount_text(resource, after)),) if is_valid else ()
    first = [(requested(each), each) for each in pod.spec.init_containers if each not in sidecars]
    largest = max(together, *(amount for amount, _container in first)) if first else together
    most = largest - short
    edits = [lowered(container, most) for amount, container in first if amount > most]
    left = together - most
    for container in sorted(long_running, key=requested, reverse=True):
        before = requested(container)
        less = min(left, before)
        if less <= 0:
            break
        edits.append(lowered(container, before - less))
        left -= less
    return tuple(edits) if most >= 0 and left <= 0 else ()


def _taints(needs: PodNeeds, node: NodeRow, status: Status) -> Iterator[Shortcoming]:
    for taint in node.node.spec.taints:
        untolerated = find_untolerated(
            (taint,), needs.pod.spec.tolerations, comparison_operators=needs.compares_taints
        )
        if untolerated is None:
            continue
        if taint.key == CORDON_TAINT and node.node.spec.unschedulable:
            yield from _cordoned(needs, node, status)
        elif taint.key != CORDON_TAINT and taint.key.startswith(PROBLEM_TAINTS):
            # Kubernetes would add the taint again, and on a broken node the pod would not run.
            yield Shortcoming(
                status.plugin,
                f"being healthy (it has the taint {taint.key})",
                remedies=((RepairNode(node.name, taint.key),),),
                new_helps=True,
            )
        else:
            yield _tainted(node, taint, status)


def _tainted(node: NodeRow, taint: Taint, status: Status) -> Shortcoming:
    fields, is_cordon = (taint.key, taint.value, taint.effect), taint.key == CORDON_TAINT
    # Tolerating a cordon is not proposed: it would defeat the purpose of every cordon.
    tolerate: tuple[Remedy, ...] = () if is_cordon else ((Tolerate(*fields),),)
    return Shortcoming(
        status.plugin,
        f"a toleration of the taint {taint_text(*fields)}",
        remedies=(*tolerate, (RemoveTaint(node.name, *fields),)),
        new_helps=is_cordon,
    )


def _cordoned(_needs: PodNeeds, node: NodeRow, status: Status) -> Iterator[Shortcoming]:
    yield Shortcoming(
        status.plugin,
        "being open to new pods (it is cordoned)",
        ((Uncordon(node.name),),),
        new_helps=True,
    )


def _labels(needs: PodNeeds, node: NodeRow, status: Status) -> Iterator[Shortcoming]:
    labels = node.labels
    for key, wanted in needs.pod.spec.node_selector.items():
        if labels.get(key) != wanted:
            yield Shortcoming(
                status.plugin,
                f"the label {key}={wanted}",
                remedies=((DropNodeSelector(key),), (SetLabel(node.name, key, wanted),)),
            )
    required = required_node_selector(needs.pod)
    if required is None or _matches(required, labels, node.name):
        return
    terms = [term for term in required.node_selector_terms if _labels_suffice(term, node.name)]
    if not terms:
        yield Shortcoming(
            status.plugin, "a match with the pod's required node affinity", remedies=((DropNodeAffinity(),),)
        )
    unmet = [_unmet(term, labels) for term in terms]
    # One term suffices: the one with the fewest unmet requirements is reported.
    for requirement in min(unmet, key=len, default=()):
        found = _satisfying_value(requirement)
        labelled: tuple[Remedy, ...] = (
            () if found is None else ((SetLabel(node.name, requirement.key, found[0]),),)
        )
        yield Shortcoming(
            status.plugin,
            f"a label with {requirement_text(requirement)}",
            remedies=((DropNodeAffinity(),), *labelled),
        )


def _labels_suffice(term: NodeSelectorTerm, name: str) -> bool:
    """Whether the term may match a node of the name once the node has other labels."""
    fields = NodeSelector(node_selector_terms=(with_fields(term, match_expressions=()),))
    return bool(term.match_expressions) and (not term.match_fields or _matches(fields, {}, name))


def _matches(selector: NodeSelector, labels: Mapping[str, str], name: str) -> bool:
    """Whether a term matches; one that cannot be read does not."""
    return any(term.matches(labels, name) for term in compile_node_selector(selector).terms)


def _unmet(term: NodeSelectorTerm, labels: Mapping[str, str]) -> Sequence[NodeSelectorRequirement]:
    return [
        each
        for each in term.match_expressions
        if not any(one.matches(labels, "") for one in _compile(each).terms)
    ]


@lru_cache(maxsize=1024)
def _compile(requirement: NodeSelectorRequirement) -> CompiledNodeSelector:
    term = NodeSelectorTerm(match_expressions=(requirement,))
    return compile_node_selector(NodeSelector(node_selector_terms=(term,)))


def _satisfying_value(requirement: NodeSelectorRequirement) -> tuple[str | None] | None:
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


def _ports(needs: PodNeeds, node: NodeRow, status: Status) -> Iterator[Shortcoming]:
    for port in needs.info.host_ports:
        holders = [info for info in node.pods if any(map(port.conflicts_with, info.host_ports))]
        if not holders:
            continue
        keys = [info.key for info in holders]
        names = f"pod {keys[0]} has" if len(keys) == 1 else f"pods {', '.join(keys)} have"
        deletions = tuple(DeletePod(info.key, node.name) for info in holders)
        yield Shortcoming(
            status.plugin,
            f"the host port {port.port}/{port.protocol}, which {names}",
            remedies=(deletions,) if len(keys) > 1 else (),
            deletion_helps=True,
            new_helps=True,
            pattern=f"{port.port}/{port.protocol}",
            holder=keys[0] if len(keys) == 1 else "",
        )


def _name(needs: PodNeeds, _node: NodeRow, status: Status) -> Iterator[Shortcoming]:
    yield Shortcoming(status.plugin, f"the name {needs.pod.spec.node_name}, which the pod requests")


def _devices(needs: PodNeeds, node: NodeRow, status: Status) -> Iterator[Shortcoming]:
    counts = needs.devices()
    for found in () if counts is None else counts.shortages(node.row):
        held = "; ".join(holder.text for holder in found.holders[:MAX_HOLDERS])
        more = len(found.holders) - MAX_HOLDERS
        text = (
            f"{counted(found.needed, 'free device')} for {found.subject} "
            f"({found.matching} match, {found.free} free"
            + (f", held by {held}" if held else "")
            + (f" and {more} more)" if more > 0 else ")")
        )
        short = found.needed - found.free
        # An extended resource that is backed by devices can be reduced to the free ones.
        fewer: Remedy = ()
        if found.backing is not None and found.free:
            fewer = scaled_requests(needs.info, found.backing.resource_name, short)
        yield Shortcoming(
            status.plugin,
            text,
            remedies=tuple(filter(None, (fewer, *_device_deletions(found)))),
            distance=short / found.needed,
            never=found.matching < found.needed,
            pattern=f"{found.subject} {short}",
        )


def _device_deletions(shortage: DeviceShortage) -> Iterator[Remedy]:
    """Deletions of pods that hold enough devices: of one claim's pods, or of several claims'."""
    short = shortage.needed - shortage.free
    together: list[Edit] = []
    left = short
    for holder in (each for each in shortage.holders[:MAX_HOLDERS] if each.pods):
        deletions = [DeletePod(object_key(pod), pod.spec.node_name) for pod in holder.pods]
        if holder.devices >= short:
            yield tuple(deletions)
        elif left > 0:
            together += deletions
            left -= holder.devices
    if together and left <= 0:
        yield tuple(dict.fromkeys(together))


_BY_PLUGIN: Final[Mapping[str, Callable[[PodNeeds, NodeRow, Status], Iterator[Shortcoming]]]] = {
    "NodeResourcesFit": _resources,
    "TaintToleration": _taints,
    "NodeUnschedulable": _cordoned,
    "NodeAffinity": _labels,
    "NodePorts": _ports,
    "NodeName": _name,
    "DynamicResources": _devices,
    "InterPodAffinity": affinity_shortcomings,
    "PodTopologySpread": spread_shortcomings,
}


def amount_text(resource: str, amount: int) -> str:
    """An amount as Kubernetes writes it: milli-CPU, bytes in powers of two, units."""
    if resource == "cpu":
        return format_quantity(Quantity(amount, -3))
    if resource.startswith(_BYTES):
        return format_quantity(Quantity(amount, 0, QuantityFormat.BINARY_SI))
    return str(amount)
