from __future__ import annotations

import numpy as np
import pytest

from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.resource_columns import CPU, MAX_RESOURCES, MEMORY
from kuberth.cluster.table import ClusterTable
from kuberth.errors import KuberthError
from kuberth.testing import make_node, make_pod
from tests.unit.cluster.recount import expected_picture, gaps_are_empty, picture_of


def placed(name: str, node: str, cpu: str = "1") -> PodInfo:
    return PodInfo(make_pod(name, uid=name, node=node, cpu=cpu))


def cpu_at(table: ClusterTable, node: str) -> int:
    row = table.row_of(node)
    assert row is not None
    return int(table.requested[CPU, row])


def test_growth_keeps_what_was_there() -> None:
    table = ClusterTable()
    zones = table.label_column("zone")
    image = table.image_column("nginx")
    nodes = [
        make_node(
            f"n{index}",
            cpu=str(index),
            labels={"zone": str(index % 3)},
            taints=[{"key": str(index % 2), "effect": "NoSchedule"}],
            images=[{"names": ["nginx"], "sizeBytes": index}],
        )
        for index in range(300)
    ]
    pods = [placed(f"p{index}", f"n{index}") for index in range(0, 300, 7)]
    for info in pods:
        table.add_pod(info)
    for node in nodes:
        table.set_node(node)
    assert table.slots == table.node_count == 300
    assert len(table.live) >= 300
    assert picture_of(table) == expected_picture({node.metadata.name: node for node in nodes}, pods)
    gaps_are_empty(table)
    assert table.label_column("zone") is zones
    assert table.image_column("nginx") is image
    assert image.node_count == 300
    assert len(table.order()) == 300


def test_a_row_is_stable_and_reused() -> None:
    table = ClusterTable()
    rows = {name: table.set_node(make_node(name)) for name in ("a", "b", "c")}
    assert rows == {"a": 0, "b": 1, "c": 2}
    assert table.set_node(make_node("b", cpu="1")) == 1
    table.remove_node("b")
    table.remove_node("b")
    assert table.names == ["a", "", "c"]
    assert table.live[:3].tolist() == [True, False, True]
    gaps_are_empty(table)
    assert table.set_node(make_node("d")) == 1
    assert table.set_node(make_node("b")) == 3
    assert table.slots == 4


def test_a_reused_row_has_nothing_of_the_node_before() -> None:
    table = ClusterTable()
    table.set_node(
        make_node(
            "old",
            labels={"zone": "a"},
            unschedulable=True,
            taints=[{"key": "t", "effect": "NoSchedule"}],
            allocatable={"example.com/gpu": "1"},
            images=[{"names": ["nginx"], "sizeBytes": 1}],
            declaredFeatures=["f"],
        )
    )
    table.add_pod(placed("p", "old"))
    picture_of(table)
    table.remove_node("old")
    new = make_node("new")
    assert table.set_node(new) == 0
    assert picture_of(table) == expected_picture({"new": new}, [])


def test_which_rows_changed() -> None:
    table = ClusterTable()
    for name in ("a", "b", "c"):
        table.set_node(make_node(name))
    start = table.generation
    assert table.changed_since(start).tolist() == []
    table.add_pod(placed("p", "b"))
    assert table.changed_since(start).tolist() == [1]
    assert table.node_generation[1] <= start < table.row_generation[1]
    middle = table.generation
    table.set_node(make_node("a", cpu="1"))
    assert table.changed_since(middle).tolist() == [0]
    assert table.changed_since(start).tolist() == [0, 1]
    assert table.node_generation[0] == table.row_generation[0] == table.generation
    late = table.generation
    table.remove_node("c")
    assert table.changed_since(late).tolist() == [2]
    assert table.changed_since(0).tolist() == [0, 1, 2]


def test_what_ifs_are_changes_too() -> None:
    """A cache that repairs changed rows must see the question's rows, and again when it is over."""
    table = ClusterTable()
    table.set_node(make_node("a"))
    start = table.generation
    with table.what_if() as question:
        question.add_pod(placed("p", "a"), 0)
        assert table.changed_since(start).tolist() == [0]
        inside = table.generation
    assert table.changed_since(inside).tolist() == [0]


def test_an_assumption_is_confirmed_where_it_was() -> None:
    table = ClusterTable()
    table.set_node(make_node("a"))
    table.assume_pod(placed("p", "a"))
    assert table.is_assumed("p")
    assert (table.assumed_count, table.placed_count) == (1, 1)
    table.add_pod(placed("p", "a"))
    assert not table.is_assumed("p")
    assert (table.assumed_count, table.placed_count) == (0, 1)
    assert cpu_at(table, "a") == 1000
    assert not table.forget_pod("p"), "it is really bound"


