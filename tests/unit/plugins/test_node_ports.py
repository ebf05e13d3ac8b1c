from __future__ import annotations

from typing import Any

import pytest

from kuberth.api.core import Pod
from kuberth.cluster.pod_info import PodInfo
from kuberth.framework.cluster_events import Action, Hint
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.status import SKIP, Code
from kuberth.plugins.node_ports.plugin import NodePorts
from kuberth.testing.factories import make_node, make_pod
from tests.unit.plugins.harness import assert_views_agree, evaluator, hint

PLUGIN = "NodePorts"


def port(number: int, ip: str = "", protocol: str = "") -> dict[str, Any]:
    return {"containerPort": 1, "hostPort": number, "hostIP": ip, "protocol": protocol}


def with_ports(name: str, *ports: dict[str, Any], **spec: Any) -> Pod:
    return make_pod(name, containers=[{"name": "c", "ports": list(ports)}], **spec)


CONFLICTS = [
    pytest.param(port(80), port(80), True, id="same port"),
    pytest.param(port(80), port(81), False, id="other port"),
    pytest.param(port(80), port(80, protocol="TCP"), True, id="no protocol means TCP"),
    pytest.param(port(80), port(80, protocol="UDP"), False, id="other protocol"),
    pytest.param(port(80), port(80, "0.0.0.0"), True, id="no address means all"),
    pytest.param(port(80), port(80, "10.0.0.1"), True, id="all addresses wanted, one taken"),
    pytest.param(port(80, "10.0.0.1"), port(80), True, id="one address wanted, all taken"),
    pytest.param(port(80, "10.0.0.1"), port(80, "10.0.0.1"), True, id="same address"),
    pytest.param(port(80, "10.0.0.1"), port(80, "10.0.0.2"), False, id="other address"),
    pytest.param(port(80, "::"), port(80, "10.0.0.2"), False, id=":: is not all addresses"),
]


@pytest.mark.parametrize(("wanted", "taken", "conflict"), CONFLICTS)
def test_a_taken_port_rules_the_node_out(
    wanted: dict[str, Any], taken: dict[str, Any], conflict: bool
) -> None:
    judge = evaluator(
        PLUGIN, make_node("free"), make_node("used"), with_ports("other", port(7), taken, node="used")
    )
    answer = judge.evaluate(with_ports("p", port(9), wanted))
    assert answer.feasible == (("free",) if conflict else ("free", "used"))
    if conflict:
        status = answer.rejections["used"]
        assert (status.plugin, status.code) == (PLUGIN, Code.UNSCHEDULABLE)
        assert status.reasons == ("node(s) didn't have free ports for the requested pod ports",)


@pytest.mark.parametrize(
    ("restart_policy", "counts"),
    [pytest.param("Always", True, id="a sidecar"), pytest.param(None, False, id="a plain init container")],
)
def test_only_init_containers_that_stay_hold_ports(restart_policy: str | None, counts: bool) -> None:
    init = {"name": "i", "ports": [port(80)]} | ({"restartPolicy": restart_policy} if restart_policy else {})
    pod = make_pod("holds", node="used", initContainers=[init])
    judge = evaluator(PLUGIN, make_node("used"), pod)
    assert bool(judge.evaluate(with_ports("p", port(80))).feasible) is not counts


def test_a_pod_without_host_ports_is_skipped() -> None:
    judge = evaluator(PLUGIN, make_node("n"))
    pod = with_ports("p", port(0))
    plugin = judge.runner.profile.plugins[PLUGIN]
    assert isinstance(plugin, NodePorts)
    assert plugin.pre_filter(CycleState(PodInfo(pod)), pod, judge.cluster.all_nodes()) is SKIP


def test_ports_are_read_as_they_stand_in_a_what_if() -> None:
    other = with_ports("other", port(80), node="n")
    judge = evaluator(PLUGIN, make_node("n"), other)
    pod = with_ports("p", port(80))
    state = CycleState(PodInfo(pod))
    node = judge.cluster.node_named("n")
    assert node is not None
    judge.runner.pre_filtering.run(state, pod, judge.cluster.all_nodes())
    assert judge.runner.filtering.status(state, pod, node).code == Code.UNSCHEDULABLE
    with judge.cluster.what_if() as what_if:
        what_if.remove_pod(node.pods[0], node.row)
        assert judge.runner.filtering.status(state, pod, node).is_success
        what_if.add_pod(PodInfo(with_ports("third", port(80, "10.0.0.9"))), node.row)
        assert judge.runner.filtering.status(state, pod, node).code == Code.UNSCHEDULABLE
    assert judge.runner.filtering.status(state, pod, node).code == Code.UNSCHEDULABLE


def test_all_views_say_the_same() -> None:
    nodes = [make_node(f"n{i}") for i in range(9)]
    ports = [port(80), port(80, "10.0.0.1"), port(80, "10.0.0.2"), port(80, "10.0.0.1", "UDP")]
    pods = [with_ports(f"p{i}", ports[i % 4], node=f"n{i}") for i in range(7)]
    judge = evaluator(PLUGIN, *nodes, *pods)
    for wanted in ports:
        assert_views_agree(judge, PLUGIN, with_ports("p", wanted))


@pytest.mark.parametrize(("wanted", "taken", "conflict"), CONFLICTS)
def test_hint_after_a_placed_pod_is_deleted(
    wanted: dict[str, Any], taken: dict[str, Any], conflict: bool
) -> None:
    deleted = with_ports("other", taken, node="n")
    given = hint(evaluator(PLUGIN), with_ports("p", wanted), ("Pod", Action.DELETE), deleted, None)
    assert given is (Hint.QUEUE if conflict else Hint.SKIP)


@pytest.mark.parametrize(
    ("deleted", "expected"),
    [
        pytest.param(with_ports("o", port(80)), Hint.SKIP, id="never had a node"),
        pytest.param(
            with_ports("o", port(80), status={"nominatedNodeName": "n"}),
            Hint.QUEUE,
            id="has a nominated node",
        ),
        pytest.param(make_pod("o", node="n"), Hint.SKIP, id="held no port"),
    ],
)
def test_hint_depends_on_what_the_deleted_pod_held(deleted: Pod, expected: Hint) -> None:
    assert (
        hint(evaluator(PLUGIN), with_ports("p", port(80)), ("Pod", Action.DELETE), deleted, None) is expected
    )


def test_a_new_node_always_queues_and_an_updated_one_is_no_news() -> None:
    judge, pod, node = evaluator(PLUGIN), with_ports("p", port(80)), make_node("n")
    assert hint(judge, pod, ("Node", Action.ADD), None, node) is Hint.QUEUE
    assert hint(judge, pod, ("Node", Action.UPDATE_NODE_LABEL), node, node) is None
