from __future__ import annotations

from typing import Any

import pytest

from kuberth.framework.cluster_events import Action, Hint
from kuberth.testing.factories import make_node
from tests.unit.plugins.harness import evaluator, hint
from tests.unit.plugins.volume_objects import (
    DRIVER,
    ZONE,
    allowed,
    ephemeral,
    make_capacity,
    make_claim,
    make_class,
    make_csi_driver,
    make_csi_node,
    make_volume,
    pod_with,
)

PLUGIN = "VolumeBinding"
CLASS = "storage.k8s.io/StorageClass"
CLAIM = "PersistentVolumeClaim"
VOLUME = "PersistentVolume"
CSI_NODE = "storage.k8s.io/CSINode"
CSI_DRIVER = "storage.k8s.io/CSIDriver"
CAPACITY = "storage.k8s.io/CSIStorageCapacity"
ADD, UPDATE, DELETE = Action.ADD, Action.UPDATE, Action.DELETE
TRACKS, TRACKS_NOT = make_csi_driver(storageCapacity=True), make_csi_driver(storageCapacity=False)


@pytest.mark.parametrize(
    ("event", "old", "new", "expected"),
    [
        pytest.param((CLASS, ADD), None, make_class(), Hint.QUEUE, id="a new class"),
        pytest.param(
            (CLASS, UPDATE),
            make_class(),
            make_class(allowedTopologies=allowed({ZONE: ["a"]})),
            Hint.QUEUE,
            id="a class reaches elsewhere",
        ),
        pytest.param(
            (CLASS, UPDATE), make_class(), make_class(parameters={"a": "b"}), Hint.SKIP, id="other parameters"
        ),
        pytest.param((CLASS, DELETE), make_class(), None, None, id="a class is gone"),
        pytest.param((CLAIM, ADD), None, make_claim("c"), Hint.QUEUE, id="its claim"),
        pytest.param((CLAIM, UPDATE), make_claim("c"), make_claim("c"), Hint.QUEUE, id="its claim changed"),
        pytest.param((CLAIM, ADD), None, make_claim("p-e"), Hint.QUEUE, id="its ephemeral volume's claim"),
        pytest.param((CLAIM, ADD), None, make_claim("d"), Hint.SKIP, id="another claim"),
        pytest.param((CLAIM, ADD), None, make_claim("c", namespace="x"), Hint.SKIP, id="another namespace"),
        pytest.param((VOLUME, ADD), None, make_volume("v"), Hint.QUEUE, id="a new volume"),
        pytest.param((VOLUME, UPDATE), make_volume("v"), make_volume("v"), Hint.QUEUE, id="a volume changed"),
        pytest.param((VOLUME, DELETE), make_volume("v"), None, None, id="a volume is gone"),
        pytest.param((CSI_NODE, ADD), None, make_csi_node("n"), Hint.QUEUE, id="a new CSINode"),
        pytest.param(
            (CSI_NODE, UPDATE),
            make_csi_node("n"),
            make_csi_node("n", migrated="kubernetes.io/gce-pd"),
            Hint.QUEUE,
            id="a plugin was migrated",
        ),
        pytest.param(
            (CSI_NODE, UPDATE),
            make_csi_node("n"),
            make_csi_node("n", migrated=""),
            Hint.SKIP,
            id="no annotation and an empty one are the same",
        ),
        pytest.param(
            (CSI_NODE, UPDATE), make_csi_node("n"), make_csi_node("n", {DRIVER: 9}), Hint.SKIP, id="a limit"
        ),
        pytest.param((CAPACITY, ADD), None, make_capacity(), Hint.QUEUE, id="a new capacity"),
        pytest.param(
            (CAPACITY, UPDATE),
            make_capacity(capacity="1Gi"),
            make_capacity(capacity="2Gi"),
            Hint.QUEUE,
            id="more",
        ),
        pytest.param(
            (CAPACITY, UPDATE),
            make_capacity(capacity="2Gi"),
            make_capacity(capacity="2Gi"),
            Hint.SKIP,
            id="same",
        ),
        pytest.param(
            (CAPACITY, UPDATE),
            make_capacity(),
            make_capacity(capacity="1Gi"),
            Hint.QUEUE,
            id="a first figure",
        ),
        pytest.param(
            (CAPACITY, UPDATE),
            make_capacity(capacity="1Gi"),
            make_capacity(),
            Hint.SKIP,
            id="no figure any more",
        ),
        pytest.param(
            (CAPACITY, UPDATE),
            make_capacity(capacity="1Gi", maximumVolumeSize="1Gi"),
            make_capacity(capacity="9Gi", maximumVolumeSize="1Gi"),
            Hint.SKIP,
            id="more, but not in one piece",
        ),
        pytest.param((CSI_DRIVER, UPDATE), TRACKS, TRACKS_NOT, Hint.SKIP, id="a driver it does not name"),
        pytest.param((CSI_DRIVER, ADD), None, TRACKS_NOT, None, id="a new driver"),
        pytest.param((CLAIM, UPDATE), None, None, Hint.QUEUE, id="nonsense"),
    ],
)
def test_hints(event: tuple[str, Action], old: Any, new: Any, expected: Hint | None) -> None:
    judge = evaluator(PLUGIN, make_node("n"))
    assert hint(judge, pod_with("c", ephemeral("e")), event, old, new) is expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(TRACKS, TRACKS_NOT, Hint.QUEUE, id="it says it does not keep track any more"),
        pytest.param(TRACKS, make_csi_driver(), Hint.QUEUE, id="it no longer says so"),
        pytest.param(TRACKS, TRACKS, Hint.SKIP, id="it still does"),
        pytest.param(TRACKS_NOT, make_csi_driver(), Hint.SKIP, id="it never did"),
        pytest.param(
            make_csi_driver("other", storageCapacity=True),
            make_csi_driver("other"),
            Hint.SKIP,
            id="another one",
        ),
    ],
)
def test_hint_for_a_pod_with_an_inline_volume_of_a_driver(old: Any, new: Any, expected: Hint) -> None:
    judge = evaluator(PLUGIN, make_node("n"))
    pod = pod_with({"csi": {"driver": DRIVER}})
    assert hint(judge, pod, (CSI_DRIVER, UPDATE), old, new) is expected


@pytest.mark.parametrize(
    ("hints", "action", "expected"),
    [
        pytest.param(True, Action.ADD, Hint.QUEUE, id="a new node"),
        pytest.param(True, Action.UPDATE_NODE_LABEL, Hint.QUEUE, id="labels"),
        pytest.param(True, Action.UPDATE_NODE_ALLOCATABLE, None, id="resources"),
        pytest.param(False, Action.UPDATE_NODE_TAINT, Hint.QUEUE, id="taints, without hints"),
    ],
)
def test_node_events(hints: bool, action: Action, expected: Hint | None) -> None:
    judge = evaluator(PLUGIN, make_node("n"), gates={"SchedulerQueueingHints": hints})
    assert hint(judge, pod_with("c"), ("Node", action), make_node("n"), make_node("n")) is expected
