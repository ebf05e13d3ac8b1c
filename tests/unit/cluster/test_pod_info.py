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
def test_whom_a_term_speaks_of(term: dict[str, Any], own: bool, other: bool, labelled: bool) -> None:
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
def test_an_unreadable_part_is_left_empty_and_told(pod: dict[str, Any], problem: str) -> None:
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
