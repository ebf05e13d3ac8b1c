from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.cluster.node_order import interleaved_by_zone, zone_of
from kuberth.cluster.table import ClusterTable
from kuberth.testing import make_node

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"


@pytest.mark.parametrize(
    ("labels", "zone"),
    [
        ({}, ("", "")),
        ({ZONE: "z"}, ("", "z")),
        ({REGION: "r"}, ("r", "")),
        ({ZONE: "z", REGION: "r"}, ("r", "z")),
        ({OLD_ZONE: "z", OLD_REGION: "r"}, ("r", "z")),
        ({ZONE: "new", OLD_ZONE: "old"}, ("", "new")),
    ],
    ids=["none", "zone", "region", "both", "old-labels", "new-before-old"],
)
def test_zone_of(labels: dict[str, str], zone: tuple[str, str]) -> None:
    assert zone_of(make_node("n", labels=labels)) == zone


def test_zones_take_turns() -> None:
    table = ClusterTable()
    for name, zone in (("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("c1", "c"), ("c2", "c")):
        table.set_node(make_node(name, labels={ZONE: zone}))
    assert [table.names[row] for row in table.order()] == ["a1", "b1", "c1", "a2", "c2", "a3"]


def test_the_order_follows_the_nodes() -> None:
    table = ClusterTable()
    for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        table.set_node(make_node(name, labels={ZONE: zone}))
    first = table.order()
    table.set_node(make_node("a2", labels={ZONE: "a"}, cpu="1"))
    assert table.order() is first, "what does not concern zones costs nothing"
    table.set_node(make_node("a2", labels={ZONE: "c"}))
    assert [table.names[row] for row in table.order()] == ["a1", "a2", "b1"]
    table.remove_node("a1")
    assert [table.names[row] for row in table.order()] == ["a2", "b1"]
    table.set_node(make_node("d1"))
    assert sorted(table.names[row] for row in table.order()) == ["a2", "b1", "d1"]


@given(st.lists(st.sampled_from("abcd"), max_size=30))
def test_all_rows_and_no_zone_gets_ahead(zones: list[str]) -> None:
    nodes = [(row, make_node(f"n{row}", labels={ZONE: zone})) for row, zone in enumerate(zones)]
    order = interleaved_by_zone(nodes).tolist()
    assert sorted(order) == list(range(len(zones)))
    total, seen = Counter(zones), Counter[str]()
    for row in order:
        zone = zones[row]
        # A zone has its turn only when every other one has had as many, or has no node left.
        assert all(seen[other] >= min(seen[zone], total[other]) for other in total)
        seen[zone] += 1