def test_an_assumption_is_corrected() -> None:
    table = ClusterTable()
    for name in ("a", "b"):
        table.set_node(make_node(name))
    table.assume_pod(placed("p", "a"))
    table.add_pod(placed("p", "b"))
    assert (cpu_at(table, "a"), cpu_at(table, "b")) == (0, 1000)


def test_an_assumption_is_forgotten() -> None:
    table = ClusterTable()
    table.set_node(make_node("a"))
    table.assume_pod(placed("p", "a"))
    assert table.forget_pod("p")
    assert not table.forget_pod("p")
    assert cpu_at(table, "a") == 0
    assert table.placed("p") is None


def test_a_pod_is_assumed_once() -> None:
    table = ClusterTable()
    table.set_node(make_node("a"))
    table.assume_pod(placed("p", "a"))
    with pytest.raises(KuberthError, match="default/p is already in the cluster table"):
        table.assume_pod(placed("p", "a"))
    assert cpu_at(table, "a") == 1000


def test_pods_wait_for_their_node_and_outlive_it() -> None:
    table = ClusterTable()
    table.add_pod(placed("p", "a"))
    table.assume_pod(placed("q", "a"))
    assert table.placed_count == 2
    table.set_node(make_node("a"))
    assert cpu_at(table, "a") == 2000
    table.remove_node("a")
    table.update_pod(placed("p", "a", cpu="3"))
    assert table.forget_pod("q")
    table.set_node(make_node("a"))
    assert cpu_at(table, "a") == 3000
    table.remove_node("a")
    table.remove_pod("p")
    table.set_node(make_node("a"))
    assert cpu_at(table, "a") == 0


def test_a_pod_moves_between_nodes_that_exist_and_do_not() -> None:
    table = ClusterTable()
    table.set_node(make_node("a"))
    for node, cpu in (("a", 1000), ("gone", 0), ("elsewhere", 0), ("a", 1000)):
        table.add_pod(placed("p", node))
        assert cpu_at(table, "a") == cpu
    assert [info.node_name for info in table.placed_pods()] == ["a"]


@pytest.mark.parametrize(
    ("allocatable", "problem", "cpu"),
    [({"cpu": "lots"}, "cpu", 0), ({"example.com/gpu": "1x"}, "example.com/gpu", 4000), ({}, None, 4000)],
    ids=["cpu", "extended", "fine"],
)
def test_an_unreadable_quantity_counts_as_zero_and_is_reported(
    allocatable: dict[str, str], problem: str | None, cpu: int
) -> None:
    table = ClusterTable()
    table.set_node(make_node("a", allocatable=allocatable))
    assert (table.problems.get("a") is not None) == (problem is not None)
    if problem is not None:
        assert problem in table.problems["a"]
    assert int(table.allocatable[CPU, 0]) == cpu
    assert int(table.allocatable[MEMORY, 0]) == 8 * 2**30
    table.set_node(make_node("a"))
    assert not table.problems
    assert int(table.allocatable[CPU, 0]) == 4000


def test_a_nodes_problem_goes_with_it() -> None:
    table = ClusterTable()
    table.set_node(make_node("a", cpu="lots"))
    table.remove_node("a")
    assert not table.problems


GPU = "example.com/gpu"


def test_a_resource_has_a_column_while_some_node_offers_it() -> None:
    table = ClusterTable()
    for name in "ab":
        table.set_node(make_node(name))
        table.add_pod(PodInfo(make_pod(f"on-{name}", node=name, requests={GPU: "2"})))
    assert table.resource_index(GPU) is None, "asked for, but offered nowhere"
    table.set_node(make_node("a", allocatable={GPU: "8"}))
    index = table.resource_index(GPU)
    assert index is not None
    assert table.allocatable[index, :2].tolist() == [8, 0]
    assert table.requested[index, :2].tolist() == [2, 2], "pods that were there before are counted"
    table.set_node(make_node("b", allocatable={GPU: "4"}))
    table.set_node(make_node("a"))
    assert table.resource_index(GPU) == index
    assert table.allocatable[index, :2].tolist() == [0, 4]
    table.remove_node("b")
    assert table.resource_index(GPU) is None
    table.set_node(make_node("b", allocatable={"example.com/fpga": "1"}))
    fresh = table.resource_index("example.com/fpga")
    assert fresh == index, "the place of a resource that is gone is used again"
    assert table.requested[fresh, :2].tolist() == [0, 0]


