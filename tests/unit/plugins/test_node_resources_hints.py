"""NodeResourcesFit's queueing hints: which events concern it, and what they mean for a rejected pod."""

from __future__ import annotations

from typing import Any

import pytest

from kuberth.api.core import Node, Pod
from kuberth.config import FeatureGates
from kuberth.evaluation import Evaluator
from kuberth.framework.cluster_events import Action, ClusterEvent, Hint, Resource
from kuberth.plugins.node_resources_fit.plugin import NodeResourcesFit
from kuberth.testing import make_node, make_pod

FIT = "NodeResourcesFit"
QUEUE, SKIP = Hint.QUEUE, Hint.SKIP


def hint(pod: Pod, resource: Resource, action: Action, old: object, new: object) -> Hint | None:
    return Evaluator().hints(pod, ClusterEvent(resource, action), old, new).get(FIT)


def events(**gates: bool) -> dict[str, Action]:
    profile = Evaluator(feature_gates=FeatureGates(gates)).runner.profile
    plugin = next(p for p in profile.filter if isinstance(p, NodeResourcesFit))
    return {registered.event.resource: registered.event.action for registered in plugin.events_to_register()}


def test_events_with_hints() -> None:
    assert events() == {
        Resource.POD: Action.DELETE | Action.UPDATE_POD_SCALE_DOWN,
        Resource.NODE: Action.ADD | Action.UPDATE_NODE_ALLOCATABLE,
        Resource.DEVICE_CLASS: Action.ADD | Action.UPDATE,
    }


def test_events_without_hints_and_device_classes() -> None:
    assert events(SchedulerQueueingHints=False, DRAExtendedResource=False) == {
        Resource.POD: Action.DELETE | Action.UPDATE_POD_SCALE_DOWN,
        Resource.NODE: Action.ADD
        | Action.UPDATE_NODE_ALLOCATABLE
        | Action.UPDATE_NODE_TAINT
        | Action.UPDATE_NODE_LABEL,
    }


@pytest.mark.parametrize(
    "deleted, expected",
    (
        pytest.param({"node": "n1"}, QUEUE, id="had a node"),
        pytest.param({"status": {"nominatedNodeName": "n1"}}, QUEUE, id="has a nominated node"),
        pytest.param({}, SKIP, id="had none"),
    ),
)
def test_pod_deleted(deleted: dict[str, Any], expected: Hint) -> None:
    pod = make_pod("pending", cpu="1")
    gone = make_pod("gone", cpu="1", **deleted)
    assert hint(pod, Resource.ASSIGNED_POD, Action.DELETE, gone, None) is expected


def resized(cpu: str) -> dict[str, Any]:
    """The status of a pod whose container was given this much CPU."""
    given = {"requests": {"cpu": cpu}}
    return {"containerStatuses": [{"name": "main", "resources": given, "allocatedResources": {"cpu": cpu}}]}


@pytest.mark.parametrize(
    "pending, old, new, expected",
    (
        pytest.param({"cpu": "1"}, {"cpu": "2"}, {"cpu": "1"}, QUEUE, id="frees what the pod wants"),
        pytest.param({"memory": "1Gi"}, {"cpu": "2"}, {"cpu": "1"}, SKIP, id="frees something else"),
        pytest.param({}, {"cpu": "2"}, {"cpu": "1"}, SKIP, id="the pod wants nothing"),
        pytest.param({"cpu": "1"}, {"cpu": "1"}, {"cpu": "2"}, SKIP, id="takes more"),
        pytest.param(
            {"requests": {"nvidia.com/gpu": "1"}},
            {"requests": {"nvidia.com/gpu": "2"}},
            {"requests": {"nvidia.com/gpu": "1"}},
            QUEUE,
            id="extended resource",
        ),
        pytest.param(
            {"requests": {"ephemeral-storage": "1Gi"}},
            {"requests": {"ephemeral-storage": "2Gi"}},
            {},
            QUEUE,
            id="storage",
        ),
        pytest.param({"cpu": "1"}, {"cpu": "2"}, {"cpu": "1", "node": ""}, SKIP, id="it has no node"),
        pytest.param(
            {"cpu": "1"},
            {"cpu": "2", "status": resized("2")},
            {"cpu": "1", "status": resized("2")},
            SKIP,
            id="asked for less, but still has it",
        ),
        pytest.param(
            {"cpu": "1"},
            {"cpu": "1", "status": resized("2")},
            {"cpu": "1", "status": resized("1")},
            QUEUE,
            id="gave it back",
        ),
    ),
)
def test_pod_scaled_down(
    pending: dict[str, Any], old: dict[str, Any], new: dict[str, Any], expected: Hint
) -> None:
    before, after = (make_pod("other", uid="other", **{"node": "n1", **kwargs}) for kwargs in (old, new))
    pod = make_pod("pending", **pending)
    assert hint(pod, Resource.ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN, before, after) is expected


