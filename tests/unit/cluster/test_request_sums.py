"""What pods below a priority ask for, per row, and what-ifs that move such amounts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.request_sums import COUNT, MAX_PRIORITIES, Amounts, amounts_of
from kuberth.cluster.table import ClusterTable
from kuberth.testing.factories import make_node, make_pod

GPU = "example.com/gpu"
NODES = ("a", "b", "c")


def info(name: str, node: str = "", *, priority: int = 0, gpus: int = 0, **fields: Any) -> PodInfo:
    requests = {GPU: str(gpus)} if gpus else {}
    return PodInfo(make_pod(name, uid=name, node=node, priority=priority, requests=requests, **fields))


def summed(cluster: ClusterTable, priority: int) -> Amounts:
    """The sums as a fresh count gives them."""
    height = len(cluster.requested)
    amounts = np.zeros((height + 3, cluster.slots), np.int64)
    for row in range(cluster.slots):
        for pod in cluster.pods_at(row):
            if pod.priority >= priority:
                continue
            request = pod.request
            amounts[:3, row] += (request.milli_cpu, request.memory, request.ephemeral_storage)
            for name, amount in request.scalars.items():
                if (index := cluster.resource_index(name)) is not None:
                    amounts[index, row] += amount
            amounts[height:, row] += (request.nonzero_milli_cpu, request.nonzero_memory, 1)
    return amounts


def assert_sums(cluster: ClusterTable, priority: int) -> None:
    found = cluster.requests_below(priority)[:, : cluster.slots]
    assert (found == summed(cluster, priority)).all()


def counts_below(cluster: ClusterTable, priority: int) -> list[int]:
    return [int(number) for number in cluster.requests_below(priority)[COUNT, :3]]


changes = st.one_of(
    st.tuples(
        st.just("pod"), st.integers(0, 6), st.sampled_from(NODES), st.integers(-1, 2), st.integers(0, 2)
    ),
    st.tuples(st.just("gone"), st.integers(0, 6)),
    st.tuples(st.just("node"), st.sampled_from(NODES), st.integers(0, 2)),
    st.tuples(st.just("no node"), st.sampled_from(NODES)),
    st.tuples(st.just("many nodes")),
)


@given(st.lists(changes, max_size=20))
def test_sums_follow_every_change(steps: list[Any]) -> None:
    cluster = ClusterTable()
    for name in NODES:
        cluster.set_node(make_node(name))
    for kind, *details in steps:
        if kind == "pod":
            number, node, priority, gpus = details
            cluster.add_pod(
                info(f"p{number}", node, priority=priority, gpus=gpus, cpu=f"{number}m", memory="1Ki")
            )
        elif kind == "gone":
            cluster.remove_pod(f"p{details[0]}")
        elif kind == "node":
            name, gpus = details
            cluster.set_node(make_node(name, allocatable={GPU: str(gpus)} if gpus else {}))
        elif kind == "no node":
            cluster.remove_node(details[0])
        else:
            for number in range(70):
                cluster.set_node(make_node(f"more-{number}"))
        for priority in (0, 2):
            assert_sums(cluster, priority)


def full_table() -> ClusterTable:
    cluster = ClusterTable()
    for name in NODES:
        cluster.set_node(make_node(name, allocatable={GPU: "4"}))
        cluster.add_pod(info(f"{name}-low", name, gpus=1, cpu="1", memory="1Gi"))
        cluster.add_pod(info(f"{name}-high", name, priority=10, cpu="2", memory="2Gi"))
    return cluster


def test_a_what_if_is_not_remembered() -> None:
    cluster = full_table()
    with cluster.what_if() as what_if:
        (low,) = (pod for pod in cluster.pods_at(0) if pod.priority == 0)
        what_if.remove_pod(low, 0)
        cluster.add_pod(info("b-more", "b", cpu="1"))
        assert counts_below(cluster, 5) == [0, 2, 1]
    assert counts_below(cluster, 5) == [1, 2, 1]


def test_sums_of_many_priorities_are_right_though_not_all_are_kept() -> None:
    cluster = full_table()
    for priority in (*range(3 * MAX_PRIORITIES), 0, 11):
        assert_sums(cluster, priority)


def test_amounts_move_on_many_rows_and_come_back() -> None:
    cluster = full_table()
    rows = np.array([2, 0], np.int64)
    before = cluster.amounts_at(np.arange(3))
    settled = cluster.settled_generation.copy()
    generation = cluster.generation
    gpu = cluster.resource_index(GPU)
    assert gpu is not None
    with cluster.what_if_requests(rows) as what_if:
        staying = cluster.amounts_at(rows) - cluster.requests_below(5)[:, rows]
        what_if.set(staying, rows)
        assert cluster.requested[gpu, :3].tolist() == [0, 1, 0]
        assert cluster.requested[0, :3].tolist() == [2000, 3000, 2000]
        assert cluster.pod_count[:3].tolist() == [1, 2, 1]
        assert cluster.changed_since(generation).tolist() == [0, 2]
        coming = amounts_of([info("new", cpu="500m")], cluster)
        what_if.set(staying[:, :1] + coming, rows[:1])
        assert cluster.requested[0, :3].tolist() == [2000, 3000, 2500]
        assert cluster.nonzero_requested[0, :3].tolist() == [2000, 3000, 2500]
        inside = cluster.generation
    assert (cluster.amounts_at(np.arange(3)) == before).all()
    assert cluster.changed_since(inside).tolist() == [0, 2]
    assert (cluster.settled_generation == settled).all()


def test_a_question_that_fails_leaves_no_trace() -> None:
    cluster = full_table()
    rows = np.array([1], np.int64)
    before = cluster.amounts_at(np.arange(3))

    def ask() -> None:
        with cluster.what_if_requests(rows) as what_if:
            what_if.set(cluster.requests_below(5)[:, rows], rows)
            raise LookupError

    with pytest.raises(LookupError):
        ask()
    assert (cluster.amounts_at(np.arange(3)) == before).all()
    assert counts_below(cluster, 5) == [1, 1, 1]


def test_pods_keep_their_order_through_a_what_if() -> None:
    cluster = full_table()
    pods = [pod.uid for pod in cluster.pods_at(0)]
    first, _second = cluster.pods_at(0)
    with cluster.what_if() as what_if:
        what_if.remove_pod(first, 0)
        what_if.add_pod(info("new"), 0)
        what_if.add_pod(first, 0)
    assert [pod.uid for pod in cluster.pods_at(0)] == pods
