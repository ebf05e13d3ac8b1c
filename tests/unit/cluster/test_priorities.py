"""Rows by the priority of their pods, and what-ifs whose changes cancel out."""

from __future__ import annotations

import pytest

from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.testing.factories import make_node, make_pod


def table() -> ClusterTable:
    """Row 0 has pods of priority -1 and 10, row 1 of 10, row 2 none."""
    cluster = ClusterTable()
    for name in ("a", "b", "c"):
        cluster.set_node(make_node(name))
    for name, node, priority in (("a1", "a", -1), ("a2", "a", 10), ("b1", "b", 10)):
        cluster.add_pod(PodInfo(make_pod(name, uid=name, node=node, priority=priority, cpu="1")))
    return cluster


@pytest.mark.parametrize(
    ("priority", "expected"),
    [
        pytest.param(-1, [False, False, False], id="none is below the lowest"),
        pytest.param(0, [True, False, False], id="one"),
        pytest.param(10, [True, False, False], id="an equal one is not below"),
        pytest.param(11, [True, True, False], id="all"),
    ],
)
def test_rows_with_a_pod_of_lower_priority(priority: int, expected: list[bool]) -> None:
    assert table().rows_with_priority_below(priority).tolist() == expected


def test_a_pod_that_leaves_is_no_longer_counted() -> None:
    cluster = table()
    cluster.remove_pod("a1")
    assert cluster.rows_with_priority_below(0).tolist() == [False, False, False]


def test_what_came_and_went_in_a_what_if_is_as_before() -> None:
    cluster = table()
    a1, a2 = cluster.placed("a1"), cluster.placed("a2")
    assert a1 is not None
    assert a2 is not None
    guest = PodInfo(make_pod("guest", uid="guest", cpu="500m"))
    newer = PodInfo(make_pod("a2", uid="a2", node="a", priority=5, cpu="3"))
    before = cluster.requested.copy()
    with cluster.what_if() as what_if:
        what_if.remove_pod(a1, 0)
        what_if.remove_pod(a2, 0)
        what_if.add_pod(a1, 0)
        what_if.add_pod(guest, 0)
        what_if.add_pod(newer, 0)
        assert cluster.requested[0, 0] == 1000 + 500 + 3000
        what_if.remove_pod(guest, 0)
    assert (cluster.requested == before).all()
    assert {info.uid: info for info in cluster.pods_at(0)} == {"a1": a1, "a2": a2}
    assert cluster.rows_with_priority_below(10).tolist() == [True, False, False]
