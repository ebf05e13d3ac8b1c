"""Views over the whole table, over some rows, and over one."""

from __future__ import annotations

import numpy as np
import pytest

from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.resource_columns import CPU
from kuberth.cluster.table import ClusterTable
from kuberth.testing import make_node, make_pod


@pytest.fixture
def table() -> ClusterTable:
    """Rows n0 to n4; row 2 is a gap."""
    table = ClusterTable()
    for index in range(5):
        table.set_node(make_node(f"n{index}", cpu=str(index + 1), labels={"zone": "ab"[index % 2]}))
    table.remove_node("n2")
    table.add_pod(PodInfo(make_pod("p", uid="p", node="n3", cpu="1", memory="1Gi")))
    return table


def view(table: ClusterTable, kind: str) -> Nodes:
    match kind:
        case "all":
            return table.all_nodes()
        case "slice":
            return Nodes(table, slice(1, 4))
        case "array":
            return Nodes(table, np.array([4, 1, 3], np.int64))
        case "named":
            return table.nodes_named(["n4", "missing", "n0", "n2"])
        case "one":
            found = table.node_named("n3")
            assert found is not None
            return found.alone
        case _:
            return Nodes(table, np.array([], np.int64))


EXPECTED = {
    "all": ([0, 1, 2, 3, 4], ["n0", "n1", "n3", "n4"]),
    "slice": ([1, 2, 3], ["n1", "n3"]),
    "array": ([4, 1, 3], ["n4", "n1", "n3"]),
    "named": ([0, 4], ["n0", "n4"]),
    "one": ([3], ["n3"]),
    "empty": ([], []),
}


@pytest.mark.parametrize("kind", EXPECTED)
def test_a_view_is_the_same_however_it_is_chosen(table: ClusterTable, kind: str) -> None:
    nodes = view(table, kind)
    rows, names = EXPECTED[kind]
    assert len(nodes) == len(rows)
    assert nodes.rows().tolist() == rows
    assert nodes.names() == names
    assert [node.name for node in nodes] == names
    assert [node.row for node in nodes] == [row for row in rows if row != 2]
    assert nodes.live().tolist() == [row != 2 for row in rows]
    assert nodes.take(table.allocatable)[CPU].tolist() == [
        0 if row == 2 else 1000 * (row + 1) for row in rows
    ]
    assert nodes.take(table.pod_count).tolist() == [int(row == 3) for row in rows]
    for position, row in enumerate(rows):
        assert nodes.row(position) == row
        assert nodes.name(position) == table.names[row]
        assert nodes.node(position).row == row
    positions = np.arange(len(rows))[::-1]
    assert nodes.rows_at(positions).tolist() == rows[::-1]
    for name in ("n0", "n1", "n2", "n3", "n4", "missing"):
        row_of = table.row_of(name)
        assert nodes.position(name) == (rows.index(row_of) if row_of in rows else None)


@pytest.mark.parametrize("kind", EXPECTED)
def test_a_view_of_a_view(table: ClusterTable, kind: str) -> None:
    nodes = view(table, kind)
    mask = nodes.live()
    assert nodes.at(mask).names() == EXPECTED[kind][1]
    assert nodes.at(mask).live().all()
    backwards = np.flatnonzero(mask)[::-1]
    assert nodes.at(backwards).names() == EXPECTED[kind][1][::-1]
    assert nodes.at(np.zeros(len(nodes), np.bool_)).names() == []


def test_live_may_be_changed_without_harm(table: ClusterTable) -> None:
    for kind in EXPECTED:
        view(table, kind).live()[:] = False
    assert table.live[:5].tolist() == [True, True, False, True, True]


def test_one_node_as_a_plugin_sees_it(table: ClusterTable) -> None:
    node = table.node_named("n3")
    assert node is not None
    assert (node.name, node.pod_count, node.labels["zone"]) == ("n3", 1, "b")
    assert [info.uid for info in node.pods] == ["p"]
    assert (node.allocatable("cpu"), node.requested("cpu")) == (4000, 1000)
    assert (node.allocatable("memory"), node.requested("memory")) == (8 * 2**30, 2**30)
    assert (node.allocatable("example.com/unheard-of"), node.requested("example.com/unheard-of")) == (0, 0)
    assert node.node is table.node_at(3)
    assert repr(node) == "<NodeRow n3>"


def test_a_gap_has_no_node(table: ClusterTable) -> None:
    assert table.node_named("n2") is None
    assert table.row_of("n2") is None
    with pytest.raises(LookupError, match="row 2"):
        NodeRow(table, 2).node  # noqa: B018 - the access is what raises
