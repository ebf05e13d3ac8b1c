"""Scores by terms of placed pods, summed over all that only exclude, equal those of asking each term."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.cluster.terms import Carried
from kuberth.plugins.inter_pod_affinity.scoring import DomainScores
from kuberth.testing import make_namespace, make_node, make_pod

KEYS, VALUES = ("app", "tier", "x"), ("a", "b")
TOPOLOGIES = ("zone", "kubernetes.io/hostname", "nowhere")
HARD_WEIGHT = 3


@st.composite
def requirements(draw: st.DrawFn) -> dict[str, Any]:
    operator = draw(st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "NotIn", "DoesNotExist")))
    values = draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=2, unique=True))
    if draw(st.booleans()):
        values += [f"other-{number}" for number in range(10)]
    key = draw(st.sampled_from(KEYS))
    return {"key": key, "operator": operator, **({"values": values} if operator.endswith("In") else {})}


@st.composite
def terms(draw: st.DrawFn) -> dict[str, Any]:
    expressions = draw(st.lists(requirements(), max_size=2))
    where: dict[str, Any] = draw(st.sampled_from(({}, {"namespaces": ["other"]}, {"namespaceSelector": {}})))
    return {
        "topologyKey": draw(st.sampled_from(TOPOLOGIES)),
        "labelSelector": {"matchExpressions": expressions},
        **where,
    }


@st.composite
def affinities(draw: st.DrawFn) -> dict[str, Any]:
    weighted = st.builds(
        lambda weight, term: {"weight": weight, "podAffinityTerm": term}, st.integers(1, 5), terms()
    )
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return {
        "podAffinity": {
            preferred: draw(st.lists(weighted, max_size=3)),
            required: draw(st.lists(terms(), max_size=2)),
        },
        "podAntiAffinity": {preferred: draw(st.lists(weighted, max_size=3))},
    }


LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
NAMESPACES = st.sampled_from(("default", "other"))
PLACED = st.lists(st.tuples(NAMESPACES, affinities(), st.integers(0, 3), st.booleans()), max_size=5)


def expected(table: ClusterTable, pods: list[PodInfo], incoming: PodInfo) -> list[int]:
    scores = [0] * 4
    for info in pods:
        placed = table.placed(info.uid)
        assert placed is not None
        home = table.node_named(placed.pod.spec.node_name)
        assert home is not None
        weighted = [(each.term, each.weight) for each in info.preferred_terms]
        weighted += [(term, HARD_WEIGHT) for term in info.required_affinity]
        for term, weight in weighted:
            namespace_labels = table.terms.namespace_labels(incoming.namespace)
            if not term.pods.matches(incoming.namespace, incoming.labels, namespace_labels):
                continue
            domain = home.labels.get(term.topology_key)
            for number in range(4):
                node = table.node_named(f"n{number}")
                assert node is not None
                if domain is not None and node.labels.get(term.topology_key) == domain:
                    scores[number] += weight
    return scores


@settings(max_examples=150)
@given(PLACED, LABELS, NAMESPACES)
def test_sums_and_single_terms_give_the_same_scores(
    placed: list[tuple[str, dict[str, Any], int, bool]], labels: dict[str, str], namespace: str
) -> None:
    table = ClusterTable()
    for name in ("default", "other"):
        table.terms.set_namespace(name, make_namespace(name).metadata.labels)
    for number in range(4):
        table.set_node(make_node(f"n{number}", labels={"zone": f"z{number % 2}"} if number else {}))
    pods = []
    for number, (home, affinity, node, leaves) in enumerate(placed):
        info = PodInfo(make_pod(f"p{number}", namespace=home, affinity=affinity, node=f"n{node}"))
        table.add_pod(info)
        if leaves:
            table.remove_pod(info.uid)
        else:
            pods.append(info)
    incoming = PodInfo(make_pod("incoming", namespace=namespace, labels=labels))
    scores = DomainScores(incoming, table, required_affinity_weight=HARD_WEIGHT)
    assert scores.over(table.all_nodes()).tolist() == expected(table, pods, incoming)
    if scores.is_empty:
        assert expected(table, pods, incoming) == [0] * 4
    for info in pods:
        table.remove_pod(info.uid)
    assert DomainScores(incoming, table, required_affinity_weight=HARD_WEIGHT).is_empty
    assert not any(table.terms.carried_in(role)._by_topology for role in Carried)
