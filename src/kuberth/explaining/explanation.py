"""Explanations as values, and as JSON: a documented shape that only grows within its version.

In: a `Question`. Out: an `Explanation`; its parts are structs with the fields of the JSON. `to_tree` returns
the JSON for programs and displays, which docs/explain.md describes field by field.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import msgspec
from msgspec.structs import replace as with_fields

from kuberth.api.core import Pod
from kuberth.assembly.profiles import effective_gates
from kuberth.clock import NANOSECONDS
from kuberth.cluster.nodes import NodeRow
from kuberth.cluster.pod_info import PodInfo, group_of
from kuberth.evaluation import Answer
from kuberth.explaining.cluster_copy import ClusterCopy
from kuberth.explaining.devices import DeviceCounts
from kuberth.explaining.needs import PodNeeds
from kuberth.explaining.prerequisites import Nomination, Prerequisite, nomination, prerequisites
from kuberth.explaining.proposals import NearNode, Proposal, proposals
from kuberth.explaining.question import PodEvaluation, Question, Waiting, evaluation_of
from kuberth.explaining.shortcomings import shortcomings
from kuberth.framework.cluster_events import Action, ClusterEvent
from kuberth.framework.status import Code, Status
from kuberth.informers.store import object_key
from kuberth.text.timestamps import timestamp

API_VERSION: Final = "explain.kuberth.dev/v1alpha1"
KIND: Final = "Explanation"
BEST_NODES: Final = 10
"""Nodes in the score table."""
MAX_EXAMINED: Final = 10_000
"""The maximum number of rejected nodes that are examined in detail."""
NOT_CONSIDERED: Final = "not considered: the pod restricts its nodes by name"
_SINGLE_ACTIONS: Final = tuple(action for action in Action if action.value & (action.value - 1) == 0)


class Rejected(msgspec.Struct, frozen=True):
    """Nodes that one plugin rejects for the same reasons."""

    plugin: str
    code: str
    """The status code, as in Kubernetes."""
    reasons: tuple[str, ...]
    count: int
    nodes: tuple[str, ...]
    """Sorted by name."""


class Near(msgspec.Struct, frozen=True):
    """Nodes that lack the same things."""

    misses: tuple[str, ...]
    count: int
    nodes: tuple[str, ...]


class PreemptionSummary(msgspec.Struct, frozen=True, rename="camel"):
    """The result of PostFilter."""

    message: str
    """The last plugin's message."""
    nodes_that_could_help: int
    """Nodes that could become feasible by evicting pods."""
    nodes_beyond_help: int
    """Nodes that no eviction makes feasible."""
    nominated_node: str = ""
    victims: tuple[str, ...] = ()


class ScoredNode(msgspec.Struct, frozen=True, rename="camel"):
    node: str
    total: int
    by_plugin: dict[str, int]
    """Normalized and weighted."""


