from __future__ import annotations

from typing import Any

import pytest

from kuberth.cluster.pod_info import NO_REQUEST, HostPort, PodInfo
from kuberth.testing import make_pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def container(*ports: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "c", "ports": list(ports), **more}


@pytest.mark.parametrize(
    ("spec", "ports"),
    [
        pytest.param({"containers": [container({"containerPort": 80})]}, (), id="no-host-port"),
        pytest.param(
            {"containers": [container({"hostPort": 80})]}, (HostPort("0.0.0.0", "TCP", 80),), id="defaults"
        ),
        pytest.param(
            {"containers": [container({"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"})]},
            (HostPort("10.0.0.1", "UDP", 53),),
            id="address-and-protocol",
        ),
        pytest.param(
            {"containers": [container()], "initContainers": [container({"hostPort": 80})]},
            (),
            id="init-containers-are-gone-by-then",
        ),
        pytest.param(
            {
                "containers": [container({"hostPort": 1})],
                "initContainers": [container({"hostPort": 80}, restartPolicy="Always")],
            },
            (HostPort("0.0.0.0", "TCP", 80), HostPort("0.0.0.0", "TCP", 1)),
            id="sidecars-stay",
        ),
    ],
)
def test_host_ports(spec: dict[str, Any], ports: tuple[HostPort, ...]) -> None:
    assert PodInfo(make_pod("p", **spec)).host_ports == ports


@pytest.mark.parametrize(
    ("term", "own", "other", "labelled"),
    [
        pytest.param({}, True, False, False, id="own-namespace"),
        pytest.param({"namespaces": ["other"]}, False, True, False, id="listed"),
        pytest.param({"namespaceSelector": {}}, True, True, True, id="all-namespaces"),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"team": "a"}}}, False, False, True, id="selected"
        ),
        pytest.param(
            {"namespaces": ["other"], "namespaceSelector": {"matchLabels": {"team": "a"}}},
            False,
            True,
            True,
            id="listed-or-selected",
        ),
    ],
)
def test_pods_that_a_term_selects(term: dict[str, Any], own: bool, other: bool, labelled: bool) -> None:
    affinity = {"podAffinity": {REQUIRED: [{"topologyKey": "zone", "labelSelector": {}, **term}]}}
    (compiled,) = PodInfo(make_pod("p", affinity=affinity)).required_affinity
    assert compiled.topology_key == "zone"
    assert compiled.pods.matches("default", {}, {}) is own
    assert compiled.pods.matches("other", {}, {}) is other
    assert compiled.pods.matches("third", {}, {"team": "a"}) is labelled


