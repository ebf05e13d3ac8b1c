"""Proposals: minimal sets of tested changes that let a pod be scheduled.

In: a `PodEvaluation` and what the nearest nodes lack. Out: `Proposal`s. Candidates are fixes for
shortcomings, deletions of pods, and new nodes. Each is tested on the cluster, then reduced while it still
helps.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, product
from typing import Any, Final, NamedTuple

from msgspec.structs import replace as with_fields

from kuberth.api.core import Node, Pod
from kuberth.api.pod_resources import PODS, pod_priority
from kuberth.api.quantity import parse
from kuberth.api.selectors import required_node_selector
from kuberth.cluster.pod_info import PodInfo
from kuberth.explaining.edits import (
    AddNodes,
    DeletePod,
    DropNodeAffinity,
    Edit,
    RemoveGate,
    ScaleRequest,
    SetLabel,
    permanent_taints,
)
from kuberth.explaining.needs import Remedy, Shortcoming
from kuberth.explaining.question import PodEvaluation
from kuberth.informers.store import object_key

MAX_PROPOSALS: Final = 8
MAX_ALIKE: Final = 2
"""The maximum number of proposals with the same kinds of changes."""
MAX_PATTERNS: Final = 16
"""The maximum number of sets of shortcomings for which candidates are created."""
MAX_PATTERNS_ALIKE: Final = 4
"""The maximum number of sets of shortcomings of the same kinds, such as one taint each."""
MAX_COMBINATIONS: Final = 8
"""The maximum number of combinations of fixes for one node."""
MAX_NODES_ALIKE: Final = 4
"""The maximum number of nodes with the same shortcomings on which deletions are tried."""
MAX_SINGLE_DELETIONS: Final = 3
"""The maximum number of pods whose deletion is tried individually."""
MAX_SHAPES: Final = 4
MAX_ADDED_NODES: Final = 3
"""The maximum number of nodes that one proposal adds."""
MAX_DELETIONS: Final = 24
"""The maximum number of pods that one proposal deletes, before it is reduced."""
MAX_TRIES: Final = 400
"""The maximum number of what-ifs; then no further candidate is tried."""
TRIED_IN_FULL: Final = 6
"""Up to this number of changes, every subset is tested; beyond, leaving out every one and every two."""
_SYSTEM_PRIORITY: Final = 2_000_000_000
_TEMPLATE_HASH: Final = "pod-template-hash"


class NearNode(NamedTuple):
    """A node and its shortcomings."""

    name: str
    misses: tuple[Shortcoming, ...]


@dataclass(frozen=True, slots=True)
class Proposal:
    """Changes that together let the pod be scheduled; all of them are necessary."""

    edits: tuple[Edit, ...]

    @property
    def text(self) -> str:
        return _join([edit.text for edit in self.edits])


def proposals(
    evaluation: PodEvaluation, near: Sequence[Sequence[NearNode]], *, victims: Iterable[str] = ()
) -> tuple[Proposal, ...]:
    """The least disruptive proposals first.

    `near` are groups of nodes with the same shortcomings, the nearest first; `victims` the pods that
    preemption would evict.
    """
    gates: Remedy = tuple(RemoveGate(gate.name) for gate in evaluation.pod.spec.scheduling_gates)
    found: dict[frozenset[Edit], Proposal] = {}
    for edits in _candidates(evaluation, near, gates, victims):
        if len(found) >= 2 * MAX_PROPOSALS or evaluation.tries > MAX_TRIES:
            break
        needed = minimal(edits, evaluation.helps)
        # Manually deleting a pod that the scheduler would evict anyway is the same proposal.
        if needed and (key := frozenset(map(_as_manual_deletion, needed))) not in found:
            found[key] = Proposal(tuple(needed))
    # Omit proposals that reduce a request further than another proposal does.
    every = found.values()
    milder = [one for one in every if not any(_is_milder(other, one) for other in every)]
    return tuple(sorted(_select(milder), key=_harm))


def _harm(proposal: Proposal) -> tuple[int, int, int]:
    harms = [edit.harm for edit in proposal.edits]
    return max(harms), len(harms), sum(harms)


def _select(given: Sequence[Proposal]) -> Iterator[Proposal]:
    """The smallest proposals of each level of disruption, few of each kind."""
    alike: Counter[frozenset[type[Edit]]] = Counter()
    chosen: list[Proposal] = []
    for proposal in sorted(given, key=lambda one: (len(one.edits), _harm(one))):
        kinds = frozenset(map(type, proposal.edits))
        harm, size, _sum = _harm(proposal)
        # Two changes may be less disruptive than one that reduces a request further.
        is_worse = harm != ScaleRequest.harm and any(
            len(other.edits) < size and _harm(other)[0] == harm for other in chosen
        )
        if len(chosen) < MAX_PROPOSALS and alike[kinds] < MAX_ALIKE and not is_worse:
            alike[kinds] += 1
            chosen.append(proposal)
    return iter(chosen)


def minimal(edits: Sequence[Edit], helps: Callable[[Iterable[Edit]], bool]) -> Sequence[Edit]:
    """A smallest subset of the changes that still helps; () if all of them together do not."""
    if not helps(edits):
        return ()
    needed = _reduce(edits, helps)
    if len(needed) > TRIED_IN_FULL:
        return needed
    for size in range(1, len(needed)):
        for part in combinations(needed, size):
            if helps(part):
                return part
    return needed


def _reduce(edits: Sequence[Edit], helps: Callable[[Iterable[Edit]], bool]) -> Sequence[Edit]:
    """The changes without unnecessary ones, removed one or two at a time until few enough are left."""
    if len(edits) <= TRIED_IN_FULL:
        return edits
    for number in (1, 2):
        for kept in combinations(edits, len(edits) - number):
            if helps(kept):
                return _reduce(kept, helps)
    return edits


def _candidates(
    evaluation: PodEvaluation, near: Sequence[Sequence[NearNode]], gates: Remedy, victims: Iterable[str]
) -> Iterator[Sequence[Edit]]:
    """The candidates: first possible single changes, then fixes for several shortcomings."""
    if gates:
        yield gates
    if _selects_nodes_by_name(evaluation.pod):
        yield (*gates, DropNodeAffinity())
    evicted = evaluation.other_pods(victims)
    if evicted and not any(_is_sibling(pod, evaluation.pod) for pod in evicted):
        yield (*gates, *(_deletion(pod, preempted=True) for pod in evicted))
    patterns = _patterns(near)
    for nodes in patterns:
        if len(nodes[0].misses) == 1:
            yield from _fixes(evaluation, nodes, gates)
    yield from ((*gates, _deletion(pod)) for pod in _single_deletions(evaluation, near))
    for model in _shapes(evaluation, near):
        # One new node suffices, unless spread constraints count domains.
        for count in range(
            1, (MAX_ADDED_NODES if evaluation.pod.spec.topology_spread_constraints else 1) + 1
        ):
            edits = (*gates, AddNodes(model, count))
            if evaluation.helps(edits):
                yield edits
                break
    for nodes in patterns:
        if len(nodes[0].misses) != 1:
            yield from _fixes(evaluation, nodes, gates)


def _patterns(near: Sequence[Sequence[NearNode]]) -> list[list[NearNode]]:
    """Nodes with the same shortcomings apart from amounts, the nearest first."""
    members: dict[Any, list[NearNode]] = {}
    counts: Counter[Any] = Counter()
    for nodes in near:
        misses = nodes[0].misses
        key = frozenset(
            [(missed.kind or missed.plugin, missed.pattern or missed.text, missed.never) for missed in misses]
        )
        known = members.setdefault(key, [])
        known += nodes[: MAX_NODES_ALIKE - len(known)]
        counts[key] += len(nodes)
    alike: Counter[Any] = Counter()
    found: list[list[NearNode]] = []
    # The most frequent shortcomings come first, so that a fix helps on many nodes.
    for key in sorted(members, key=lambda each: (len(members[each][0].misses), -counts[each])):
        kinds = tuple(sorted(kind for kind, _text, _never in key))
        alike[kinds] += 1
        if alike[kinds] <= MAX_PATTERNS_ALIKE and len(found) < MAX_PATTERNS:
            found.append(members[key])
    return found


def _fixes(evaluation: PodEvaluation, nodes: Sequence[NearNode], gates: Remedy) -> Iterator[Sequence[Edit]]:
    """Candidates that fix every shortcoming of the first node, or delete pods on one of the nodes."""
    if len(nodes[0].misses) > 1:
        # A label moves the node to another topology domain, which may fix several shortcomings.
        for remedy in (remedy for missed in nodes[0].misses for remedy in missed.remedies):
            if any(isinstance(edit, SetLabel) for edit in remedy):
                yield (*gates, *remedy)
    for node in nodes:
        ways = [
            (
                *(remedy for remedy in missed.remedies if _is_proposable(evaluation, remedy)),
                *([()] if missed.deletion_helps else []),
            )
            for missed in node.misses
        ]
        if not all(ways):
            return
        was_cleared = False
        for chosen in islice(product(*ways), MAX_COMBINATIONS):
            edits = (*gates, *dict.fromkeys(edit for remedy in chosen for edit in remedy))
            if all(chosen):
                if node is nodes[0]:
                    yield edits
            elif deletions := _deletions_that_help(evaluation, node, edits):
                was_cleared = True
                yield (*edits, *deletions)
        if was_cleared or not any(missed.deletion_helps for missed in node.misses):
            return


def _deletions_that_help(evaluation: PodEvaluation, node: NearNode, edits: Sequence[Edit]) -> Sequence[Edit]:
    """Deletions of pods of the node that help together with the changes; () if there are none.

    Pods of the lowest priority are deleted first, of these the largest.
    """
    deletions: list[Edit] = []
    movable = [info for info in evaluation.pods_of(node.name) if _is_deletable(info.pod, evaluation.pod)]
    for info in heapq.nsmallest(MAX_DELETIONS, movable, key=_deletion_order):
        deletions.append(_deletion(info.pod))
        if evaluation.helps((*edits, *deletions)):
            return deletions
    return ()


def _single_deletions(evaluation: PodEvaluation, near: Iterable[Sequence[NearNode]]) -> list[Pod]:
    """Pods whose individual deletion may help, by their requests and ports; lowest priority first."""
    found: list[PodInfo] = []
    for nodes in near:
        misses = nodes[0].misses
        if not all(missed.deletion_helps and (missed.short or missed.holder) for missed in misses):
            continue
        for node in nodes:
            giving: Iterable[PodInfo] = evaluation.pods_of(node.name)
            for missed in node.misses:
                giving = [info for info in giving if _deletion_fixes(info, missed)]
            found += [info for info in giving if _is_deletable(info.pod, evaluation.pod)]
    return [info.pod for info in heapq.nsmallest(MAX_SINGLE_DELETIONS, found, key=_deletion_order)]


def _deletion_fixes(info: PodInfo, missed: Shortcoming) -> bool:
    """Whether the deletion of the pod would fix the shortcoming."""
    if missed.holder:
        return info.key == missed.holder
    return missed.kind == PODS or info.request.amounts().get(missed.kind, 0) >= missed.short


def _deletion_order(info: PodInfo) -> tuple[int, int, int, str]:
    return info.priority, -info.request.milli_cpu, -info.request.memory, info.key


def _is_deletable(pod: Pod, pending: Pod) -> bool:
    """False for pods that would be recreated on the node, system pods, and siblings of the pending pod."""
    if pod_priority(pod) >= _SYSTEM_PRIORITY or pod.metadata.deletion_timestamp is not None:
        return False
    if any(owner.kind in ("DaemonSet", "Node") for owner in pod.metadata.owner_references):
        return False
    return not _is_sibling(pod, pending)


def _selects_nodes_by_name(pod: Pod) -> bool:
    """Whether the pod chooses nodes by name; a DaemonSet's pods do, by their controller, and do not count."""
    required = required_node_selector(pod)
    by_name = required is not None and any(term.match_fields for term in required.node_selector_terms)
    return by_name and all(owner.kind != "DaemonSet" for owner in pod.metadata.owner_references)


