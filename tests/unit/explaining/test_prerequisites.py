"""Objects that a pod waits for: claims, classes, templates, gangs, and victims of preemption."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from kuberth.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from kuberth.api.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate
from kuberth.api.scheduling import PodGroup
from kuberth.api.storage import StorageClass
from kuberth.api.wire import convert
from kuberth.config import FeatureGates
from kuberth.explaining import Explanation, Question, explain
from kuberth.explaining.explanation import to_tree
from kuberth.explaining.prerequisites import Nomination
from kuberth.testing import make_node, make_pod

GANGS = FeatureGates({"GenericWorkload": True, "GangScheduling": True})
VOLUME = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]


def missing(pod: Pod, *objects: Any, **more: Any) -> list[str]:
    explanation = explain(Question(pod, [make_node("n"), pod, *objects], **more))
    return [each.text for each in explanation.missing]


def pvc(**spec: Any) -> PersistentVolumeClaim:
    return convert(
        PersistentVolumeClaim, {"metadata": {"namespace": "default", "name": "data"}, "spec": spec}
    )


def storage_class(name: str, mode: str) -> StorageClass:
    return convert(StorageClass, {"metadata": {"name": name}, "volumeBindingMode": mode, "provisioner": "x"})


def requests(device_class: str) -> dict[str, Any]:
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": 1}
    return {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}


def claim(device_class: str) -> ResourceClaim:
    return convert(
        ResourceClaim, {"metadata": {"namespace": "default", "name": "c"}, "spec": requests(device_class)}
    )


def template(device_class: str) -> ResourceClaimTemplate:
    metadata = {"namespace": "default", "name": "t"}
    return convert(ResourceClaimTemplate, {"metadata": metadata, "spec": {"spec": requests(device_class)}})


@pytest.mark.parametrize(
    "pod, objects, expected",
    [
        pytest.param(make_pod("p"), [], [], id="nothing"),
        pytest.param(
            make_pod("p", volumes=VOLUME),
            [],
            ["PersistentVolumeClaim default/data does not exist"],
            id="claim",
        ),
        pytest.param(
            make_pod("p", volumes=[{"name": "v", "ephemeral": {}}]),
            [],
            ["PersistentVolumeClaim default/p-v is not created yet for the ephemeral volume"],
            id="ephemeral-claim",
        ),
        pytest.param(
            make_pod("p", volumes=VOLUME),
            [pvc(storageClassName="fast")],
            [
                "StorageClass fast of PersistentVolumeClaim default/data does not exist",
                "PersistentVolumeClaim default/data is not bound; it waits for a volume of StorageClass fast",
            ],
            id="storage-class",
        ),
        pytest.param(
            make_pod("p", volumes=VOLUME),
            [pvc(storageClassName="fast"), storage_class("fast", "Immediate")],
            ["PersistentVolumeClaim default/data is not bound; it waits for a volume of StorageClass fast"],
            id="unbound",
        ),
        pytest.param(
            make_pod("p", volumes=VOLUME),
            [pvc(storageClassName="fast"), storage_class("fast", "WaitForFirstConsumer")],
            [],
            id="waits-for-its-first-consumer",
        ),
        pytest.param(
            make_pod("p", resourceClaims=[{"name": "r", "resourceClaimName": "c"}]),
            [],
            ["ResourceClaim default/c does not exist"],
            id="resource-claim",
        ),
        pytest.param(
            make_pod("p", resourceClaims=[{"name": "r", "resourceClaimName": "c"}]),
            [claim("gpu")],
            ["DeviceClass gpu of ResourceClaim default/c does not exist"],
            id="device-class",
        ),
        pytest.param(
            make_pod("p", resourceClaims=[{"name": "r", "resourceClaimName": "c"}]),
            [claim("gpu"), convert(DeviceClass, {"metadata": {"name": "gpu"}})],
            [],
            id="all-there",
        ),
        pytest.param(
            make_pod("p", resourceClaims=[{"name": "r", "resourceClaimTemplateName": "t"}]),
            [],
            [
                "ResourceClaimTemplate default/t is not among the objects that were read, "
                "and no ResourceClaim was made from it"
            ],
            id="template",
        ),
        pytest.param(
            make_pod("p", resourceClaims=[{"name": "r", "resourceClaimTemplateName": "t"}]),
            [template("gpu")],
            [
                "ResourceClaimTemplate default/t exists, but no ResourceClaim was made from it yet",
                "DeviceClass gpu of ResourceClaimTemplate default/t does not exist",
            ],
            id="template-without-claim",
        ),
    ],
)
def test_missing_objects_are_named(pod: Pod, objects: list[Any], expected: list[str]) -> None:
    assert missing(pod, *objects) == expected


def test_a_volume_that_does_not_exist() -> None:
    bound = pvc(volumeName="pv-1")
    found = missing(make_pod("p", volumes=VOLUME), bound)
    assert found[0] == "PersistentVolume pv-1 of PersistentVolumeClaim default/data does not exist"
    volume = convert(PersistentVolume, {"metadata": {"name": "pv-1"}})
    assert not any(
        "PersistentVolume pv-1" in text for text in missing(make_pod("p", volumes=VOLUME), bound, volume)
    )


def group(min_count: int | None = None) -> PodGroup:
    policy: dict[str, Any] = {"basic": {}} if min_count is None else {"gang": {"minCount": min_count}}
    metadata = {"namespace": "default", "name": "g", "uid": "g"}
    return convert(PodGroup, {"metadata": metadata, "spec": {"schedulingPolicy": policy}})


def member(name: str, **more: Any) -> Pod:
    return make_pod(name, uid=name, schedulingGroup={"podGroupName": "g"}, **more)


@pytest.mark.parametrize(
    "objects, expected",
    [
        pytest.param([], ["PodGroup default/g does not exist"], id="no-group"),
        pytest.param(
            [group(4), member("q")],
            ["PodGroup default/g needs 4 pods and has 2: 2 more must be created"],
            id="too-few-pods",
        ),
        pytest.param(
            [group(3), member("q", node="n"), member("r")],
            ["PodGroup default/g needs nodes for 3 pods and has 1 so far; without a node: p, r"],
            id="too-few-nodes",
        ),
        pytest.param(
            [group(9), *(member(f"q-{number}") for number in range(8))],
            [
                "PodGroup default/g needs nodes for 9 pods and has 0 so far; "
                "without a node: p, q-0, q-1, q-2, q-3 and 4 more"
            ],
            id="many-without-nodes",
        ),
        pytest.param([group(1), member("q", node="n")], [], id="complete"),
        pytest.param([group()], [], id="no-gang"),
    ],
)
def test_a_gang_counts_its_members(objects: list[Any], expected: list[str]) -> None:
    assert missing(member("p"), *objects, feature_gates=GANGS) == expected


def test_a_gang_that_is_too_small_gates_its_pods() -> None:
    objects = [make_node("n"), group(2)]
    explanation = explain(Question(member("p"), objects, feature_gates=GANGS))
    assert explanation.verdict == "gated"
    assert explanation.message.startswith("waiting for minCount pods from a gang")


# Preemption that is under way


def preempting(**status: Any) -> Explanation:
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    victim = make_pod(
        "victim", cpu="3", node="n", priority=1, metadata={"deletionTimestamp": now.isoformat()}
    )
    pod = make_pod("p", cpu="2", priority=5, status=status)
    objects = [make_node("n", cpu="4"), victim, make_pod("other", cpu="1", node="n", priority=1), pod]
    return explain(Question(pod, objects))


def test_a_preempting_pod_waits_for_its_victims() -> None:
    explanation = preempting(nominatedNodeName="n")
    assert explanation.nominated == Nomination("n", ("default/victim",))
    assert to_tree(explanation)["nominated"] == {"node": "n", "terminating": ["default/victim"]}
    assert preempting().nominated is None


def test_a_nomination_hides_no_other_node() -> None:
    pod = make_pod("p", cpu="1", status={"nominatedNodeName": "a"})
    assert explain(Question(pod, [make_node("a"), make_node("b"), pod])).answer.feasible == ("a", "b")
