"""What a node misses, in the words that people get."""

from __future__ import annotations

from typing import Any

import pytest

from kuberth.api.core import NodeSelectorRequirement, Pod
from kuberth.explaining import Question, explain
from kuberth.explaining.shortcomings import _satisfying_value, amount_text
from kuberth.testing import make_node, make_pod

PORT = [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]}]


def wants(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = [{"matchExpressions": list(expressions)}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"nodeAffinity": required}


CASES = [
    pytest.param(make_pod("p", cpu="1400m"), {"cpu": "1"}, ["400m cpu short"], id="cpu"),
    pytest.param(make_pod("p", memory="3Gi"), {"memory": "1Gi"}, ["2Gi memory short"], id="memory"),
    pytest.param(
        make_pod("p", requests={"example.com/gpu": "2"}),
        {"allocatable": {"example.com/gpu": "1"}},
        ["1 example.com/gpu short"],
        id="extended",
    ),
    pytest.param(
        make_pod("p", requests={"ephemeral-storage": "3Gi"}),
        {"allocatable": {"ephemeral-storage": "1Gi"}},
        ["2Gi ephemeral-storage short"],
        id="ephemeral-storage",
    ),
    pytest.param(
        make_pod("p", cpu="5", memory="9Gi"), {}, ["1 cpu short", "1Gi memory short"], id="two-resources"
    ),
    pytest.param(make_pod("p"), {"pods": "0"}, ["capacity for one more pod"], id="pods"),
    pytest.param(
        make_pod("p"),
        {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "value": "c", "effect": "NoExecute"}]},
        ["a toleration of the taint a:NoSchedule", "a toleration of the taint b=c:NoExecute"],
        id="taints",
    ),
    pytest.param(
        make_pod("p", tolerations=[{"key": "a", "operator": "Exists"}]),
        {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoSchedule"}]},
        ["a toleration of the taint b:NoSchedule"],
        id="tolerated-taint",
    ),
    pytest.param(
        make_pod("p"),
        {"taints": [{"key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule"}]},
        ["being healthy (it has the taint node.cloudprovider.kubernetes.io/uninitialized)"],
        id="problem",
    ),
    pytest.param(
        make_pod("p"), {"unschedulable": True}, ["being open to new pods (it is cordoned)"], id="cordon"
    ),
    pytest.param(make_pod("p", nodeSelector={"disk": "ssd"}), {}, ["the label disk=ssd"], id="node-selector"),
    pytest.param(
        make_pod("p", affinity=wants({"key": "zone", "operator": "In", "values": ["a", "b"]})),
        {},
        ["a label with zone in (a, b)"],
        id="affinity-in",
    ),
    pytest.param(
        make_pod("p", affinity=wants({"key": "zone", "operator": "NotIn", "values": ["a"]})),
        {"labels": {"zone": "a"}},
        ["a label with zone not in (a)"],
        id="affinity-not-in",
    ),
    pytest.param(
        make_pod("p", affinity=wants({"key": "cores", "operator": "Gt", "values": ["8"]})),
        {"labels": {"cores": "4"}},
        ["a label with cores Gt 8"],
        id="affinity-gt",
    ),
    pytest.param(
        make_pod(
            "p",
            affinity=wants(
                {"key": "kubernetes.io/hostname", "operator": "Exists"}, {"key": "x", "operator": "Exists"}
            ),
        ),
        {},
        ["a label with the key x"],
        id="only-what-is-unmet",
    ),
    pytest.param(make_pod("p", node="other"), {}, ["the name other, which the pod requests"], id="node-name"),
]


@pytest.mark.parametrize("pod, node, expected", CASES)
def test_what_a_node_misses(pod: Pod, node: dict[str, Any], expected: list[str]) -> None:
    (near,) = explain(Question(pod, [make_node("n", **node)])).near
    assert list(near.misses) == expected
    assert near.nodes == ("n",)


def test_a_port_names_the_pod_that_has_it() -> None:
    objects = [make_node("n"), make_pod("q", node="n", containers=PORT)]
    answer = explain(Question(make_pod("p", containers=PORT), objects))
    assert answer.near[0].misses == ("the host port 80/TCP, which pod default/q has",)
    assert answer.proposals[0].text == "delete pod default/q on node n"


def ports(*given: tuple[int, str]) -> list[dict[str, Any]]:
    return [{"name": "main", "ports": [{"containerPort": 1, "hostPort": n, "hostIP": ip} for n, ip in given]}]


def test_pods_with_a_port_of_another_address_are_not_in_the_way() -> None:
    objects = [
        make_node("n"),
        make_pod("a", node="n", containers=ports((80, "10.0.0.1"))),
        make_pod("b", node="n", containers=ports((443, ""))),
    ]
    answer = explain(Question(make_pod("p", containers=ports((80, "127.0.0.1"), (443, ""))), objects))
    assert answer.near[0].misses == ("the host port 443/TCP, which pod default/b has",)
    assert answer.proposals[0].text == "delete pod default/b on node n"


def test_all_pods_that_have_a_port_are_named() -> None:
    objects = [
        make_node("n"),
        make_pod("a", node="n", containers=ports((80, "10.0.0.1"))),
        make_pod("b", node="n", containers=ports((80, "127.0.0.1"))),
    ]
    answer = explain(Question(make_pod("p", containers=ports((80, ""))), objects))
    assert answer.near[0].misses == ("the host port 80/TCP, which pods default/a, default/b have",)
    assert answer.proposals[0].text == "delete pod default/a on node n and delete pod default/b on node n"


