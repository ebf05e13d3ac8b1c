"""Proposals: minimal sets of changes that were tried and let a pod be scheduled.

In: a `Judge` and what the nearest nodes miss. Out: `Proposal`s. Candidates are remedies for shortcomings,
deletions of pods, and new nodes. Each is tried on the cluster, then reduced while it still helps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice, product
from typing import Any, Final, NamedTuple

from kuberth.api.core import Node, Pod
from kuberth.api.pod_resources import pod_priority
from kuberth.api.quantity import parse
from kuberth.explaining.edits import AddNodes, DeletePod, Edit, RemoveGate, ScaleRequest
from kuberth.explaining.question import Judge
from kuberth.explaining.shortcomings import Remedy, Shortcoming
from kuberth.informers.store import object_key

MOST_PROPOSALS: Final = 8
MOST_PATTERNS: Final = 6
"""Nodes for which candidates are made, each missing different things."""
MOST_COMBINATIONS: Final = 8
"""Combinations of remedies for one node."""
MOST_SHAPES: Final = 4
MOST_ADDED: Final = 3
"""Nodes that one proposal adds."""
MOST_LEAVING: Final = 24
"""Pods that one proposal deletes, before it is reduced."""
MOST_TRIES: Final = 400
"""After this many what-ifs no further candidate is tried."""
TRIED_IN_FULL: Final = 6
"""For up to this many changes every subset is tried; of more, each change is left out once."""
_SYSTEM_PRIORITY: Final = 2_000_000_000


class NearNode(NamedTuple):
    """A node and what it misses."""

    name: str
    misses: tuple[Shortcoming, ...]


@dataclass(frozen=True, slots=True)
class Proposal:
    """Changes that together let the pod be scheduled; none of them can be left out."""

    edits: tuple[Edit, ...]

    @property
    def text(self) -> str:
        return _joined([edit.text for edit in self.edits])


def proposals(judge: Judge, near: Sequence[NearNode], *, victims: Iterable[str] = ()) -> tuple[Proposal, ...]:
    """The smallest proposals first.

    `near` are nodes that miss different things, `victims` the pods that preemption would evict.
    """
    gates: Remedy = tuple(RemoveGate(gate.name) for gate in judge.pod.spec.scheduling_gates)
    found: dict[frozenset[Edit], Proposal] = {}
    for edits in _candidates(judge, near, gates, victims):
        if len(found) >= 2 * MOST_PROPOSALS or judge.tries > MOST_TRIES:
            break
        needed = minimal(edits, judge.frees)
        # A deletion by hand of a pod that the scheduler would evict anyway is the same proposal.
        if needed and (key := frozenset(map(_by_anybody, needed))) not in found:
            found[key] = Proposal(tuple(needed))
    best = _without_worse_scales(list(found.values()))
    return tuple(sorted(best, key=lambda proposal: len(proposal.edits))[:MOST_PROPOSALS])


def minimal(edits: Sequence[Edit], frees: Callable[[Iterable[Edit]], bool]) -> Sequence[Edit]:
    """A smallest subset of the changes that still helps; () if all of them together do not."""
    if not frees(edits):
        return ()
    needed = list(edits)
    for edit in edits if len(edits) > TRIED_IN_FULL else ():
        without = [each for each in needed if each != edit]
        if frees(without):
            needed = without
    if len(needed) > TRIED_IN_FULL:
        return needed
    for size in range(1, len(needed)):
        for part in combinations(needed, size):
            if frees(part):
                return part
    return needed


def _candidates(
    judge: Judge, near: Sequence[NearNode], gates: Remedy, victims: Iterable[str]
) -> Iterator[Sequence[Edit]]:
    if gates:
        yield gates
    evicted = [_deletion(pod, preempted=True) for pod in judge.other_pods(victims)]
    if evicted:
        yield (*gates, *evicted)
    for node in near[:MOST_PATTERNS]:
        yield from _remedied(judge, node, gates)
    for model in _shapes(judge):
        # One new node suffices, unless spread constraints count domains.
        for count in range(1, (MOST_ADDED if judge.pod.spec.topology_spread_constraints else 1) + 1):
            edits = (*gates, AddNodes(model, count))
            if judge.frees(edits):
                yield edits
                break


def _remedied(judge: Judge, node: NearNode, gates: Remedy) -> Iterator[Sequence[Edit]]:
    """Candidates that remedy every shortcoming of a node, or delete pods instead."""
    ways = [(*missed.remedies, *([()] if missed.room_helps else [])) for missed in node.misses]
    if not all(ways):
        return
    for chosen in islice(product(*ways), MOST_COMBINATIONS):
        edits = (*gates, *dict.fromkeys(edit for remedy in chosen for edit in remedy))
        if all(chosen):
            yield edits
        else:
            yield from _with_leaving(judge, node.name, edits)


def _with_leaving(judge: Judge, node: str, edits: Sequence[Edit]) -> Iterator[Sequence[Edit]]:
    leaving: list[Edit] = []
    for pod in islice(_movable(judge, node), MOST_LEAVING):
        leaving.append(_deletion(pod))
        if judge.frees((*edits, *leaving)):
            yield (*edits, *leaving)
            return


def _movable(judge: Judge, node: str) -> Iterator[Pod]:
    """The pods of a node that may be deleted: lowest priority first, then largest first."""
    row = judge.evaluator.cluster.row_of(node)
    if row is None:
        return
    infos = [info for info in judge.evaluator.cluster.pods_at(row) if _may_go(info.pod)]
    infos.sort(key=lambda info: (info.priority, -info.request.milli_cpu, -info.request.memory, info.key))
    yield from (info.pod for info in infos)


def _may_go(pod: Pod) -> bool:
    """False for pods that would be recreated on the node, and for system pods."""
    if pod_priority(pod) >= _SYSTEM_PRIORITY or pod.metadata.deletion_timestamp is not None:
        return False
    return not any(owner.kind in ("DaemonSet", "Node") for owner in pod.metadata.owner_references)


def _by_anybody(edit: Edit) -> Edit:
    return replace(edit, preempted=False) if isinstance(edit, DeletePod) else edit


def _deletion(pod: Pod, *, preempted: bool = False) -> DeletePod:
    return DeletePod(object_key(pod), pod.spec.node_name, preempted)


def _shapes(judge: Judge) -> Iterator[str]:
    """One node of each shape, the most frequent shapes first."""
    members: dict[Any, list[str]] = {}
    for node in judge.evaluator.stores.of(Node):
        members.setdefault(_shape(node), []).append(node.metadata.name)
    by_number = sorted(members.values(), key=lambda names: (-len(names), min(names)))
    yield from (min(names) for names in by_number[:MOST_SHAPES])


def _shape(node: Node) -> Any:
    taints = frozenset((taint.key, taint.value, taint.effect) for taint in node.spec.taints)
    return frozenset(node.status.allocatable.items()), taints


def _without_worse_scales(given: Sequence[Proposal]) -> list[Proposal]:
    """Leave out proposals that lower a request further than another proposal does."""
    return [one for one in given if not any(_is_milder(other, one) for other in given)]


def _is_milder(one: Proposal, other: Proposal) -> bool:
    mine, yours = _scales(one), _scales(other)
    rest = {edit for edit in other.edits if not isinstance(edit, ScaleRequest)}
    if one is other or not mine or mine.keys() != yours.keys():
        return False
    if {edit for edit in one.edits if not isinstance(edit, ScaleRequest)} - rest:
        return False
    return mine != yours and all(parse(mine[key]) >= parse(yours[key]) for key in mine)


def _scales(proposal: Proposal) -> dict[tuple[str, str], str]:
    return {
        (edit.container, edit.resource): edit.after
        for edit in proposal.edits
        if isinstance(edit, ScaleRequest)
    }


def _joined(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