def test_a_term_without_a_selector_speaks_of_no_one() -> None:
    affinity = {"podAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}
    (compiled,) = PodInfo(make_pod("p", affinity=affinity)).required_affinity
    assert not compiled.pods.matches("default", {"app": "web"}, {})


def test_preferred_terms_carry_their_sign() -> None:
    term = {"topologyKey": "zone", "labelSelector": {}}
    affinity = {
        "podAffinity": {PREFERRED: [{"weight": 3, "podAffinityTerm": term}]},
        "podAntiAffinity": {PREFERRED: [{"weight": 5, "podAffinityTerm": term}], REQUIRED: [term]},
    }
    info = PodInfo(make_pod("p", affinity=affinity))
    assert [weighted.weight for weighted in info.preferred_terms] == [3, -5]
    assert len(info.required_anti_affinity) == 1
    assert info.required_affinity == ()


def test_claims_are_named_with_their_namespace() -> None:
    volumes = [{"name": "a", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "b", "emptyDir": {}}]
    assert PodInfo(make_pod("p", namespace="shop", volumes=volumes)).volume_claims == ("shop/data",)


@pytest.mark.parametrize(
    ("pod", "problem"),
    [
        pytest.param({"cpu": "lots"}, "lots", id="quantity"),
        pytest.param(
            {
                "affinity": {
                    "podAffinity": {
                        REQUIRED: [
                            {
                                "topologyKey": "zone",
                                "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]},
                            }
                        ]
                    }
                }
            },
            "pod affinity",
            id="selector",
        ),
    ],
)
def test_an_unreadable_part_is_left_empty_and_reported(pod: dict[str, Any], problem: str) -> None:
    info = PodInfo(make_pod("p", **pod))
    assert len(info.problems) == 1
    assert problem in info.problems[0]
    assert info.required_affinity == ()
    assert info.request == NO_REQUEST or info.request.milli_cpu == 0


def test_a_placed_pod_differs_in_its_node_only() -> None:
    info = PodInfo(make_pod("p", cpu="1", labels={"app": "web"}, priority=3))
    placed = info.placed_on("n1")
    assert (placed.node_name, info.node_name) == ("n1", "")
    assert placed.request is info.request
    assert placed.pod_class is info.pod_class
    assert (placed.key, placed.uid, placed.priority) == (info.key, info.uid, 3)
    assert placed.pod.metadata is info.pod.metadata
    assert repr(placed) == "<PodInfo default/p>"


def test_pods_of_one_class() -> None:
    def pod_class(**pod: Any) -> object:
        return PodInfo(make_pod("p", **pod)).pod_class

    assert pod_class(labels={"a": "1", "b": "2"}, cpu="1") == pod_class(labels={"b": "2", "a": "1"})
    assert pod_class(labels={"a": "1"}) != pod_class(labels={"a": "2"})
    assert pod_class(namespace="x") != pod_class(namespace="y")
    assert pod_class(metadata={"deletionTimestamp": "2024-01-01T00:00:00Z"}) != pod_class()


REPORTED = {"name": "c", "resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "2"}}
TAKING = {
    "nodeAllocatableResourceClaimStatuses": [
        {"resourceClaimName": name, "containers": ["c"], "resources": {"cpu": "2"}} for name in "xy"
    ]
}


@pytest.mark.parametrize(
    ("node", "with_devices", "milli_cpu", "claims"),
    [
        pytest.param("n1", True, 5000, frozenset({"default/x", "default/y"}), id="on-a-node"),
        pytest.param("", True, 1000, frozenset(), id="without-a-node"),
        pytest.param("n1", False, 1000, frozenset(), id="with-the-gate-off"),
    ],
)
def test_what_devices_take_of_a_node_counts_there(
    node: str, with_devices: bool, milli_cpu: int, claims: frozenset[str]
) -> None:
    info = PodInfo(make_pod("p", cpu="1", node=node, status=TAKING), with_devices=with_devices)
    assert (info.request.milli_cpu, info.device_claims) == (milli_cpu, claims)
    assert info.placed_on("n2").device_claims == claims


@pytest.mark.parametrize(
    ("change", "alike"),
    [
        pytest.param({}, True, id="nothing"),
        pytest.param({"status": {"phase": "Running", "podIP": "10.0.0.1"}}, True, id="its-status"),
        pytest.param({"metadata": {"annotations": {"a": "b"}}}, True, id="an-annotation"),
        pytest.param({"status": {"containerStatuses": [{"name": "c", "ready": True}]}}, True, id="readiness"),
        pytest.param({"node": "n2"}, False, id="its-node"),
        pytest.param({"labels": {"app": "db"}}, True, id="a-label"),
        pytest.param({"cpu": "2"}, False, id="its-requests"),
        pytest.param({"priority": 7}, False, id="its-priority"),
        pytest.param(
            {"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}}, False, id="it-is-being-deleted"
        ),
        pytest.param({"status": {"containerStatuses": [REPORTED]}}, False, id="what-the-kubelet-allocated"),
        pytest.param(
            {"status": {"initContainerStatuses": [REPORTED]}}, False, id="what-it-allocated-for-a-sidecar"
        ),
        pytest.param({"status": {"resources": {"requests": {"cpu": "2"}}}}, False, id="at-pod-level"),
        pytest.param({"status": TAKING}, False, id="what-devices-take"),
    ],
)
def test_what_makes_a_new_version_another_pod_for_scheduling(change: dict[str, Any], alike: bool) -> None:
    first: dict[str, Any] = {"labels": {"app": "web"}, "cpu": "1", "node": "n1", "uid": "u"}
    info = PodInfo(make_pod("p", **first))
    pod = make_pod("p", **{**first, **change})
    renewed = info.renewed(pod)
    assert (renewed is not None) is alike
    if renewed is not None:
        afresh = PodInfo(pod)
        assert renewed.pod is pod
        assert all(getattr(renewed, slot) == getattr(afresh, slot) for slot in PodInfo.__slots__)


def test_a_resize_that_turns_out_infeasible_is_counted_again() -> None:
    def pod(*reasons: str) -> Any:
        conditions = [{"type": "PodResizePending", "status": "True", "reason": each} for each in reasons]
        return make_pod("p", cpu="1", status={"containerStatuses": [REPORTED], "conditions": conditions})

    info = PodInfo(pod("Deferred"))
    assert info.renewed(pod("Deferred")) is not None
    assert info.renewed(pod("Infeasible")) is None


def test_replicas_share_their_class_and_their_request() -> None:
    labels = {"app": "web"}
    first, second = (PodInfo(make_pod(name, cpu="1", labels=labels)) for name in "ab")
    assert first.pod_class == second.pod_class
    assert first.request is second.request
    third = PodInfo(make_pod("c", cpu="1", labels=labels, requests={"example.com/gpu": "1"}))
    assert third.request != first.request