def test_names_that_pods_think_up_cost_the_table_nothing() -> None:
    table = ClusterTable()
    table.set_node(make_node("a"))
    before = table.allocatable.nbytes + table.requested.nbytes
    for number in range(12):
        requests = {f"tenant.example/{number}-{name}": str(name % 2) for name in range(200)}
        table.add_pod(PodInfo(make_pod(f"p{number}", node="a", requests=requests)))
    assert table.allocatable.nbytes + table.requested.nbytes == before
    assert len(table.resources) == 3


def test_nodes_cannot_offer_resources_without_end() -> None:
    table = ClusterTable()
    offered = {f"node.example/{number:05}": "1" for number in range(MAX_RESOURCES + 5)}
    table.set_node(make_node("a", allocatable=offered))
    assert len(table.resources) == MAX_RESOURCES
    assert "more than 1024 resources" in table.problems["a"]
    table.set_node(make_node("a", allocatable={GPU: "1"}))
    assert table.problems == {}
    assert table.resource_index(GPU) is not None


def test_whole_numbers_as_large_as_kubernetes_allows() -> None:
    table = ClusterTable()
    table.set_node(make_node("a", memory="8Ei", cpu="9223372036854775"))
    table.add_pod(PodInfo(make_pod("p", node="a", memory="4Ei")))
    assert int(table.allocatable[MEMORY, 0]) == 2**63 - 1
    assert int(table.allocatable[CPU, 0]) == 9223372036854775000
    assert int(table.requested[MEMORY, 0]) == 4 * 2**60
    assert table.allocatable.dtype == np.int64


def test_taints_are_equal_whenever_they_were_added() -> None:
    table = ClusterTable()
    taint = {"key": "a", "effect": "NoSchedule"}
    table.set_node(make_node("a", taints=[taint]))
    table.set_node(make_node("b", taints=[{**taint, "timeAdded": "2024-01-01T00:00:00Z"}]))
    assert table.taints.ids[0] == table.taints.ids[1]


class Recorder:
    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def pod_placed(self, info: PodInfo) -> None:
        self.calls.append(("placed", info.uid))

    def pod_removed(self, info: PodInfo) -> None:
        self.calls.append(("removed", info.uid))


def test_observers_are_notified_of_placements_but_not_of_nodes_and_what_ifs() -> None:
    table = ClusterTable()
    table.add_pod(placed("before", "a"))
    recorder = Recorder()
    table.observe(recorder)
    assert recorder.calls == [("placed", "before")]
    recorder.calls.clear()
    table.set_node(make_node("a"))
    with table.what_if() as question:
        question.add_pod(placed("guest", "a"), 0)
    table.remove_node("a")
    assert recorder.calls == []
    table.assume_pod(placed("p", "a"))
    table.add_pod(placed("p", "a"))
    table.remove_pod("p")
    table.remove_pod("p")
    assert recorder.calls == [("placed", "p"), ("removed", "p"), ("placed", "p"), ("removed", "p")]


def test_a_question_can_swap_a_pod_for_its_new_version() -> None:
    table = ClusterTable()
    table.set_node(make_node("a"))
    old, new = placed("p", "a", cpu="1"), placed("p", "a", cpu="3")
    table.add_pod(old)
    with table.what_if() as question:
        question.remove_pod(old, 0)
        question.add_pod(new, 0)
        assert cpu_at(table, "a") == 3000
    assert cpu_at(table, "a") == 1000
    assert list(table.pods_at(0)) == [old]


def test_a_question_can_be_undone_in_the_middle() -> None:
    table = ClusterTable()
    table.set_node(make_node("a"))
    old = placed("p", "a")
    table.add_pod(old)
    with table.what_if() as question:
        question.remove_pod(old, 0)
        question.undo()
        assert cpu_at(table, "a") == 1000
        question.add_pod(placed("q", "a"), 0)
        assert cpu_at(table, "a") == 2000
    assert cpu_at(table, "a") == 1000


def test_questions_nest() -> None:
    table = ClusterTable()
    table.set_node(make_node("a"))
    with table.what_if() as outer:
        outer.add_pod(placed("p", "a"), 0)
        with table.what_if() as inner:
            inner.add_pod(placed("q", "a"), 0)
            assert cpu_at(table, "a") == 2000
        assert cpu_at(table, "a") == 1000
    assert cpu_at(table, "a") == 0
