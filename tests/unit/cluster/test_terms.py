from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kuberth.api.selectors import EVERYTHING, NOTHING, Selector, parse_selector
from kuberth.cluster import terms as terms_module
from kuberth.cluster.pod_info import PodInfo, PodMatcher
from kuberth.cluster.table import ClusterTable
from kuberth.cluster.term_index import UNDEMANDING, demanded_labels
from kuberth.cluster.terms import MAX_LONG_VALUES, MAX_TERMS_ONE_BY_ONE, Carried, CarriedTerms, Tally
from kuberth.testing.factories import make_node, make_pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def matcher(selector: str, *namespaces: str, namespace_selector: Selector = NOTHING) -> PodMatcher:
    return PodMatcher(frozenset(namespaces or ("default",)), namespace_selector, parse_selector(selector))


def rows_of(table: ClusterTable, tally: Tally) -> dict[str, int]:
    return {table.names[row]: tally.counts[row] for row in tally.counts.rows().tolist()}


def domains_of(table: ClusterTable, tally: Tally, key: str) -> dict[str | None, int]:
    label = table.label_column(key)
    sums = tally.by_domain(label)
    return {value: int(number) for value, number in zip(label.values, sums, strict=True) if number}


def place(table: ClusterTable, name: str, node: str, **pod: Any) -> PodInfo:
    info = PodInfo(make_pod(name, node=node, uid=name, **pod))
    table.add_pod(info)
    return info


@pytest.fixture
def table() -> ClusterTable:
    table = ClusterTable()
    for name, zone in (("n1", "a"), ("n2", "a"), ("n3", "b")):
        table.set_node(make_node(name, labels={"zone": zone}))
    table.set_node(make_node("n4"))
    return table


@pytest.mark.parametrize(
    ("selectors", "pairs"),
    [
        pytest.param([""], [UNDEMANDING], id="everything"),
        pytest.param([NOTHING], [], id="nothing"),
        pytest.param(["app=web"], [("app", "web")], id="one value"),
        pytest.param(["app in (web,db)"], [("app", "db"), ("app", "web")], id="several values"),
        pytest.param(["app in (web,db),tier=front"], [("tier", "front")], id="the fewest values"),
        pytest.param(["app!=web,!tier,x"], [UNDEMANDING], id="only exclusions and keys"),
        pytest.param(["!tier", "app=web"], [("app", "web")], id="any of several selectors"),
        pytest.param(["app=web", NOTHING], [], id="one of several matches nothing"),
    ],
)
def test_demanded_labels(selectors: list[str | Selector], pairs: list[tuple[str, str]]) -> None:
    compiled = [parse_selector(one) if isinstance(one, str) else one for one in selectors]
    assert sorted(demanded_labels(compiled)) == pairs


def test_a_term_counts_by_row_and_by_domain(table: ClusterTable) -> None:
    place(table, "early", "n1", labels={"app": "web"})
    tally = table.terms.tally(matcher("app=web"))
    assert domains_of(table, tally, "zone") == {"a": 1}
    place(table, "web", "n3", labels={"app": "web", "x": "1"})
    place(table, "no-zone", "n4", labels={"app": "web"})
    place(table, "db", "n3", labels={"app": "db"})
    place(table, "elsewhere", "n3", namespace="other", labels={"app": "web"})
    assert rows_of(table, tally) == {"n1": 1, "n3": 1, "n4": 1}
    assert domains_of(table, tally, "zone") == {"a": 1, "b": 1, None: 1}
    assert tally is table.terms.tally(matcher("app in (web)"))


def test_several_matchers_count_pods_that_all_speak_of(table: ClusterTable) -> None:
    place(table, "both", "n1", labels={"app": "web", "tier": "front"})
    place(table, "one", "n2", labels={"app": "web"})
    tally = table.terms.tally(matcher("app=web"), matcher("tier", "default", "other"))
    assert rows_of(table, tally) == {"n1": 1}


