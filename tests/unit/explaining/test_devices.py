"""Devices: how many match and are free on each node, who holds the others, and deleting a holder."""

from __future__ import annotations

from typing import Any

from kuberth.config import FeatureGates
from kuberth.explaining import Explanation, Question, explain
from kuberth.explaining.edits import DeletePod, ScaleRequest
from kuberth.testing import make_node, make_pod
from tests.unit.explaining.test_proposals import takes
from tests.unit.plugins.device_objects import all_devices, exactly, given, make_claim, make_class, make_slice


def holder(name: str, *devices: str, node: str = "a", **more: Any) -> list[Any]:
    """A claim with these devices, and the pod that uses it."""
    users = [{"resource": "pods", "name": name, "uid": name}]
    status = {**given(*devices, node=node), "reservedFor": users}
    used = [{"name": "d", "resourceClaimName": f"{name}-claim"}]
    return [
        make_claim(f"{name}-claim", exactly(count=len(devices)), status=status),
        make_pod(name, uid=name, node=node, resourceClaims=used, **more),
    ]


POD = make_pod("p", resourceClaims=[{"name": "d", "resourceClaimName": "wanted"}])


def cluster(*more: Any, count: int = 1) -> list[Any]:
    nodes = [make_node("a"), make_node("b"), make_slice("a", 2)]
    return [make_claim("wanted", exactly(count=count)), make_class(), *nodes, *more]


def ask(objects: list[Any]) -> Explanation:
    return explain(Question(POD, [POD, *objects]))


def test_counts_and_holders_are_named() -> None:
    explanation = ask(cluster(*holder("one", "dev-0"), *holder("two", "dev-1")))
    found = {group.nodes: group.misses for group in explanation.near}
    assert found == {
        ("a",): (
            "1 free device for request q of ResourceClaim default/wanted (2 match, 0 free, "
            "held by claim default/one-claim (pod default/one); claim default/two-claim (pod default/two))",
        ),
        ("b",): ("1 free device for request q of ResourceClaim default/wanted (0 match, 0 free)",),
    }


def test_a_request_for_all_devices_needs_each_that_matches_and_at_least_one() -> None:
    objects = [make_claim("wanted", all_devices()), *cluster(*holder("one", "dev-0"))[1:]]
    found = {group.nodes: group.misses[0].partition(" for request")[0] for group in ask(objects).near}
    assert found == {("a",): "2 free devices", ("b",): "1 free device"}


def test_devices_that_the_scheduler_would_not_give_do_not_count() -> None:
    """Without the feature, those that have to be made ready first."""
    slow = {"name": "dev-0", "bindingConditions": ["Ready"], "bindingFailureConditions": ["Broken"]}
    objects = [make_claim("wanted", exactly()), make_class(), make_node("a"), make_slice("a", [slow])]
    gates = FeatureGates({"DRADeviceBindingConditions": False})
    (near,) = explain(Question(POD, [POD, *objects], feature_gates=gates)).near
    assert near.misses == ("1 free device for request q of ResourceClaim default/wanted (0 match, 0 free)",)


def test_nodes_with_too_few_devices_come_last() -> None:
    explanation = ask(cluster(*holder("one", "dev-0"), make_node("0-first"), count=2))
    assert [group.nodes for group in explanation.near] == [("a",), ("0-first", "b")]


def test_the_deletion_of_a_holder_is_proposed() -> None:
    objects = cluster(*holder("one", "dev-0"), *holder("two", "dev-1"))
    explanation = ask(objects)
    assert [proposal.edits for proposal in explanation.proposals] == [
        (DeletePod("default/one", "a"),),
        (DeletePod("default/two", "a"),),
    ]
    for proposal in explanation.proposals:
        assert takes(POD, objects, proposal.edits)


def test_several_holders_go_together() -> None:
    explanation = ask(cluster(*holder("one", "dev-0"), *holder("two", "dev-1"), count=2))
    assert explanation.near[0].misses[0].startswith("2 free devices")
    assert [set(proposal.edits) for proposal in explanation.proposals] == [
        {DeletePod("default/one", "a"), DeletePod("default/two", "a")}
    ]


def test_pods_that_may_not_be_deleted_are_named_only() -> None:
    owned = {"ownerReferences": [{"kind": "DaemonSet", "name": "d", "uid": "d"}]}
    explanation = ask(cluster(*holder("one", "dev-0", "dev-1", metadata=owned)))
    assert "pod default/one" in explanation.near[0].misses[0]
    assert explanation.proposals == ()


def test_extended_resources_count_the_devices_behind_them() -> None:
    wanting = make_pod("p", requests={"example.com/gpu": "2"})
    objects = [make_class(extendedResourceName="example.com/gpu"), *cluster(*holder("one", "dev-0"))[2:]]
    explanation = explain(Question(wanting, [wanting, *objects]))
    found = {group.nodes: group.misses for group in explanation.near}
    assert found == {
        ("a",): (
            "2 free devices for example.com/gpu of container main (2 match, 1 free, "
            "held by claim default/one-claim (pod default/one))",
        ),
        ("b",): ("2 free devices for example.com/gpu of container main (0 match, 0 free)",),
    }
    assert [proposal.edits for proposal in explanation.proposals] == [
        (ScaleRequest("main", "example.com/gpu", "2", "1"),),
        (DeletePod("default/one", "a"),),
    ]
    for proposal in explanation.proposals:
        assert takes(wanting, objects, proposal.edits)
