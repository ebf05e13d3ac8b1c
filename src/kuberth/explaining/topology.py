"""What a node lacks for the pod's affinity, anti-affinity, and topology spread constraints.

In: a pod's needs, a node that the plugins InterPodAffinity or PodTopologySpread reject, and their status.
Out: `Shortcoming`s that name the pods in question.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kuberth.api.core import PodAffinityTerm
from kuberth.cluster.nodes import NodeRow
from kuberth.cluster.pod_info import AffinityTerm, PodInfo
from kuberth.explaining.edits import (
    DeletePod,
    DropAffinity,
    Edit,
    RelaxSpread,
    SetLabel,
    affinity_text,
    selector_text,
    spread_text,
)
from kuberth.explaining.needs import Domains, PodNeeds, Remedy, Shortcoming
from kuberth.framework.status import Code, Status

MAX_VALUES: Final = 4
"""How many values of a topology key are proposed for a node without it."""
MAX_OTHERS: Final = 3
"""How many conflicting pods are named, and proposed for deletion."""


def affinity_shortcomings(needs: PodNeeds, node: NodeRow, status: Status) -> Iterator[Shortcoming]:
    """What the node lacks according to the plugin InterPodAffinity."""
    if status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        yield from _missing_pods(needs, node, status)
    else:
        yield from _conflicting_pods(needs, node, status)


def _missing_pods(needs: PodNeeds, node: NodeRow, status: Status) -> Iterator[Shortcoming]:
    affinity = needs.pod.spec.affinity
    if affinity is None or affinity.pod_affinity is None:
        return
    given = affinity.pod_affinity.required_during_scheduling_ignored_during_execution
    terms = needs.info.required_affinity
    # Only pods that all terms select count.
    wanted = " and ".join(dict.fromkeys(map(_term_text, given, terms)))
    drop = tuple(DropAffinity("podAffinity", text) for text in dict.fromkeys(map(affinity_text, given)))
    for key in dict.fromkeys(term.topology_key for term in terms):
        value = node.labels.get(key)
        domains = _domains(needs, key, node)
        near = sorted(
            each
            for each, pods in domains.items()
            if any(all(_selects(term, info, node) for term in terms) for info in pods)
        )
        if value is None:
            text = f"the label {key}, the topology key of the pod's affinity"
            yield Shortcoming(status.plugin, text, remedies=(drop, *_label_remedies(node, key, near)))
        elif value not in near:
            text = f"a pod with {wanted} within {key}={value}"
            yield Shortcoming(status.plugin, text, remedies=(drop,), pattern=key)


def _conflicting_pods(needs: PodNeeds, node: NodeRow, status: Status) -> Iterator[Shortcoming]:
    """Pods that the pod's anti-affinity excludes, and pods whose anti-affinity excludes the pod."""
    affinity = needs.pod.spec.affinity
    far = None if affinity is None else affinity.pod_anti_affinity
    given: Sequence[PodAffinityTerm] = (
        () if far is None else far.required_during_scheduling_ignored_during_execution
    )
    # Invalid terms are omitted.
    for raw, term in zip(given, needs.info.required_anti_affinity, strict=False):
        others = [info for info in _nearby_pods(needs, term.topology_key, node) if _selects(term, info, node)]
        if others:
            drop = DropAffinity("podAntiAffinity", affinity_text(raw))
            yield _conflict(status, others, _term_text(raw, term), term, node, (drop,))
    excluding: dict[str, tuple[AffinityTerm, list[PodInfo]]] = {}
    for key in node.labels:
        for info in _nearby_pods(needs, key, node):
            for term in info.required_anti_affinity:
                if term.topology_key == key and _selects(term, needs.info, node):
                    excluding.setdefault(key, (term, []))[1].append(info)
    for term, others in excluding.values():
        what = "a required anti-affinity that excludes this pod"
        yield _conflict(status, list(dict.fromkeys(others)), what, term, node, ())


def _conflict(
    status: Status, others: Sequence[PodInfo], what: str, term: AffinityTerm, node: NodeRow, drop: Remedy
) -> Shortcoming:
    key = term.topology_key
    names = ", ".join(sorted(info.key for info in others)[:MAX_OTHERS])
    more = f" and {len(others) - MAX_OTHERS} more" if len(others) > MAX_OTHERS else ""
    deletions: tuple[Edit, ...] = tuple(DeletePod(info.key, info.pod.spec.node_name) for info in others)
    return Shortcoming(
        status.plugin,
        f"the absence of pods with {what} within {key}={node.labels[key]}: {names}{more}",
        remedies=tuple(filter(None, (drop, deletions if len(deletions) <= MAX_OTHERS else ()))),
        deletion_helps=True,
        new_helps=True,
        pattern=f"{what} {key}",
    )


def spread_shortcomings(needs: PodNeeds, node: NodeRow, status: Status) -> Iterator[Shortcoming]:
    """What the node lacks according to the plugin PodTopologySpread, by the pod's own constraints."""
    given = needs.pod.spec.topology_spread_constraints
    hard = [each for each in given if each.when_unsatisfiable == "DoNotSchedule"]
    if status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        for key in dict.fromkeys(each.topology_key for each in hard):
            if key in node.labels:
                continue
            texts = dict.fromkeys(spread_text(each) for each in hard if each.topology_key == key)
            domains = _domains(needs, key, node)
            fewest = sorted(domains, key=lambda value: (len(domains[value]), value))
            yield Shortcoming(
                status.plugin,
                f"the label {key}, the topology key of a spread constraint",
                remedies=(tuple(map(RelaxSpread, texts)), *_label_remedies(node, key, fewest)),
            )
    elif hard:
        # It is not known which of several constraints is violated; proposals find a smallest set.
        skews = dict.fromkeys(f"{spread_text(each)} (maxSkew {each.max_skew})" for each in hard)
        yield Shortcoming(
            status.plugin,
            f"an even spread of pods with {' or '.join(skews)}",
            remedies=(tuple(map(RelaxSpread, dict.fromkeys(map(spread_text, hard)))),),
            deletion_helps=True,
            new_helps=True,
        )


def _label_remedies(node: NodeRow, key: str, values: Iterable[str]) -> Iterator[Remedy]:
    for value in [*values][:MAX_VALUES]:
        yield (SetLabel(node.name, key, value),)


def _domains(needs: PodNeeds, key: str, node: NodeRow) -> Domains:
    """The pods by value of the topology key, read once for all nodes."""
    known = needs.domains.get(key)
    if known is None:
        found: dict[str, list[PodInfo]] = {}
        for row, name in enumerate(node.table.names):
            value = NodeRow(node.table, row).labels.get(key) if name else None
            if value is not None:
                found.setdefault(value, []).extend(node.table.pods_at(row))
        known = needs.domains[key] = found
    return known


def _nearby_pods(needs: PodNeeds, key: str, node: NodeRow) -> Sequence[PodInfo]:
    """The pods on nodes with this node's value of the key."""
    value = node.labels.get(key)
    return () if value is None else _domains(needs, key, node)[value]


def _selects(term: AffinityTerm, info: PodInfo, node: NodeRow) -> bool:
    metadata = info.pod.metadata
    about = node.table.terms.namespace_labels(metadata.namespace)
    return term.pods.matches(metadata.namespace, metadata.labels, about)


def _term_text(given: PodAffinityTerm, term: AffinityTerm) -> str:
    where = f"in namespace {' or '.join(sorted(term.pods.namespaces))}"
    if given.namespace_selector is not None:
        where = f"in a namespace with {selector_text(given.namespace_selector)}"
    return f"{selector_text(given.label_selector)} {where}"
