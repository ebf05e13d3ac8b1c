from __future__ import annotations

from typing import Any

import pytest

from kuberth.api.core import Node
from kuberth.framework.cluster_events import Action, Hint
from kuberth.framework.status import Code
from kuberth.testing.factories import make_node, make_pod
from tests.unit.plugins.harness import assert_views_agree, evaluator, hint

KEY = "node.kubernetes.io/unschedulable"
PLUGIN = "NodeUnschedulable"


@pytest.mark.parametrize(
    ("tolerations", "passes"),
    [
        pytest.param([], False, id="no toleration"),
        pytest.param([{"key": KEY, "operator": "Exists"}], True, id="exists"),
        pytest.param([{"key": KEY}], True, id="equal to the empty value"),
        pytest.param([{"key": KEY, "value": "x"}], False, id="equal to another value"),
        pytest.param([{"key": KEY, "operator": "Exists", "effect": "NoExecute"}], False, id="other effect"),
        pytest.param([{"operator": "Exists"}], True, id="tolerates everything"),
        pytest.param([{"key": "other", "operator": "Exists"}], False, id="other key"),
    ],
)
def test_a_cordoned_node_takes_only_pods_that_tolerate_it(
    tolerations: list[dict[str, str]], passes: bool
) -> None:
    judge = evaluator(PLUGIN, make_node("open"), make_node("shut", unschedulable=True))
    answer = judge.evaluate(make_pod("p", tolerations=tolerations))
    assert answer.feasible == (("open", "shut") if passes else ("open",))
    if not passes:
        status = answer.rejections["shut"]
        assert (status.plugin, status.code) == (PLUGIN, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
        assert status.reasons == ("node(s) were unschedulable",)


def test_all_views_say_the_same() -> None:
    nodes = [make_node(f"n{i}", unschedulable=i % 3 == 0) for i in range(7)]
    assert_views_agree(evaluator(PLUGIN, *nodes), PLUGIN, make_pod("p"))


OPEN = make_node("n", unschedulable=False)
SHUT = make_node("n", unschedulable=True)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, OPEN, Hint.QUEUE, id="added open"),
        pytest.param(None, SHUT, Hint.SKIP, id="added cordoned"),
        pytest.param(SHUT, OPEN, Hint.QUEUE, id="uncordoned"),
        pytest.param(OPEN, OPEN, Hint.SKIP, id="was open before"),
        pytest.param(OPEN, SHUT, Hint.SKIP, id="cordoned"),
    ],
)
def test_hint_after_a_node_change(old: Node | None, new: Node, expected: Hint) -> None:
    action = Action.ADD if old is None else Action.UPDATE_NODE_TAINT
    assert hint(evaluator(PLUGIN), make_pod("p"), ("Node", action), old, new) is expected


@pytest.mark.parametrize(
    ("uid", "toleration", "expected"),
    [
        pytest.param("me", {"key": KEY, "operator": "Exists"}, Hint.QUEUE, id="now tolerates"),
        pytest.param("me", {"key": "other", "operator": "Exists"}, Hint.SKIP, id="unrelated toleration"),
        pytest.param("you", {"key": KEY, "operator": "Exists"}, Hint.SKIP, id="another pod"),
    ],
)
def test_hint_after_a_new_toleration(uid: str, toleration: dict[str, Any], expected: Hint) -> None:
    old, new = make_pod("p", uid=uid), make_pod("p", uid=uid, tolerations=[toleration])
    event = ("Pod", Action.UPDATE_POD_TOLERATION)
    assert hint(evaluator(PLUGIN), make_pod("p", uid="me"), event, old, new) is expected


@pytest.mark.parametrize("action", [Action.UPDATE_NODE_LABEL, Action.DELETE], ids=lambda action: action.label)
def test_other_node_events_are_not_registered(action: Action) -> None:
    assert hint(evaluator(PLUGIN), make_pod("p"), ("Node", action), SHUT, OPEN) is None