def _is_proposable(evaluation: PodEvaluation, remedy: Remedy) -> bool:
    deleted = evaluation.other_pods(edit.pod for edit in remedy if isinstance(edit, DeletePod))
    return all(_is_deletable(pod, evaluation.pod) for pod in deleted)


def _is_sibling(pod: Pod, pending: Pod) -> bool:
    """Whether both pods belong to the same workload."""
    return bool(_owners(pending) & _owners(pod))


def _owners(pod: Pod) -> set[tuple[str, str, str]]:
    """Namespace, kind and name of the controllers; a ReplicaSet of a Deployment counts as the Deployment."""
    found = set()
    suffix = f"-{pod.metadata.labels.get(_TEMPLATE_HASH, '')}"
    for owner in pod.metadata.owner_references:
        kind, name = owner.kind, owner.name
        if kind == "ReplicaSet" and len(suffix) > 1 and name.endswith(suffix):
            kind, name = "Deployment", name.removesuffix(suffix)
        found.add((pod.metadata.namespace, kind, name))
    return found


def _as_manual_deletion(edit: Edit) -> Edit:
    return with_fields(edit, preempted=False) if isinstance(edit, DeletePod) else edit


def _deletion(pod: Pod, *, preempted: bool = False) -> DeletePod:
    return DeletePod(object_key(pod), pod.spec.node_name, preempted)


