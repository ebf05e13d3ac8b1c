from __future__ import annotations

from typing import Any

import pytest

from kuberth.framework.cluster_events import Action, Hint
from kuberth.framework.status import Code
from kuberth.testing.factories import make_node, make_pod
from tests.unit.plugins.harness import assert_views_agree, evaluator, hint

PLUGIN = "NodeDeclaredFeatures"
RESTART = "RestartAllContainersOnContainerExits"
USERNS = "UserNamespacesHostNetworkSupport"

RESTARTING = {"name": "c", "restartPolicyRules": [{"action": "Restart"}, {"action": "RestartAllContainers"}]}
NODES = (
    make_node("none"),
    make_node("other", declaredFeatures=["ExtendWebSocketsToKubelet", "Unheard"]),
    make_node("restart", declaredFeatures=[RESTART]),
    make_node("both", declaredFeatures=[RESTART, USERNS]),
)
EVERYWHERE = ("both", "none", "other", "restart")


@pytest.mark.parametrize(
    ("spec", "feasible"),
    [
        pytest.param({}, EVERYWHERE, id="needs nothing"),
        pytest.param({"containers": [RESTARTING]}, ("both", "restart"), id="a container restarts all"),
        pytest.param({"initContainers": [RESTARTING]}, ("both", "restart"), id="an init container does"),
        pytest.param(
            {"containers": [{"name": "c", "restartPolicyRules": [{"action": "Restart"}]}]},
            EVERYWHERE,
            id="restarts only itself",
        ),
        pytest.param(
            {"hostNetwork": True, "hostUsers": False}, ("both",), id="user namespace on host network"
        ),
        pytest.param({"hostNetwork": True, "hostUsers": True}, EVERYWHERE, id="host users"),
        pytest.param({"hostNetwork": True}, EVERYWHERE, id="host users by default"),
        pytest.param({"hostUsers": False}, EVERYWHERE, id="pod network"),
        pytest.param(
            {"hostNetwork": True, "hostUsers": False, "containers": [RESTARTING]}, ("both",), id="needs both"
        ),
    ],
)
def test_a_node_must_declare_what_the_pod_needs(spec: dict[str, Any], feasible: tuple[str, ...]) -> None:
    answer = evaluator(PLUGIN, *NODES).evaluate(make_pod("p", **spec))
    assert answer.feasible == feasible
    for status in answer.rejections.values():
        assert (status.plugin, status.code) == (PLUGIN, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
        assert status.reasons == ("node(s) didn't match Pod's required features",)


def test_with_the_gate_off_nothing_is_asked() -> None:
    off = {"NodeDeclaredFeatures": False, "InPlacePodLevelResourcesVerticalScaling": False}
    judge = evaluator(PLUGIN, *NODES, gates=off)
    pod = make_pod("p", containers=[RESTARTING])
    assert judge.evaluate(pod).feasible == EVERYWHERE
    assert hint(judge, pod, ("Node", Action.ADD), None, NODES[0]) is None


def test_all_views_say_the_same() -> None:
    assert_views_agree(evaluator(PLUGIN, *NODES), PLUGIN, make_pod("p", containers=[RESTARTING]))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, [], Hint.QUEUE, id="added"),
        pytest.param([], [RESTART], Hint.QUEUE, id="declares more"),
        pytest.param([RESTART], [], Hint.QUEUE, id="declares less"),
        pytest.param([RESTART], [RESTART], Hint.SKIP, id="declares the same"),
    ],
)
def test_hint_after_a_node_change(old: list[str] | None, new: list[str], expected: Hint) -> None:
    before = None if old is None else make_node("n", declaredFeatures=old)
    action = Action.ADD if old is None else Action.UPDATE_NODE_DECLARED_FEATURE
    event = ("Node", action)
    after = make_node("n", declaredFeatures=new)
    assert hint(evaluator(PLUGIN), make_pod("p"), event, before, after) is expected


@pytest.mark.parametrize(
    ("uid", "host_users", "expected"),
    [
        pytest.param("me", True, Hint.QUEUE, id="needs less now"),
        pytest.param("me", False, Hint.SKIP, id="needs the same"),
        pytest.param("you", True, Hint.SKIP, id="another pod"),
    ],
)
def test_hint_after_a_pod_update(uid: str, host_users: bool, expected: Hint) -> None:
    old = make_pod("p", uid=uid, hostNetwork=True, hostUsers=False)
    new = make_pod("p", uid=uid, hostNetwork=True, hostUsers=host_users)
    event = ("Pod", Action.UPDATE_POD_LABEL)
    assert hint(evaluator(PLUGIN), make_pod("p", uid="me"), event, old, new) is expected
