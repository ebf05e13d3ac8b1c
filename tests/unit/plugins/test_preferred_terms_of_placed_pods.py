"""Scores by terms of placed pods, and by thousands of own ones, summed or not, equal those of asking each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kuberth.api.selectors import Selector
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.cluster.terms import Carried
from kuberth.plugins.inter_pod_affinity.filtering import matcher_of_placed_pods
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
    for info in pods:
        placed = table.placed(info.uid)
        assert placed is not None
        home = table.node_named(placed.pod.spec.node_name)
        assert home is not None
        for each in incoming.preferred_terms:
            labels = table.terms.namespace_labels(info.namespace)
            if matcher_of_placed_pods(each.term).matches(info.namespace, info.labels, labels):
                domain = home.labels.get(each.term.topology_key)
                for number in range(4):
                    node = table.node_named(f"n{number}")
                    assert node is not None
                    if domain is not None and node.labels.get(each.term.topology_key) == domain:
                        scores[number] += each.weight
    return scores


@pytest.mark.parametrize("many", [-1, 1, 64], ids=["summed", "mixed", "one by one"])
@settings(max_examples=150)
@given(PLACED, LABELS, NAMESPACES, affinities())
def test_sums_and_single_terms_give_the_same_scores(
    many: int,
    placed: list[tuple[str, dict[str, Any], int, bool]],
    labels: dict[str, str],
    namespace: str,
    own: dict[str, Any],
) -> None:
    with (
        patch("kuberth.cluster.terms.MAX_TERMS_ONE_BY_ONE", many),
        patch("kuberth.plugins.inter_pod_affinity.scoring.MAX_TERMS_ONE_BY_ONE", many),
        patch("kuberth.plugins.inter_pod_affinity.plugin.MAX_TERMS_ONE_BY_ONE", many),
    ):
        _compare(placed, labels, namespace, own)


def _compare(
    placed: list[tuple[str, dict[str, Any], int, bool]],
    labels: dict[str, str],
    namespace: str,
    own: dict[str, Any],
) -> None:
    table = ClusterTable()
    for name in ("default", "other"):
        table.terms.set_namespace(name, make_namespace(name).metadata.labels)
    for number in range(4):
        table.set_node(make_node(f"n{number}", labels={"zone": f"z{number % 2}"} if number else {}))
    pods = []
    for number, (home, affinity, node, leaves) in enumerate(placed):
        own_labels = {"app": VALUES[number % 2]} if number % 3 else {}
        info = PodInfo(
            make_pod(f"p{number}", namespace=home, affinity=affinity, node=f"n{node}", labels=own_labels)
        )
        table.add_pod(info)
        if leaves:
            table.remove_pod(info.uid)
        else:
            pods.append(info)
    incoming = PodInfo(make_pod("incoming", namespace=namespace, labels=labels, affinity=own))
    scores = DomainScores(incoming, table, required_affinity_weight=HARD_WEIGHT)
    assert scores.over(table.all_nodes()).tolist() == expected(table, pods, incoming)
    if scores.is_empty:
        assert expected(table, pods, incoming) == [0] * 4
    for info in pods:
        table.remove_pod(info.uid)
    assert DomainScores(incoming, table, required_affinity_weight=HARD_WEIGHT).is_empty
    assert not any(table.terms.carried_in(role)._by_topology for role in Carried)
    assert not table.terms._classes


def _preferring(name: str, number: int, term: Callable[[int], dict[str, Any]], **pod: Any) -> PodInfo:
    terms = [
        {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", **term(each)}} for each in range(number)
    ]
    affinity = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    return PodInfo(make_pod(name, affinity=affinity, **pod))


def _expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}


MANY_VALUES = [f"value-{number}" for number in range(10)]


@pytest.mark.parametrize(
    "term",
    [
        lambda number: {
            "labelSelector": _expression("absent", "DoesNotExist"),
            "namespaceSelector": _expression("x", "NotIn", f"{number}"),
        },
        lambda number: {"labelSelector": _expression("tier", "NotIn", f"{number}", *MANY_VALUES)},
        lambda number: {"labelSelector": _expression("tier", "In", f"{number}", "web", *MANY_VALUES)},
        lambda number: {
            "labelSelector": {
                "matchExpressions": [
                    {"key": "tier", "operator": "DoesNotExist"},
                    {"key": "x", "operator": "NotIn", "values": [f"{number}"]},
                ]
            }
        },
        lambda number: {
            "labelSelector": {
                "matchLabels": {"tier": "web"},
                "matchExpressions": [{"key": "x", "operator": "NotIn", "values": [f"{number}"]}],
            }
        },
    ],
    ids=["namespace selectors", "not in", "in", "label that pods have", "value that pods have"],
)
def test_thousands_of_terms_are_one_contribution_and_no_selector_is_asked(
    term: Callable[[int], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = ClusterTable()
    table.terms.set_namespace("default", {})
    table.set_node(make_node("n0", labels={"zone": "z"}))
    table.add_pod(_preferring("placed", 2000, term, node="n0"))
    scored = PodInfo(make_pod("first", labels={"tier": "web", "app": "first"}))
    list(table.terms.contributions(Carried.PREFERRED, scored))
    asked: list[object] = []
    matches = Selector.matches

    def counting(selector: Selector, labels: Mapping[str, str]) -> bool:
        asked.append(selector)
        return matches(selector, labels)

    monkeypatch.setattr(Selector, "matches", counting)
    ordinary = PodInfo(make_pod("second", labels={"tier": "web", "app": "second"}))
    assert len(list(table.terms.contributions(Carried.PREFERRED, ordinary))) <= 1
    assert asked == []


def test_thousands_of_own_terms_leave_no_counted_terms_behind() -> None:
    table = ClusterTable()
    table.set_node(make_node("n0", labels={"zone": "z"}))
    table.add_pod(PodInfo(make_pod("placed", labels={"tier": "web"}, node="n0")))
    own = _preferring(
        "own", 2000, lambda number: {"labelSelector": _expression("tier", "NotIn", f"{number}")}
    )
    scores = DomainScores(own, table, required_affinity_weight=1)
    assert scores.over(table.all_nodes()).tolist() == [2000]
    assert not table.terms._counted