def _shapes(evaluation: PodEvaluation, near: Iterable[Sequence[NearNode]]) -> Iterator[str]:
    """One node of each shape that may hold the pod when it is empty, the most frequent shapes first."""
    members: dict[Any, list[str]] = {}
    for nodes in near:
        if all(missed.new_helps for missed in nodes[0].misses):
            for name in (node.name for node in nodes):
                if (node := evaluation.node_named(name)) is not None:
                    members.setdefault(_shape(node), []).append(name)
    by_number = sorted(members.values(), key=lambda names: (-len(names), min(names)))
    yield from (min(names) for names in by_number[:MAX_SHAPES])


def _shape(node: Node) -> Any:
    taints = frozenset((taint.key, taint.value, taint.effect) for taint in permanent_taints(node.spec.taints))
    return frozenset(node.status.allocatable.items()), taints


def _is_milder(one: Proposal, other: Proposal) -> bool:
    mine, yours = _scaled_requests(one), _scaled_requests(other)
    rest = {edit for edit in other.edits if not isinstance(edit, ScaleRequest)}
    if one is other or not mine or mine.keys() != yours.keys():
        return False
    if {edit for edit in one.edits if not isinstance(edit, ScaleRequest)} - rest:
        return False
    return mine != yours and all(parse(mine[key]) >= parse(yours[key]) for key in mine)


def _scaled_requests(proposal: Proposal) -> dict[tuple[str, str], str]:
    return {
        (edit.container, edit.resource): edit.after
        for edit in proposal.edits
        if isinstance(edit, ScaleRequest)
    }


def _join(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
