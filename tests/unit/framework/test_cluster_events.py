from __future__ import annotations

import pytest

from kuberth.framework import Action, ClusterEvent, Hint, Resource, cluster_events
from kuberth.framework.cluster_events import ALL_EVENTS, concerns

# kube-scheduler compares action sets as numbers, so their values matter, not only their names.
ACTIONS = {
    "Add": 1 << 0,
    "Delete": 1 << 1,
    "UpdateNodeAllocatable": 1 << 2,
    "UpdateNodeLabel": 1 << 3,
    "UpdateNodeTaint": 1 << 4,
    "UpdateNodeCondition": 1 << 5,
    "UpdateNodeAnnotation": 1 << 6,
    "UpdateNodeDeclaredFeature": 1 << 7,
    "UpdatePodLabel": 1 << 8,
    "UpdatePodScaleDown": 1 << 9,
    "UpdatePodToleration": 1 << 10,
    "UpdatePodSchedulingGatesEliminated": 1 << 11,
    "UpdatePodGeneratedResourceClaim": 1 << 12,
    "Update": 0b1_1111_1111_1100,
    "All": 0b1_1111_1111_1111,
}


def test_actions_are_upstreams() -> None:
    assert {action.label: action.value for action in Action.__members__.values()} == ACTIONS


@pytest.mark.parametrize("label", ACTIONS)
def test_an_action_is_found_by_its_label(label: str) -> None:
    assert Action.from_label(label).label == label


def test_a_mixture_has_no_label() -> None:
    assert (Action.ADD | Action.DELETE).label == ""


@pytest.mark.parametrize(
    "event, label",
    [
        (ClusterEvent(Resource.NODE, Action.ADD), "NodeAdd"),
        (ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT), "NodeUpdateNodeTaint"),
        (ClusterEvent(Resource.NODE, Action.UPDATE), "NodeUpdate"),
        (ClusterEvent(Resource.CSI_NODE, Action.DELETE), "storage.k8s.io/CSINodeDelete"),
        (ClusterEvent("widgets.v1.example.com", Action.ALL), "widgets.v1.example.comAll"),
        (cluster_events.ASSIGNED_POD_ADD, "AssignedPodAdd"),
        (cluster_events.ASSIGNED_POD_UPDATE, "AssignedPodUpdate"),
        (cluster_events.ASSIGNED_POD_DELETE, "AssignedPodDelete"),
        (cluster_events.UNSCHEDULED_POD_ADD, "UnschedulablePodAdd"),
        (cluster_events.UNSCHEDULED_POD_UPDATE, "UnschedulablePodUpdate"),
        (cluster_events.UNSCHEDULED_POD_DELETE, "UnschedulablePodDelete"),
        (cluster_events.UNSCHEDULABLE_TIMEOUT, "UnschedulableTimeout"),
        (cluster_events.FORCED_ACTIVATION, "ForceActivate"),
    ],
    ids=lambda value: value if type(value) is str else "",
)
def test_events_are_called_as_upstream_calls_them(event: ClusterEvent, label: str) -> None:
    assert event.label == label


def test_names_for_what_is_no_event() -> None:
    assert (
        cluster_events.SCHEDULE_ATTEMPT_FAILURE,
        cluster_events.BACKOFF_COMPLETE,
        cluster_events.POP_FROM_BACKOFF,
        cluster_events.FORCE_ACTIVATE,
    ) == ("ScheduleAttemptFailure", "BackoffComplete", "PopFromBackoffQ", "ForceActivate")
    assert (Hint.QUEUE.value, Hint.SKIP.value) == ("Queue", "QueueSkip")


def test_resources_are_called_as_upstream_calls_them() -> None:
    assert {str(resource) for resource in Resource} == {
        "Pod",
        "AssignedPod",
        "UnschedulablePod",
        "Node",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "storage.k8s.io/CSINode",
        "storage.k8s.io/CSIDriver",
        "storage.k8s.io/VolumeAttachment",
        "storage.k8s.io/CSIStorageCapacity",
        "storage.k8s.io/StorageClass",
        "resource.k8s.io/ResourceClaim",
        "resource.k8s.io/ResourceSlice",
        "resource.k8s.io/DeviceClass",
        "scheduling.k8s.io/PodGroup",
        "*",
    }