def test_the_pod_itself_scaled_down() -> None:
    old, new = (make_pod("pending", uid="same", cpu=cpu) for cpu in ("2", "1"))
    assert hint(old, Resource.UNSCHEDULABLE_POD, Action.UPDATE_POD_SCALE_DOWN, old, new) is QUEUE


@pytest.mark.parametrize(
    "pending, node, expected",
    (
        pytest.param({"cpu": "4"}, {}, QUEUE, id="fits"),
        pytest.param({"cpu": "5"}, {}, SKIP, id="too small"),
        pytest.param({}, {"pods": "0"}, SKIP, id="takes no pods"),
        pytest.param({"requests": {"nvidia.com/gpu": "1"}}, {}, SKIP, id="lacks the resource"),
        pytest.param({"resources": {"requests": {"cpu": "5"}}}, {}, SKIP, id="pod level"),
    ),
)
def test_node_added(pending: dict[str, Any], node: dict[str, Any], expected: Hint) -> None:
    pod = make_pod("pending", **pending)
    assert hint(pod, Resource.NODE, Action.ADD, None, make_node("n1", **node)) is expected


@pytest.mark.parametrize(
    "pending, old, new, expected",
    (
        pytest.param({"cpu": "4"}, {"cpu": "2"}, {"cpu": "4"}, QUEUE, id="more of what the pod wants"),
        pytest.param({"cpu": "4"}, {"cpu": "2"}, {"cpu": "3"}, SKIP, id="more, but not enough"),
        pytest.param({"cpu": "1"}, {"memory": "1Gi"}, {"memory": "2Gi"}, SKIP, id="more of something else"),
        pytest.param({"cpu": "1"}, {"cpu": "4"}, {"cpu": "2"}, SKIP, id="less"),
        pytest.param({}, {"cpu": "2"}, {"cpu": "4"}, SKIP, id="the pod wants nothing"),
        pytest.param({}, {"pods": "1"}, {"pods": "2"}, QUEUE, id="room for more pods"),
        pytest.param(
            {"requests": {"nvidia.com/gpu": "1"}},
            {},
            {"allocatable": {"nvidia.com/gpu": "1"}},
            QUEUE,
            id="a new resource",
        ),
    ),
)
def test_node_updated(
    pending: dict[str, Any], old: dict[str, Any], new: dict[str, Any], expected: Hint
) -> None:
    pod = make_pod("pending", **pending)
    before, after = make_node("n1", **old), make_node("n1", **new)
    assert hint(pod, Resource.NODE, Action.UPDATE_NODE_ALLOCATABLE, before, after) is expected


@pytest.mark.parametrize(
    "pod, resource, action, old, new",
    (
        pytest.param(make_pod("p"), Resource.NODE, Action.ADD, None, make_pod("x"), id="a pod for a node"),
        pytest.param(make_pod("p"), Resource.POD, Action.DELETE, make_node("n"), None, id="a node for a pod"),
        pytest.param(make_pod("p"), Resource.POD, Action.DELETE, None, None, id="nothing at all"),
        pytest.param(
            make_pod("p", cpu="four"),
            Resource.NODE,
            Action.ADD,
            None,
            make_node("n"),
            id="unreadable request",
        ),
        pytest.param(
            make_pod("p", cpu="1"),
            Resource.NODE,
            Action.ADD,
            None,
            make_node("n", cpu="four"),
            id="unreadable node",
        ),
    ),
)
def test_nonsense_counts_as_queue(
    pod: Pod, resource: Resource, action: Action, old: Node | Pod | None, new: Node | Pod | None
) -> None:
    assert hint(pod, resource, action, old, new) is QUEUE


def test_node_deleted_never_helps() -> None:
    plugin = next(p for p in Evaluator().runner.profile.filter if isinstance(p, NodeResourcesFit))
    (_pods, nodes, *_others) = plugin.events_to_register()
    assert nodes.hint is not None
    assert nodes.hint(make_pod("p"), make_node("n"), None) is SKIP
