"""Where the pods of a group are: the state machine, and how the cluster table and a what_if move it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kuberth.api.core import Pod
from kuberth.cluster.pod_groups import GroupMembers, PodGroups
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.testing import make_node, make_pod

KEY = "default/g"


def member(name: str = "p", **more: Any) -> PodInfo:
    return PodInfo(make_pod(name, uid=name, cpu="1", schedulingGroup={"podGroupName": "g"}, **more))


def where(members: GroupMembers | None, uid: str = "p") -> str:
    if members is None:
        return ""
    places = {"unscheduled": members.unscheduled, "assumed": members.assumed, "assigned": members.assigned}
    return " ".join(name for name, pods in places.items() if uid in pods)


@pytest.mark.parametrize(
    "steps, end",
    [
        pytest.param("arrive", "unscheduled", id="arrives"),
        pytest.param("arrive arrive", "unscheduled", id="has-a-new-version"),
        pytest.param("arrive assume", "assumed", id="is-assumed"),
        pytest.param("arrive assume arrive", "assumed", id="a-new-version-of-an-assumed-one"),
        pytest.param("arrive assume forget", "unscheduled", id="is-forgotten"),
        pytest.param("arrive assume assign", "assigned", id="is-bound"),
        pytest.param("assign", "assigned", id="is-bound-from-the-start"),
        pytest.param("assign arrive", "assigned", id="old-news-of-a-bound-one"),
        pytest.param("arrive assume assign forget", "assigned", id="forgotten-too-late"),
        pytest.param("assign assume", "assigned", id="assumed-too-late"),
        pytest.param("assume", "", id="one-that-left-is-not-taken-in-again"),
        pytest.param("arrive leave", "", id="leaves"),
        pytest.param("arrive assume leave forget", "", id="leaves-while-assumed"),
        pytest.param("assign leave", "", id="ends"),
    ],
)
def test_a_pods_way(steps: str, end: str) -> None:
    groups, info = PodGroups(), member()
    for step in steps.split():
        getattr(groups, step)(info if step in ("arrive", "leave") else info_on_node(info))
    assert where(groups.get(KEY)) == end
    assert len(groups) == bool(end)


def info_on_node(info: PodInfo) -> PodInfo:
    return info.placed_on("n1")


def test_a_forgotten_pod_has_no_node() -> None:
    groups, info = PodGroups(), member()
    groups.arrive(info)
    groups.assume(info.placed_on("n1"))
    newer = member(labels={"a": "b"})
    groups.arrive(newer)
    groups.forget(info.placed_on("n1"))
    members = groups.get(KEY)
    assert members is not None
    assert members.unscheduled == {"p": newer}


def test_queued_members_of_a_group() -> None:
    groups = PodGroups()
    for name in "abc":
        groups.arrive(member(name))
    members = groups.get(KEY)
    assert members is not None
    members.begin_attempt({"a", "b"})
    assert set(members.queued) == {"c"}
    groups.assume(member("a").placed_on("n1"))
    groups.assume(member("c").placed_on("n1"))
    assert not members.queued
    groups.forget(member("a").placed_on("n1"))
    groups.forget(member("c").placed_on("n1"))
    assert set(members.queued) == {"c"}
    members.end_attempt({"a", "b"})
    assert set(members.queued) == set("abc")
    assert (members.total, members.scheduled) == (3, 0)


def test_pods_of_one_name_in_two_namespaces_are_two_groups() -> None:
    groups = PodGroups()
    groups.arrive(member())
    groups.arrive(member("q", namespace="other"))
    assert (len(groups), where(groups.get("other/g"), "q")) == (2, "unscheduled")


@pytest.mark.parametrize("group", [None, {}, {"podGroupName": ""}])
def test_a_pod_without_a_group(group: dict[str, str] | None) -> None:
    assert PodInfo(make_pod("p", schedulingGroup=group)).group == ""


def test_the_table_moves_pods() -> None:
    table, info = ClusterTable(), member()
    table.set_node(make_node("n1"))
    table.pod_groups.arrive(info)
    table.assume_pod(info.placed_on("n1"))
    assert where(table.pod_groups.get(KEY)) == "assumed"
    table.forget_pod(info.uid)
    assert where(table.pod_groups.get(KEY)) == "unscheduled"
    table.assume_pod(info.placed_on("n1"))
    assert table.renew_pod(info.placed_on("n1").pod)
    assert where(table.pod_groups.get(KEY)) == "assigned"
    table.add_pod(info.placed_on("n1"))
    assert where(table.pod_groups.get(KEY)) == "assigned"
    table.remove_pod(info.uid)
    assert table.pod_groups.get(KEY) is None


# Logged what-ifs


def columns(table: ClusterTable) -> Any:
    return table.amounts_at(np.arange(table.slots)).tolist(), [list(table.pods_at(r)) for r in (0, 1)]


def test_a_logged_what_if_restores_everything() -> None:
    table, infos = ClusterTable(), [member(name) for name in "abc"]
    table.set_node(make_node("n1"))
    table.set_node(make_node("n2"))
    old = [PodInfo(make_pod(name, uid=name, cpu="1", node="n1")) for name in ("old-1", "old-2")]
    for info in old:
        table.add_pod(info)
    for info in infos:
        table.pod_groups.arrive(info)
    before = columns(table)
    with table.logged_what_if() as what_if:
        placed = [info.placed_on("n1") for info in infos]
        for info in placed:
            assert what_if.assume_pod(info)
        what_if.remove_pod(old[0], 0)
        what_if.forget_pod(placed[1])
        what_if.add_pod(old[0], 0)
        members = table.pod_groups.get(KEY)
        assert members is not None
        assert (members.scheduled, where(members, "b")) == (2, "unscheduled")
        assert not what_if.assume_pod(infos[1].placed_on("gone"))
        assert not table.is_supposing  # plans may be used and kept
        assert not table.is_assumed("a")
    assert columns(table) == before
    assert members.scheduled == 0


def test_a_logged_what_if_that_fails_restores_everything() -> None:
    table, info = ClusterTable(), member()
    table.set_node(make_node("n1"))
    table.set_node(make_node("n2"))
    table.pod_groups.arrive(info)
    before = columns(table)

    def fail() -> None:
        with table.logged_what_if() as what_if:
            what_if.assume_pod(info.placed_on("n1"))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert columns(table) == before
    assert where(table.pod_groups.get(KEY)) == "unscheduled"


def test_the_change_log_records_a_what_if_and_its_end() -> None:
    """So caches of a row are refreshed twice."""
    table, info = ClusterTable(), member()
    for name in ("n1", "n2"):
        table.set_node(make_node(name))
    versions = [table.changes.version]
    with table.logged_what_if() as what_if:
        what_if.assume_pod(info.placed_on("n2"))
        versions.append(table.changes.version)
    versions.append(table.changes.version)
    logged = [table.changes.since(version) for version in versions[:2]]
    assert logged == [frozenset({1}), frozenset({1})]


def test_observers_are_not_notified_of_a_what_if() -> None:
    heard: list[str] = []

    class Observer:
        def pod_placed(self, info: PodInfo) -> None:
            heard.append(info.uid)

        pod_removed = pod_placed

    table = ClusterTable()
    table.set_node(make_node("n1"))
    table.observe(Observer())
    with table.logged_what_if() as what_if:
        what_if.assume_pod(member().placed_on("n1"))
    assert not heard


def test_pods_are_known_by_uid() -> None:
    groups = PodGroups()
    groups.arrive(member())
    again = PodInfo(make_pod("p", uid="p2", schedulingGroup={"podGroupName": "g"}))
    groups.arrive(again)
    groups.leave(member())
    members = groups.get(KEY)
    assert members is not None
    assert set(members.unscheduled) == {"p2"}
    assert isinstance(again.pod, Pod)