def test_terminating_pods_are_counted_on_demand(table: ClusterTable) -> None:
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    place(table, "going", "n1", labels={"app": "web"}, metadata=deleted)
    assert rows_of(table, table.terms.tally(matcher("app=web"))) == {"n1": 1}
    assert rows_of(table, table.terms.tally(matcher("app=web"), with_terminating=False)) == {}


def test_sums_among_some_rows(table: ClusterTable) -> None:
    for index, node in enumerate(("n1", "n2", "n2", "n3", "n4")):
        place(table, f"p{index}", node, labels={"app": "web"})
    tally = table.terms.tally(matcher("app=web"))
    label = table.label_column("zone")
    among = table.live[: table.slots].copy()
    among[table.row_of("n2")] = False
    sums = dict(zip(label.values, tally.by_domain(label, among).tolist(), strict=True))
    assert sums == {None: 1, "a": 1, "b": 1}


def test_whether_pods_are_in_any_domain(table: ClusterTable) -> None:
    tally = table.terms.tally(matcher("app=web"))
    label = table.label_column("zone")
    assert not tally.is_in_any_domain(label)
    place(table, "no-zone", "n4", labels={"app": "web"})
    assert not tally.is_in_any_domain(label)
    place(table, "zone", "n3", labels={"app": "web"})
    assert tally.is_in_any_domain(label)


def test_a_what_if_is_followed_and_undone(table: ClusterTable) -> None:
    placed = place(table, "web", "n1", labels={"app": "web"})
    tally = table.terms.tally(matcher("app=web"))
    assert domains_of(table, tally, "zone") == {"a": 1}
    other = PodInfo(make_pod("other", labels={"app": "web"}))
    n1, n3 = table.row_of("n1"), table.row_of("n3")
    assert n1 is not None
    assert n3 is not None
    with table.what_if() as what_if:
        what_if.remove_pod(placed, n1)
        assert domains_of(table, tally, "zone") == {}
        what_if.add_pod(other, n3)
        assert domains_of(table, tally, "zone") == {"b": 1}
    assert domains_of(table, tally, "zone") == {"a": 1}


def test_relabelled_and_removed_nodes_are_followed(table: ClusterTable) -> None:
    place(table, "one", "n1", labels={"app": "web"})
    place(table, "two", "n2", labels={"app": "web"})
    tally = table.terms.tally(matcher("app=web"))
    assert domains_of(table, tally, "zone") == {"a": 2}
    table.set_node(make_node("n2", labels={"zone": "c"}))
    assert domains_of(table, tally, "zone") == {"a": 1, "c": 1}
    table.remove_node("n1")
    assert domains_of(table, tally, "zone") == {"c": 1}


def test_terms_that_select_namespaces_follow_their_labels(table: ClusterTable) -> None:
    place(table, "web", "n1", namespace="team", labels={"app": "web"})
    term = matcher("app=web", namespace_selector=parse_selector("env=prod"))
    assert rows_of(table, table.terms.tally(term)) == {}
    table.set_namespace("team", {"env": "prod"})
    assert rows_of(table, table.terms.tally(term)) == {"n1": 1}
    table.set_namespace("team", None)
    assert rows_of(table, table.terms.tally(term)) == {}


def test_terms_unused_for_longest_are_forgotten(table: ClusterTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terms_module, "MAX_COUNTED_TERMS", 2)
    web = table.terms.tally(matcher("app=web"))
    db = table.terms.tally(matcher("app=db"))
    assert table.terms.tally(matcher("app=web")) is web
    table.terms.tally(matcher("app=cache"))
    place(table, "p", "n1", labels={"app": "web"})
    place(table, "q", "n2", labels={"app": "db"})
    assert rows_of(table, web) == {"n1": 1}
    assert rows_of(table, db) == {}, "no longer counted"
    assert rows_of(table, table.terms.tally(matcher("app=db"))) == {"n2": 1}, "counted afresh"


