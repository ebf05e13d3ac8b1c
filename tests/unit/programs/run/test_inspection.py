from __future__ import annotations

from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.programs.run.inspection import compare, describe_nodes
from kuberth.testing import make_node, make_pod


def test_agreement_is_silent() -> None:
    table = ClusterTable()
    node, pod = make_node("n1"), make_pod("p", node="n1", cpu="1")
    table.set_node(node)
    table.add_pod(PodInfo(pod))
    assert list(compare(table, [node], [pod, make_pod("pending")])) == []
    assert list(describe_nodes(table)) == ["node n1: 1 pods; cpu 1000/4000, memory 0/8589934592"]


def test_every_difference_is_reported() -> None:
    table = ClusterTable()
    table.set_node(make_node("ours"))
    moved, ghost = make_pod("moved", node="ours", uid="m"), make_pod("ghost", node="ours", uid="g")
    table.add_pod(PodInfo(moved))
    table.add_pod(PodInfo(ghost))
    table.assume_pod(PodInfo(make_pod("assumed", node="ours", uid="a")))
    found = list(
        compare(
            table,
            [make_node("theirs")],
            [make_pod("moved", node="theirs", uid="m"), make_pod("missed", node="theirs", uid="x")],
        )
    )
    assert found == [
        "node theirs is on the API but not in the table",
        "node ours is in the table but not on the API",
        "pod default/moved is on theirs on the API but on ours in the table",
        "pod default/missed is assigned on the API but not in the table",
        "pod default/ghost is in the table but not assigned on the API",
    ]