def named(*names: str, expressions: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    found = wants(*(expressions or []))
    (term,) = found["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    term["matchFields"] = [{"key": "metadata.name", "operator": "In", "values": list(names)}]
    return found


@pytest.mark.parametrize(
    "owners, expected",
    [
        pytest.param([], ["drop the pod's required node affinity"], id="of-its-own"),
        pytest.param([{"kind": "DaemonSet", "name": "d", "uid": "u"}], [], id="of-a-daemon-set"),
    ],
)
def test_a_pod_that_names_a_node_which_is_too_small(owners: list[Any], expected: list[str]) -> None:
    pod = make_pod("p", affinity=named("n"), metadata={"ownerReferences": owners})
    answer = explain(Question(pod, [make_node("n", pods="0"), make_node("other")]))
    assert [proposal.text for proposal in answer.proposals] == expected


def test_a_node_with_the_name_of_a_term_misses_its_labels() -> None:
    pod = make_pod("p", affinity=named("n", expressions=[{"key": "disk", "operator": "Exists"}]))
    answer = explain(Question(pod, [make_node("n"), make_node("other")]))
    assert answer.near[0].misses == ("a label with the key disk",)
    assert [proposal.text for proposal in answer.proposals] == [
        "drop the pod's required node affinity",
        "label node n with disk=true",
    ]


def affinity(kind: str, *terms: dict[str, Any]) -> dict[str, Any]:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def near_to(labels: dict[str, str], *, key: str = "zone", **more: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}, **more}


NO_RACK = "the label rack, the topology key of the pod's affinity"
TAINTED = "a toleration of the taint t:NoSchedule"
BOTH = "a pod with app=db in namespace default and tier=x in namespace other within"


@pytest.mark.parametrize(
    "terms, of_a, of_b",
    [
        pytest.param(
            [near_to({"app": "db"})],
            ["a pod with app=db in namespace default within zone=a"],
            [TAINTED],
            id="one-term",
        ),
        pytest.param(
            [near_to({"app": "db"}), near_to({"tier": "x"}, namespaces=["other"])],
            [f"{BOTH} zone=a"],
            [TAINTED, f"{BOTH} zone=b"],
            id="two-terms",
        ),
        pytest.param([near_to({"app": "db"}, key="rack")], [NO_RACK], [TAINTED, NO_RACK], id="topology-key"),
        pytest.param(
            [near_to({"app": "db"}), near_to({"app": "db"}, key="rack")],
            ["a pod with app=db in namespace default within zone=a", NO_RACK],
            [TAINTED, NO_RACK],
            id="the-zone-has-the-pod",
        ),
    ],
)
def test_pod_affinity_names_the_pods_that_are_missing(
    terms: list[dict[str, Any]], of_a: list[str], of_b: list[str]
) -> None:
    objects = [
        make_node("a", labels={"zone": "a"}),
        make_node("b", labels={"zone": "b"}, taints=[{"key": "t", "effect": "NoSchedule"}]),
        make_pod("q", node="b", labels={"app": "db"}),
    ]
    explanation = explain(Question(make_pod("p", affinity=affinity("podAffinity", *terms)), objects))
    found = {name: list(group.misses) for group in explanation.near for name in group.nodes}
    assert found == {"a": of_a, "b": of_b}


def test_nodes_that_miss_least_come_first_and_equal_ones_together() -> None:
    taint = [{"key": "a", "effect": "NoSchedule"}]
    nodes = [
        make_node("both", cpu="1", taints=taint),
        make_node("far", cpu="1"),
        make_node("near-2", cpu="1900m"),
        make_node("near-1", cpu="1900m"),
    ]
    answer = explain(Question(make_pod("p", cpu="2"), nodes))
    assert [(group.misses, group.nodes) for group in answer.near] == [
        (("100m cpu short",), ("near-1", "near-2")),
        (("1 cpu short",), ("far",)),
        (("a toleration of the taint a:NoSchedule", "1 cpu short"), ("both",)),
    ]


@pytest.mark.parametrize(
    "resource, amount, text",
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("memory", 2**30, "1Gi"),
        ("memory", 1000, "1k"),
        ("hugepages-2Mi", 2**21, "2Mi"),
        ("example.com/gpu", 3, "3"),
    ],
)
def test_amounts_read_as_kubernetes_writes_them(resource: str, amount: int, text: str) -> None:
    assert amount_text(resource, amount) == text


@pytest.mark.parametrize(
    ("operator", "values", "value"),
    [
        pytest.param("In", ("a", "b"), ("a",), id="in"),
        pytest.param("Exists", (), ("true",), id="exists"),
        pytest.param("NotIn", ("a",), (None,), id="not in"),
        pytest.param("Gt", ("5",), ("6",), id="greater"),
        pytest.param("Lt", ("5",), ("4",), id="less"),
        pytest.param("Gt", ("five",), None, id="no number"),
        pytest.param("In", (), None, id="in nothing"),
    ],
)
def test_the_nearest_value_that_meets_a_requirement(
    operator: str, values: tuple[str, ...], value: tuple[str | None] | None
) -> None:
    assert _satisfying_value(NodeSelectorRequirement(key="k", operator=operator, values=values)) == value