class ScoreTable(msgspec.Struct, frozen=True):
    """The scores of the best nodes, the best first."""

    feasible: int
    """Number of nodes that were scored."""
    winner: str
    """The node that the pod has, or would get."""
    reason: str
    """Why the winner has the highest score."""
    best: tuple[ScoredNode, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why one pod is pending, or why it was placed on its node."""

    pod: str
    """namespace/name."""
    profile: str
    """The scheduler name of the profile that evaluated it."""
    verdict: str
    """`placed`, `fits`, `rejected` or `gated`."""
    answer: Answer
    """The result of the search for every node."""
    nodes: int
    """Number of nodes in the cluster."""
    node: str = ""
    """The pod's node."""
    message: str = ""
    """The message of the FailedScheduling event, or of the plugin that gates the pod; for a pod that fits, of
    its last attempt."""
    waiting: Waiting | None = None
    rejected: tuple[Rejected, ...] = ()
    near: tuple[Near, ...] = ()
    preemption: PreemptionSummary | None = None
    events: Mapping[str, tuple[str, ...]] | None = None
    """By plugin: the events that requeue the pod."""
    proposals: tuple[Proposal, ...] = ()
    missing: tuple[Prerequisite, ...] = ()
    """Objects that keep the pod from being scheduled on any node."""
    nominated: Nomination | None = None
    """Set if the pod has a nominated node with terminating victims."""
    scores: ScoreTable | None = None
    notes: tuple[str, ...] = ()


def explain(question: Question, cluster: ClusterCopy | None = None) -> Explanation:
    """Evaluate the pod, and search for changes that let it be scheduled if no node is feasible.

    `cluster`: the copy of an earlier question, which saves most of the time.
    """
    with evaluation_of(question, cluster) as evaluation:
        return _explain(question, evaluation)


def _explain(question: Question, evaluation: PodEvaluation) -> Explanation:
    pod, evaluator = evaluation.pod, evaluation.evaluator
    gate = evaluation.gate(pod)
    # A pod that fits on its nominated node is tried on no other; here all nodes are evaluated.
    answer = evaluator.evaluate(_without_nomination(pod))
    found = Explanation(
        pod=object_key(question.pod),
        profile=evaluation.profile,
        verdict=_verdict(evaluation.node, gate, answer),
        nodes=evaluator.cluster.node_count,
        node=evaluation.node,
        answer=answer,
        waiting=question.waiting,
        rejected=tuple(_rejection_groups(answer, evaluator.cluster.names)),
        scores=_score_table(answer, evaluation.node) if answer.feasible else None,
        notes=(*question.notes, *_notes(pod, evaluation.profile, answer)),
    )
    if found.verdict == "placed":
        return found
    is_held = question.waiting is not None and bool(question.waiting.held_by)
    found = replace(
        found,
        missing=tuple(prerequisites(evaluation, refusal=question.refusal)),
        nominated=None if is_held else nomination(evaluation),
    )
    if found.verdict == "fits":
        return found if is_held else replace(found, message=_last_failure(pod))
    summary: PreemptionSummary | None = None
    victims: tuple[str, ...] = ()
    message = answer.message
    if not answer.feasible:
        after, preemption = evaluator.preempt(pod)
        message = after.message
        if preemption is not None:
            victims = preemption.victims
            summary = PreemptionSummary(
                # After a rejection by PreFilter, PostFilter has no nodes to report on.
                preemption.status.message if answer.pre_filter is None else "",
                *_preemption_counts(answer, found.nodes),
                nominated_node=preemption.nominated_node,
                victims=preemption.victims,
            )
    near = _by_misses(_nearest_nodes(question, evaluation, answer))
    hints = evaluation.evaluator.runner.profile.hints
    rejectors = answer.rejected_by if gate is None else (gate.plugin,)
    return replace(
        found,
        message=gate.message if gate is not None else message,
        near=tuple(
            Near(misses, len(nodes), tuple(node.name for node in nodes)) for misses, nodes in near.items()
        ),
        preemption=summary,
        events={
            plugin: tuple(
                event_text(each.event) for each in hints if each.plugin == plugin and not each.implied
            )
            for plugin in rejectors
        },
        proposals=proposals(evaluation, tuple(near.values()), victims=victims),
    )


def _without_nomination(pod: Pod) -> Pod:
    if not pod.status.nominated_node_name:
        return pod
    return with_fields(pod, status=with_fields(pod.status, nominated_node_name=""))


def _last_failure(pod: Pod) -> str:
    """Why the last attempt failed, as its scheduler reported it; "" if it did not."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return "" if condition.reason == "SchedulingGated" else condition.message
    return ""


def _verdict(node: str, gate: Status | None, answer: Answer) -> str:
    if node:
        return "placed"
    if gate is not None:
        return "gated"
    return "fits" if answer.feasible else "rejected"


def _rejection_groups(answer: Answer, names: Iterable[str]) -> Iterator[Rejected]:
    """The rejections by plugin and reason, the most frequent first."""
    if answer.pre_filter is not None:
        yield _rejection_group(answer.pre_filter, filter(None, names))
        return
    by_status: dict[Status, list[str]] = {}
    for name, status in answer.rejections.items():
        by_status.setdefault(status, []).append(name)
    groups = [_rejection_group(status, nodes) for status, nodes in by_status.items()]
    yield from sorted(groups, key=lambda group: (-group.count, group.plugin, group.reasons, group.nodes))
    if answer.considered is not None and (others := set(filter(None, names)).difference(answer.considered)):
        yield _rejection_group(Status.unresolvable(NOT_CONSIDERED), others)


def _rejection_group(status: Status, nodes: Iterable[str]) -> Rejected:
    names = tuple(sorted(nodes))
    return Rejected(status.plugin, status.code.label, status.reasons, len(names), names)


def _notes(pod: Pod, profile: str, answer: Answer) -> Iterator[str]:
    wanted = pod.spec.scheduler_name
    if wanted and wanted != profile:
        yield f"the pod waits for the scheduler {wanted}; it was evaluated with the profile {profile}"
    if group := group_of(pod):
        yield f"the pod is in the group {group} and was evaluated without the group"
    for url in answer.not_asked:
        yield f"the extender {url} takes part for this pod and was not called"


def _preemption_counts(answer: Answer, nodes: int) -> tuple[int, int]:
    """The number of nodes that evictions could make feasible, and the number of other evaluated nodes."""
    if answer.pre_filter is not None:
        return 0, nodes
    codes = [status.code for status in answer.rejections.values()]
    hopeless = codes.count(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
    return len(codes) - hopeless, hopeless


def _nearest_nodes(question: Question, evaluation: PodEvaluation, answer: Answer) -> list[NearNode]:
    """The rejected nodes with their shortcomings, the nearest first."""
    evaluator = evaluation.evaluator
    # A node that passes every filter may still be rejected because of nominated pods.
    against = {name: (status,) for name, status in answer.rejections.items()} | {
        name: statuses
        for name, statuses in evaluator.objections(evaluation.pod).items()
        if answer.considered is None or name in answer.considered
    }
    nearest: Iterable[str] = against
    if len(against) > MAX_EXAMINED:
        reasons = {name: sum(len(one.reasons) for one in statuses) for name, statuses in against.items()}
        nearest = sorted(against, key=lambda name: (reasons[name], name))[:MAX_EXAMINED]
    gates = effective_gates(question.configuration, question.feature_gates)
    needs = PodNeeds(
        PodInfo(evaluation.pod),
        compares_taints=gates.enabled("TaintTolerationComparisonOperators"),
        devices=cache(lambda: DeviceCounts(evaluator, evaluation.pod, gates)),
    )
    found = []
    for name in nearest:
        row = evaluator.cluster.row_of(name)
        if row is not None:
            found.append(NearNode(name, shortcomings(needs, NodeRow(evaluator.cluster, row), against[name])))
    found.sort(key=_distance)
    return found


def _distance(node: NearNode) -> tuple[bool, int, float, str]:
    """A sort key: nodes that could hold the pod first, then by the number and size of shortcomings."""
    misses = node.misses
    never = any(missed.never for missed in misses)
    return never, len(misses), sum(missed.distance for missed in misses), node.name


def _by_misses(near: Iterable[NearNode]) -> dict[tuple[str, ...], list[NearNode]]:
    """Nodes grouped by their shortcomings, the nearest first."""
    groups: dict[tuple[str, ...], list[NearNode]] = {}
    for node in near:
        groups.setdefault(tuple([missed.text for missed in node.misses]), []).append(node)
    return groups


def event_text(event: ClusterEvent) -> str:
    """`Node: Add, UpdateNodeTaint`."""
    left, labels = event.action, []
    for action in (Action.ALL, Action.UPDATE, *_SINGLE_ACTIONS):  # the widest name first
        if left & action == action:
            labels.append(action.label)
            left &= ~action
    return f"{event.resource}: {', '.join(sorted(labels))}"


def _score_table(answer: Answer, node: str) -> ScoreTable:
    ranked = sorted(answer.totals, key=lambda name: (-answer.totals[name], name))
    shown = ranked[:BEST_NODES]
    if node in answer.totals and node not in shown:
        shown[-1] = node
    return ScoreTable(
        feasible=len(answer.feasible),
        winner=node or ranked[0],
        reason=_winning_reason(answer, ranked, node),
        best=tuple(
            ScoredNode(
                name, answer.totals[name], {plugin: scores[name] for plugin, scores in answer.scores.items()}
            )
            for name in shown
        ),
    )


def _winning_reason(answer: Answer, ranked: list[str], node: str) -> str:
    """Why the winner scored highest, by the plugins that make the difference."""
    best = ranked[0]
    top = [name for name in ranked if answer.totals[name] == answer.totals[best]]
    if node and node not in answer.totals:
        return f"{node} is not feasible for the pod now"
    winner = node or best
    if winner not in top:
        return (
            f"now {best} would score {answer.totals[best]} and {winner} "
            f"{answer.totals[winner]}: {_lead(answer, best, winner)}"
        )
    if len(ranked) == 1:
        return f"{winner} is the only feasible node"
    if len(top) > 1:
        return f"{len(top)} nodes share the highest score, {answer.totals[best]}; one is chosen at random"
    return f"{winner} leads {ranked[1]} by {_lead(answer, winner, ranked[1])}"


def _lead(answer: Answer, one: str, other: str) -> str:
    """By how much each plugin scores one node above the other."""
    leads = {plugin: scores[one] - scores[other] for plugin, scores in answer.scores.items()}
    found = sorted(((plugin, lead) for plugin, lead in leads.items() if lead), key=lambda pair: -pair[1])
    return ", ".join(f"{lead:+d} {plugin}" for plugin, lead in found)


# JSON


def to_tree(explanation: Explanation) -> dict[str, Any]:
    """The explanation as a tree; empty fields are left out."""
    namespace, _, name = explanation.pod.rpartition("/")
    tree: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "pod": {"namespace": namespace, "name": name},
        "schedulerName": explanation.profile,
        "verdict": explanation.verdict,
        "nodes": explanation.nodes,
        "node": explanation.node,
        "message": explanation.message,
        "waiting": None if explanation.waiting is None else _waiting(explanation.waiting),
        "nominated": explanation.nominated,
        "missing": [
            {"kind": each.kind, "name": each.name, "text": each.text} for each in explanation.missing
        ],
        "feasible": explanation.answer.feasible,
        "rejected": explanation.rejected,
        "nearest": explanation.near,
        "preemption": explanation.preemption,
        "events": [
            {"plugin": plugin, "events": events} for plugin, events in (explanation.events or {}).items()
        ],
        "proposals": [{"text": each.text, "changes": each.edits} for each in explanation.proposals],
        "scores": explanation.scores,
        "notes": explanation.notes,
    }
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(tree))
    return {key: value for key, value in plain.items() if value not in (None, [], "")}


def _waiting(waiting: Waiting) -> dict[str, Any]:
    tree = {
        "queue": waiting.queue,
        "attempts": waiting.attempts,
        "since": _stamp(waiting.since),
        "nextAttempt": _stamp(waiting.next),
        "rejectedBy": list(waiting.rejected_by),
        "node": waiting.node or None,
        "heldBy": [
            {"plugin": hold.plugin, "since": _stamp(hold.since), "until": _stamp(hold.until)}
            for hold in waiting.held_by
        ]
        or None,
    }
    return {key: value for key, value in tree.items() if value is not None}


def _stamp(seconds: float | None) -> str | None:
    return None if seconds is None else timestamp(int(seconds * NANOSECONDS))
