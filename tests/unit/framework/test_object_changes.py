from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kuberth.framework import Action
from kuberth.framework.object_changes import node_changes, pod_changes
from kuberth.testing import make_node, make_pod

TAINT = {"key": "k", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    "old, new, changes",
    [
        pytest.param({}, {}, ["Update"], id="nothing-with-a-name"),
        pytest.param({"labels": {"a": "1"}}, {"labels": {"a": "2"}}, ["UpdatePodLabel"], id="label"),
        pytest.param({"labels": {"a": "1"}}, {}, ["UpdatePodLabel"], id="label-gone"),
        pytest.param({"cpu": "2"}, {"cpu": "1"}, ["UpdatePodScaleDown"], id="less-cpu"),
        pytest.param(
            {"requests": {"example.com/gpu": "1"}},
            {},
            ["UpdatePodScaleDown"],
            id="a-resource-no-longer-wanted",
        ),
        pytest.param({"cpu": "1"}, {"cpu": "2"}, ["Update"], id="more-cpu"),
        pytest.param({"cpu": "1"}, {"cpu": "1000m"}, ["Update"], id="the-same-cpu-in-other-words"),
        pytest.param(
            {"cpu": "1", "memory": "2"}, {"cpu": "2", "memory": "1"}, ["UpdatePodScaleDown"], id="some-less"
        ),
        pytest.param({"cpu": "2"}, {"cpu": "broken"}, ["Update"], id="cpu-that-cannot-be-read"),
        pytest.param({"gates": ["g"]}, {}, ["UpdatePodSchedulingGatesEliminated"], id="last-gate-gone"),
        pytest.param({"gates": ["g", "h"]}, {"gates": ["h"]}, ["Update"], id="one-gate-of-two-gone"),
        pytest.param({}, {"gates": ["g"]}, ["Update"], id="a-gate-more"),
        pytest.param({}, {"tolerations": [{"operator": "Exists"}]}, ["UpdatePodToleration"], id="toleration"),
        pytest.param(
            {},
            {"status": {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "x"}]}},
            ["UpdatePodGeneratedResourceClaim"],
            id="generated-claim",
        ),
        pytest.param({}, {"phase": "Running"}, ["Update"], id="status-only"),
        pytest.param(
            {"labels": {"a": "1"}, "cpu": "2", "gates": ["g"]},
            {"cpu": "1", "tolerations": [{"operator": "Exists"}]},
            [
                "UpdatePodLabel",
                "UpdatePodScaleDown",
                "UpdatePodSchedulingGatesEliminated",
                "UpdatePodToleration",
            ],
            id="several-at-once",
        ),
    ],
)
@pytest.mark.parametrize("node, resource", [("", "UnschedulablePod"), ("n1", "AssignedPod")])
def test_changes_of_a_pod(
    old: dict[str, Any], new: dict[str, Any], changes: list[str], node: str, resource: str
) -> None:
    found = pod_changes(make_pod("p", uid="u", node=node, **old), make_pod("p", uid="u", node=node, **new))
    assert [event.label for event in found] == [f"{resource}{change}" for change in changes]


def test_a_pod_that_is_bound_counts_as_assigned() -> None:
    (event,) = pod_changes(make_pod("p", uid="u"), make_pod("p", uid="u", node="n1"))
    assert event.label == "AssignedPodUpdate"


READY = {"type": "Ready", "status": "True"}


@pytest.mark.parametrize(
    "old, new, changes",
    [
        pytest.param({}, {}, [], id="nothing"),
        pytest.param({"cpu": "1"}, {"cpu": "2"}, ["UpdateNodeAllocatable"], id="allocatable"),
        pytest.param({}, {"labels": {"a": "1"}}, ["UpdateNodeLabel"], id="label"),
        pytest.param({}, {"taints": [TAINT]}, ["UpdateNodeTaint"], id="taint"),
        pytest.param({"unschedulable": True}, {}, ["UpdateNodeTaint"], id="schedulable-again"),
        pytest.param({}, {"unschedulable": True}, [], id="cordoned-helps-no-one"),
        pytest.param(
            {"unschedulable": True, "taints": [TAINT]},
            {},
            ["UpdateNodeTaint", "UpdateNodeTaint"],
            id="schedulable-and-untainted",
        ),
        pytest.param({}, {"conditions": [READY]}, ["UpdateNodeCondition"], id="condition"),
        pytest.param(
            {"conditions": [READY]},
            {"conditions": [{**READY, "lastHeartbeatTime": "2025-01-01T00:00:00Z", "reason": "Other"}]},
            [],
            id="a-heartbeat-is-no-change",
        ),
        pytest.param(
            {"conditions": [READY, {"type": "DiskPressure", "status": "False"}]},
            {"conditions": [{"type": "DiskPressure", "status": "False"}, READY]},
            [],
            id="conditions-in-another-order",
        ),
        pytest.param({}, {"declaredFeatures": ["F"]}, ["UpdateNodeDeclaredFeature"], id="declared-feature"),
        pytest.param(
            {},
            {"images": [{"names": ["x"], "sizeBytes": 1}], "capacity": {"cpu": "9"}},
            [],
            id="nothing-scheduling-asks-for",
        ),
        pytest.param(
            {"cpu": "1"},
            {"cpu": "2", "labels": {"a": "1"}, "taints": [TAINT], "conditions": [READY]},
            ["UpdateNodeAllocatable", "UpdateNodeLabel", "UpdateNodeTaint", "UpdateNodeCondition"],
            id="several-at-once",
        ),
    ],
)
def test_changes_of_a_node(old: dict[str, Any], new: dict[str, Any], changes: list[str]) -> None:
    found = node_changes(make_node("n", **old), make_node("n", **new))
    assert [event.label for event in found] == [f"Node{change}" for change in changes]


def test_annotations_of_a_node() -> None:
    node = make_node("n")
    metadata = msgspec.structs.replace(node.metadata, annotations={"a": "1"})
    (event,) = node_changes(node, msgspec.structs.replace(node, metadata=metadata))
    assert event.action is Action.UPDATE_NODE_ANNOTATION