def test_terms_with_many_values_are_forgotten_sooner(table: ClusterTable) -> None:
    short = table.terms.tally(matcher("app=web", "default"))
    for number in range(100):
        values = ",".join(f"{number}-{value}" for value in range(10_000))
        long = matcher(f"app notin ({values})", "default")
        assert table.terms.tally(long) is table.terms.tally(long)
    values_kept = sum(term.length for term in table.terms._counted)
    assert values_kept <= MAX_LONG_VALUES + 1
    assert table.terms._long_values == values_kept - 1
    assert len(table.terms._long) == 20
    assert table.terms.tally(matcher("app=web", "default")) is short


def affinity(**roles: Any) -> Mapping[str, Any]:
    return {"affinity": {kind: terms for kind, terms in roles.items() if terms}}


def term(labels: Mapping[str, str], key: str = "zone", **more: Any) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": key, **more}


def test_terms_that_placed_pods_carry_are_found_by_the_pod_they_speak_of(table: ClusterTable) -> None:
    far = affinity(podAntiAffinity={REQUIRED: [term({"app": "web"})]})
    place(table, "one", "n1", **far)
    place(table, "two", "n3", **far)
    place(table, "three", "n3", **affinity(podAntiAffinity={REQUIRED: [term({})]}))
    place(
        table, "four", "n3", **affinity(podAffinity={PREFERRED: [{"weight": 7, "podAffinityTerm": term({})}]})
    )

    def about(role: Carried, **pod: Any) -> Counter[str]:
        found: Counter[str] = Counter()
        for each in table.terms.contributions(role, PodInfo(make_pod("in", **pod))):
            found.update(rows_of(table, each.pods))
        return found

    assert about(Carried.REQUIRED_ANTI_AFFINITY, labels={"app": "web"}) == {"n1": 1, "n3": 2}
    assert about(Carried.REQUIRED_ANTI_AFFINITY, labels={"app": "db"}) == {"n3": 1}
    assert about(Carried.REQUIRED_ANTI_AFFINITY, labels={"app": "web"}, namespace="other") == {}
    (worth,) = table.terms.contributions(Carried.PREFERRED, PodInfo(make_pod("in")))
    assert rows_of(table, worth.counts) == {"n3": 1}
    assert worth.weight == 7
    assert rows_of(table, worth.pods) == {"n3": 1}
    assert [carried.weight for carried in table.terms.carried(Carried.PREFERRED)] == [7]
    for uid in ("one", "two", "three"):
        table.remove_pod(uid)
    assert about(Carried.REQUIRED_ANTI_AFFINITY, labels={"app": "web"}) == {}
    assert not table.terms.carried(Carried.REQUIRED_ANTI_AFFINITY)


SELECTORS = (
    "",
    "app=web",
    "app in (web,db)",
    "app!=web",
    "tier",
    "!tier",
    "app=web,tier=front",
    "app=db,!tier",
)
apps = st.sampled_from(["", "web", "db", "cache"])
tiers = st.sampled_from(["", "front", "back"])
nodes = st.sampled_from(["n1", "n2", "n3", "n4"])
namespaces = st.sampled_from(["default", "other"])


