"""Random clusters: every proposal helps, no part is superfluous, and no single change is missed.

The brute force applies every single change of the kinds that proposals consist of. `KUBERTH_EXPLAIN_EXAMPLES`
sets the number of clusters.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kuberth.api.core import Node, Pod, PodAffinityTerm
from kuberth.evaluation import Evaluator
from kuberth.explaining import Question, explain
from kuberth.explaining.edits import (
    CORDON_TAINT,
    AddNodes,
    DeletePod,
    DropAffinity,
    DropNodeAffinity,
    DropNodeSelector,
    Edit,
    EditedCluster,
    RelaxSpread,
    RemoveTaint,
    ScaleRequest,
    SetLabel,
    Tolerate,
    Uncordon,
    affinity_text,
    spread_text,
)
from kuberth.explaining.proposals import TRIED_IN_FULL
from kuberth.informers.store import object_key
from kuberth.testing import make_node, make_pod

EXAMPLES = int(os.environ.get("KUBERTH_EXPLAIN_EXAMPLES", "60"))

TAINTS = [
    {"key": "gpu", "value": "a", "effect": "NoSchedule"},
    {"key": "gpu", "value": "b", "effect": "NoSchedule"},
    {"key": "broken", "effect": "NoExecute"},
]
CORDON = {"key": CORDON_TAINT, "effect": "NoSchedule"}
TOLERATIONS = [{"key": "gpu", "operator": "Exists"}, {"key": "broken", "operator": "Exists"}]
LABELS = st.dictionaries(st.sampled_from(["zone", "disk"]), st.sampled_from(["a", "b"]), max_size=2)
APPS = ["x", "y"]
OWNERS = [None, "DaemonSet", "ReplicaSet"]


def owned(kind: str | None) -> dict[str, Any]:
    return (
        {} if kind is None else {"metadata": {"ownerReferences": [{"kind": kind, "name": "own", "uid": "u"}]}}
    )


@st.composite
def clusters(draw: st.DrawFn) -> list[Any]:
    objects: list[Any] = []
    for number in range(draw(st.integers(1, 8))):
        name = f"n{number}"
        taints = draw(st.lists(st.sampled_from(TAINTS), max_size=2, unique_by=lambda taint: taint["key"]))
        is_cordoned = draw(st.integers(0, 2)) == 0
        if is_cordoned and draw(st.booleans()):
            taints = [*taints, CORDON]
        objects.append(
            make_node(
                name,
                cpu=draw(st.sampled_from(["1", "2", "4", "8"])),
                memory=draw(st.sampled_from(["2Gi", "8Gi"])),
                pods=draw(st.sampled_from(["1", "2", "110"])),
                labels=draw(LABELS),
                taints=taints,
                unschedulable=is_cordoned,
            )
        )
        objects += (draw(placed(f"q{number}-{other}", name)) for other in range(draw(st.integers(0, 3))))
    return objects


@st.composite
def placed(draw: st.DrawFn, name: str, node: str) -> Pod:
    return make_pod(
        name,
        cpu=draw(st.sampled_from(["500m", "1", "2"])),
        memory=draw(st.sampled_from([None, "1Gi", "4Gi"])),
        node=node,
        priority=draw(st.integers(0, 2)),
        labels={"app": draw(st.sampled_from(APPS))},
        affinity=draw(st.sampled_from([{}] * 7 + [apart(app, "zone") for app in APPS])),
        **owned(draw(st.sampled_from(OWNERS))),
    )


def selecting(app: str, key: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def apart(app: str, key: str) -> dict[str, Any]:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [selecting(app, key)]}}


def near(app: str, key: str) -> dict[str, Any]:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [selecting(app, key)]}}


def on_disk(value: str) -> dict[str, Any]:
    wanted = [{"matchExpressions": [{"key": "disk", "operator": "In", "values": [value]}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": wanted}}}


def evenly(app: str) -> dict[str, Any]:
    spread = selecting(app, "zone") | {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [spread]}


@st.composite
def constraints(draw: st.DrawFn) -> dict[str, Any]:
    """Affinity and spread of the pending pod; half of the pods have none."""
    if draw(st.booleans()):
        return {}
    more: dict[str, Any] = {}
    affinity: dict[str, Any] = {}
    app = draw(st.sampled_from(APPS))
    key = draw(st.sampled_from(["zone", "kubernetes.io/hostname"]))
    for part in draw(st.lists(st.sampled_from(["apart", "near", "disk", "spread"]), max_size=2, unique=True)):
        match part:
            case "apart":
                affinity |= apart(app, key)
            case "near":
                affinity |= near(app, "zone")
            case "disk":
                affinity |= on_disk("a")
            case _:
                more |= evenly(app)
    return more | ({"affinity": affinity} if affinity else {})


@st.composite
def pending(draw: st.DrawFn) -> Pod:
    containers: list[dict[str, Any]] = [
        {"name": f"c{number}", "resources": {"requests": draw(requests())}}
        for number in range(draw(st.integers(1, 2)))
    ]
    more: dict[str, Any] = {}
    if draw(st.integers(0, 3)) == 0:
        more["initContainers"] = [{"name": "init", "resources": {"requests": draw(requests())}}]
    return make_pod(
        "p",
        containers=containers,
        priority=draw(st.integers(0, 2)),
        nodeSelector=draw(LABELS),
        tolerations=draw(st.lists(st.sampled_from(TOLERATIONS), max_size=1)),
        labels={"app": draw(st.sampled_from(APPS))},
        **owned(draw(st.sampled_from([None, "ReplicaSet"]))),
        **draw(constraints()),
        **more,
    )


@st.composite
def requests(draw: st.DrawFn) -> dict[str, str]:
    found = {"cpu": draw(st.sampled_from(["500m", "1", "2", "6", "12"]))}
    if draw(st.booleans()):
        found["memory"] = draw(st.sampled_from(["1Gi", "4Gi", "12Gi"]))
    return found


class Oracle:
    """Whether the pod fits after changes, by an evaluator that the explanation does not see."""

    def __init__(self, pod: Pod, objects: Iterable[Any]) -> None:
        self.pod = pod
        self.evaluator = Evaluator(objects, with_plans=False)
        self.nodes = {node.metadata.name: node for node in self.evaluator.stores.of(Node)}

    def fits(self, *changes: Edit) -> bool:
        edited = EditedCluster(self.pod, self.nodes.get)
        for change in changes:
            edited = change.apply(edited)
        gone = [pod for pod in self.evaluator.stores.of(Pod) if object_key(pod) in edited.gone]
        self.evaluator.remove(*gone)
        self.evaluator.add(*edited.nodes.values())
        found = bool(self.evaluator.feasible(edited.pod))
        self.evaluator.remove(*(edited.nodes[name] for name in edited.nodes.keys() - self.nodes.keys()))
        self.evaluator.add(*(self.nodes[name] for name in edited.nodes if name in self.nodes), *gone)
        return found


def single_changes(pod: Pod, objects: Iterable[Any]) -> Iterator[Edit]:
    """All single changes, with each request lowered as far as the pod still requests some of the resource."""
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        for resource, amount in container.resources.requests.items():
            others = [each for each in pod.spec.containers if each.name != container.name]
            is_shared = any(resource in each.resources.requests for each in others)
            least = "0" if is_shared else "1m" if resource == "cpu" else "1"
            yield ScaleRequest(container.name, resource, str(amount), least)
    yield from map(DropNodeSelector, pod.spec.node_selector)
    yield from own_constraints(pod)
    keys = {each.topology_key for each in pod.spec.topology_spread_constraints}
    keys |= {term.topology_key for term in required(pod, "pod_affinity")}
    for obj in objects:
        name = obj.metadata.name
        if isinstance(obj, Pod):
            owners = {owner.kind for owner in obj.metadata.owner_references}
            own = {owner.kind for owner in pod.metadata.owner_references}
            if "DaemonSet" not in owners and not owners & own:
                yield DeletePod(f"default/{name}", obj.spec.node_name)
            continue
        yield from (SetLabel(name, key, wanted) for key, wanted in pod.spec.node_selector.items())
        for key in keys - obj.metadata.labels.keys():
            # Of a topology key, values that other nodes have.
            values = {each.metadata.labels.get(key) for each in objects if isinstance(each, Node)} - {None}
            yield from (SetLabel(name, key, value) for value in values)
        if has_node_affinity(pod):
            yield SetLabel(name, "disk", "a")
        yield AddNodes(name, 1)
        if obj.spec.unschedulable:
            yield Uncordon(name)
        for taint in obj.spec.taints:
            if taint.key != CORDON_TAINT:
                yield Tolerate(taint.key, taint.value, taint.effect)
                yield RemoveTaint(name, taint.key, taint.value, taint.effect)


def has_terms(pod: Pod, objects: Iterable[Any]) -> bool:
    """Whether the place of other pods matters to the pod, or to one of them."""
    pods = [pod, *(obj for obj in objects if isinstance(obj, Pod))]
    return any(each.spec.affinity or each.spec.topology_spread_constraints for each in pods)


def own_constraints(pod: Pod) -> Iterator[Edit]:
    """Changes that drop one constraint of the pod."""
    if has_node_affinity(pod):
        yield DropNodeAffinity()
    yield from (DropAffinity("podAffinity", affinity_text(term)) for term in required(pod, "pod_affinity"))
    terms = required(pod, "pod_anti_affinity")
    yield from (DropAffinity("podAntiAffinity", affinity_text(term)) for term in terms)
    yield from (RelaxSpread(spread_text(each)) for each in pod.spec.topology_spread_constraints)


def has_node_affinity(pod: Pod) -> bool:
    return getattr(pod.spec.affinity, "node_affinity", None) is not None


def required(pod: Pod, kind: str) -> tuple[PodAffinityTerm, ...]:
    found = getattr(pod.spec.affinity, kind, None)
    return () if found is None else found.required_during_scheduling_ignored_during_execution


@given(pending(), clusters())
@settings(deadline=None, max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
def test_proposals_help_are_minimal_and_miss_no_single_change(pod: Pod, objects: list[Any]) -> None:
    explanation, oracle = explain(Question(pod, objects)), Oracle(pod, objects)
    assert (explanation.verdict == "fits") == oracle.fits()
    if explanation.verdict == "fits":
        assert explanation.proposals == ()
        return
    for proposal in explanation.proposals:
        assert oracle.fits(*proposal.edits), proposal
        number = len(proposal.edits)
        for size in range(1 if number <= TRIED_IN_FULL else number - 2, number):
            for part in combinations(proposal.edits, size):
                assert not oracle.fits(*part), (proposal, part)
    harms = [max(edit.harm for edit in proposal.edits) for proposal in explanation.proposals]
    assert harms == sorted(harms)
    alone = [each.edits[0] for each in explanation.proposals if len(each.edits) == 1]
    helpful = {type(each) for each in single_changes(pod, objects) if oracle.fits(each)}
    # Of every kind of change that helps alone, one is proposed. The scheduler itself may evict other pods.
    evicting = {DeletePod for each in alone if isinstance(each, DeletePod) and each.preempted}
    found = {type(each) for each in alone}
    assert found <= helpful | evicting
    # Where pods keep to others, or away, any pod of a zone may be in the way; another change will do.
    missed = helpful - found
    assert missed <= ({DeletePod, AddNodes} if found and has_terms(pod, objects) else set())