NODE, POD, ASSIGNED, UNSCHEDULABLE, ANY = (
    Resource.NODE,
    Resource.POD,
    Resource.ASSIGNED_POD,
    Resource.UNSCHEDULABLE_POD,
    Resource.ANY,
)


@pytest.mark.parametrize(
    "registered, incoming, concerned",
    [
        pytest.param((NODE, Action.ADD), (NODE, Action.ADD), True, id="the-same"),
        pytest.param((NODE, Action.ADD), (NODE, Action.DELETE), False, id="another-action"),
        pytest.param((NODE, Action.ADD), (POD, Action.ADD), False, id="another-resource"),
        pytest.param(
            (NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
            (NODE, Action.UPDATE_NODE_LABEL),
            True,
            id="one-of-two",
        ),
        pytest.param((NODE, Action.UPDATE), (NODE, Action.UPDATE_NODE_LABEL), True, id="more-specific"),
        pytest.param((NODE, Action.UPDATE_NODE_LABEL), (NODE, Action.UPDATE), False, id="less-specific"),
        pytest.param((NODE, Action.ALL), (NODE, Action.UPDATE), True, id="all-actions"),
        pytest.param((POD, Action.ADD), (ASSIGNED, Action.ADD), True, id="pod-means-assigned-pods"),
        pytest.param((POD, Action.ADD), (UNSCHEDULABLE, Action.ADD), True, id="and-pending-pods"),
        pytest.param(
            (ASSIGNED, Action.ADD), (UNSCHEDULABLE, Action.ADD), False, id="assigned-is-not-pending"
        ),
        pytest.param((ASSIGNED, Action.ADD), (POD, Action.ADD), False, id="not-the-other-way-round"),
        pytest.param((ANY, Action.ALL), (NODE, Action.ADD), True, id="a-wildcard-takes-all"),
        pytest.param((ANY, Action.ALL), (ANY, Action.ALL), True, id="and-a-wildcard"),
        pytest.param((ANY, Action.ADD), (NODE, Action.ADD), True, id="any-resource-one-action"),
        pytest.param((ANY, Action.ADD), (NODE, Action.DELETE), False, id="any-resource-another-action"),
        pytest.param((NODE, Action.ALL), (ANY, Action.ALL), False, id="a-wildcard-is-no-node"),
        pytest.param((ANY, Action.ADD), (ANY, Action.ALL), False, id="a-wildcard-is-wider-than-an-addition"),
        pytest.param(
            (NODE, Action.UPDATE_NODE_TAINT),
            (NODE, Action.UPDATE_NODE_TAINT | Action.UPDATE_NODE_LABEL),
            False,
            id="wider-by-a-higher-number",
        ),
        pytest.param(
            (NODE, Action.UPDATE_NODE_TAINT),
            (NODE, Action.UPDATE_NODE_TAINT | Action.ADD),
            False,
            id="wider-by-a-lower-bit",
        ),
        pytest.param(
            ("widgets.v1.example.com", Action.ADD),
            ("widgets.v1.example.com", Action.ADD),
            True,
            id="your-own-kind",
        ),
    ],
)
def test_which_events_concern_a_registration(
    registered: tuple[str, Action], incoming: tuple[str, Action], concerned: bool
) -> None:
    assert concerns(ClusterEvent(*registered), ClusterEvent(*incoming)) is concerned


def test_events_of_a_plugin_that_does_not_say() -> None:
    assert [(str(event.resource), event.action, hint) for event, hint, _concern in ALL_EVENTS] == [
        (resource, Action.ALL, None)
        for resource in (
            "Pod",
            "Node",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "storage.k8s.io/CSINode",
            "storage.k8s.io/CSIDriver",
            "storage.k8s.io/CSIStorageCapacity",
            "storage.k8s.io/StorageClass",
            "resource.k8s.io/ResourceClaim",
            "resource.k8s.io/DeviceClass",
        )
    ]
