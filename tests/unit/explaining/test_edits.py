"""Single changes: what they make of a edited, and how they read."""

from __future__ import annotations

from typing import Any

import pytest

from kuberth.explaining.edits import (
    AddNodes,
    DeletePod,
    DropNodeSelector,
    Edit,
    EditedCluster,
    RemoveGate,
    RemoveTaint,
    RepairNode,
    ScaleRequest,
    SetLabel,
    Tolerate,
    Uncordon,
)
from kuberth.testing import make_node, make_pod
from tests.unit.explaining.edited import applied

TAINTS = [
    {"key": "a", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
]
NODE = make_node("n", labels={"x": "1"}, taints=TAINTS, unschedulable=True)
POD = make_pod("p", cpu="2", gates=["g"], nodeSelector={"x": "2", "y": "3"})
OTHER = make_pod("q", node="n")


def edited() -> EditedCluster:
    return EditedCluster(POD, {"n": NODE}.get)


def changed(edit: Edit) -> tuple[Any, dict[str, Any], list[str]]:
    pod, objects = applied(edit.apply(edited()), [NODE, OTHER])
    nodes = {obj.metadata.name: obj for obj in objects if type(obj) is type(NODE)}
    return pod, nodes, [obj.metadata.name for obj in objects if type(obj) is type(POD)]


def test_changes_of_the_pod() -> None:
    assert changed(ScaleRequest("main", "cpu", "2", "1"))[0].spec.containers[0].resources.requests == {
        "cpu": "1"
    }
    assert changed(ScaleRequest("none", "cpu", "2", "1"))[0] == POD
    assert changed(RemoveGate("g"))[0].spec.scheduling_gates == ()
    assert changed(DropNodeSelector("x"))[0].spec.node_selector == {"y": "3"}
    assert changed(Tolerate("a", "", "NoSchedule"))[0].spec.tolerations[0].key == "a"


def test_limits_of_what_cannot_be_overcommitted_follow() -> None:
    amounts = {"example.com/gpu": "2"}
    containers = [{"name": "main", "resources": {"requests": amounts, "limits": amounts}}]
    before = EditedCluster(make_pod("p", containers=containers), {"n": NODE}.get)
    after = ScaleRequest("main", "example.com/gpu", "2", "1").apply(before).pod.spec.containers[0].resources
    assert after.requests == after.limits == {"example.com/gpu": "1"}


def test_changes_of_a_node() -> None:
    assert changed(SetLabel("n", "x", "2"))[1]["n"].metadata.labels["x"] == "2"
    assert "x" not in changed(SetLabel("n", "x", None))[1]["n"].metadata.labels
    assert not changed(Uncordon("n"))[1]["n"].spec.unschedulable
    repaired = changed(RepairNode("n", "node.kubernetes.io/not-ready"))[1]["n"]
    assert [taint.key for taint in repaired.spec.taints] == ["a"]
    assert [taint.key for taint in changed(RemoveTaint("n", "a", "", "NoSchedule"))[1]["n"].spec.taints] == [
        "node.kubernetes.io/not-ready"
    ]


def test_edits_add_and_delete_objects() -> None:
    assert changed(DeletePod("default/q", "n"))[2] == []
    _pod, nodes, _pods = changed(AddNodes("n", 2))
    assert list(nodes) == ["n", "n-added-1", "n-added-2"]
    new = nodes["n-added-1"]
    assert new.metadata.labels == {"kubernetes.io/hostname": "n-added-1", "x": "1"}
    assert new.status.allocatable == NODE.status.allocatable
    # A new node of its kind has its permanent_taints taints, and none of its troubles.
    assert not new.spec.unschedulable
    assert [taint.key for taint in new.spec.taints] == ["a"]


def test_changes_add_up() -> None:
    both = Uncordon("n").apply(SetLabel("n", "x", "2").apply(edited()))
    assert (both.node("n").metadata.labels["x"], both.node("n").spec.unschedulable) == ("2", False)


@pytest.mark.parametrize(
    "edit, text",
    [
        (RemoveTaint("n", "a", "b", "NoSchedule"), "remove the taint a=b:NoSchedule from node n"),
        (Tolerate("a", "", "NoExecute"), "add a toleration of a:NoExecute to the pod"),
        (SetLabel("n", "a", "b"), "label node n with a=b"),
        (SetLabel("n", "a", None), "remove the label a from node n"),
        (DropNodeSelector("a"), "drop a from the pod's nodeSelector"),
        (DeletePod("d/q", "n"), "delete pod d/q on node n"),
        (DeletePod("d/q", "n", preempted=True), "preempt pod d/q on node n"),
        (AddNodes("n", 1), "add a node of the shape of n"),
        (AddNodes("n", 2), "add 2 nodes of the shape of n"),
    ],
)
def test_texts(edit: Edit, text: str) -> None:
    assert edit.text == text