class CountsAreWhatCountingWouldFind(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.table = ClusterTable()
        for name in ("n1", "n2", "n3", "n4"):
            self.table.set_node(make_node(name))
        self.asked: set[PodMatcher] = set()
        self.names = 0

    @rule(node=nodes, namespace=namespaces, app=apps, tier=tiers)
    def place(self, node: str, namespace: str, app: str, tier: str) -> None:
        self.names += 1
        labels = {key: value for key, value in (("app", app), ("tier", tier)) if value}
        place(self.table, f"p{self.names}", node, namespace=namespace, labels=labels)

    @rule(pick=st.integers(0, 1000))
    def remove(self, pick: int) -> None:
        uids = sorted(info.uid for info in self.table.placed_pods())
        if uids:
            self.table.remove_pod(uids[pick % len(uids)])

    @rule(node=nodes, zone=st.sampled_from(["", "a", "b", "c"]))
    def relabel(self, node: str, zone: str) -> None:
        self.table.set_node(make_node(node, labels={"zone": zone} if zone else {}))

    @rule(namespace=namespaces, env=st.sampled_from([None, "prod", "test"]))
    def label_namespace(self, namespace: str, env: str | None) -> None:
        self.table.set_namespace(namespace, {"env": env} if env else None)

    @rule(
        selector=st.sampled_from(SELECTORS),
        listed=namespaces,
        namespace_selector=st.sampled_from([NOTHING, EVERYTHING, parse_selector("env=prod")]),
    )
    def ask(self, selector: str, listed: str, namespace_selector: Selector) -> None:
        self.asked.add(matcher(selector, listed, namespace_selector=namespace_selector))

    @invariant()
    def counts_agree(self) -> None:
        terms = self.table.terms
        for asked in self.asked:
            found = [
                info
                for info in self.table.placed_pods()
                if asked.matches(info.namespace, info.labels, terms.namespace_labels(info.namespace))
            ]
            tally = terms.tally(asked)
            assert rows_of(self.table, tally) == Counter(info.node_name for info in found)
            by_zone = Counter(
                self.table.node_at(row).metadata.labels.get("zone")
                for info in found
                if (row := self.table.row_of(info.node_name)) is not None
            )
            assert domains_of(self.table, tally, "zone") == by_zone


CountsAreWhatCountingWouldFind.TestCase.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None
)
TestCountsAreWhatCountingWouldFind = CountsAreWhatCountingWouldFind.TestCase


def test_nothing_is_summed_by_a_label_that_no_node_has() -> None:
    table = ClusterTable()
    table.set_node(make_node("n1"))
    table.add_pod(PodInfo(make_pod("p", node="n1", labels={"app": "a"})))
    tally = table.terms.tally(PodMatcher(frozenset({"default"}), NOTHING, EVERYTHING))
    columns = [table.label_column(f"key-{number}") for number in range(100)]
    assert not any(tally.is_in_any_domain(column) for column in columns)
    assert not tally._domains, "each would cost every pod that comes or goes"
    table.set_node(make_node("n1", labels={"key-7": "x"}))
    assert [column.key for column in columns if tally.is_in_any_domain(column)] == ["key-7"]


def test_labels_that_a_binding_brings_leave_the_terms_of_a_pod_as_they_are(table: ClusterTable) -> None:
    terms = [{"weight": 1, "podAffinityTerm": term({"app": f"a{number}"})} for number in range(100)]
    near = affinity(podAffinity={PREFERRED: terms}, podAntiAffinity={REQUIRED: [term({"app": "a7"})]})
    place(table, "one", "n1", labels={"app": "web"}, **near)
    versions = [table.terms.carried_in(role).version for role in Carried]
    renewed = make_pod("one", node="n1", uid="one", labels={"app": "web", "zone": "z"}, **near)
    with patch.object(CarriedTerms, "add", side_effect=AssertionError("the terms are the same")):
        assert table.renew_pod(renewed)
    assert [table.terms.carried_in(role).version for role in Carried] == versions
    assert table.terms.tally(matcher("zone=z")).counts.total == 1
    table.remove_pod("one")
    assert not any(table.terms.carried(role) for role in Carried)


def test_few_terms_of_a_topology_are_not_summed(table: ClusterTable) -> None:
    keys = [f"key-{number}" for number in range(MAX_TERMS_ONE_BY_ONE + 1)]
    place(table, "one", "n1", **affinity(podAntiAffinity={REQUIRED: [term({}, key) for key in keys]}))
    topologies = table.terms.carried_in(Carried.REQUIRED_ANTI_AFFINITY)._by_topology
    assert len(topologies) == len(keys)
    assert not any(each.sums for each in topologies.values()), "each would take arrays of its own"
