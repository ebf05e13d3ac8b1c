from __future__ import annotations

import pytest

from kuberth.framework.cluster_events import Action, Hint
from kuberth.framework.status import Code
from kuberth.testing.factories import make_node, make_pod
from tests.unit.plugins.harness import assert_views_agree, evaluator, hint

PLUGIN = "NodeName"


@pytest.mark.parametrize(
    ("node", "feasible"),
    [
        pytest.param("", ("a", "b", "c"), id="no name asked"),
        pytest.param("b", ("b",), id="one node named"),
        pytest.param("gone", (), id="a node that does not exist"),
    ],
)
def test_only_the_named_node_passes(node: str, feasible: tuple[str, ...]) -> None:
    answer = evaluator(PLUGIN, *map(make_node, "abc")).evaluate(make_pod("p", node=node))
    assert answer.feasible == feasible
    for status in answer.rejections.values():
        assert (status.plugin, status.code) == (PLUGIN, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
        assert status.reasons == ("node(s) didn't match the requested node name",)


def test_rows_of_deleted_nodes_do_not_disturb() -> None:
    judge = evaluator(PLUGIN, *map(make_node, "abc"))
    judge.cluster.remove_node("a")
    assert judge.evaluate(make_pod("p", node="c")).feasible == ("c",)
    assert judge.evaluate(make_pod("p", node="a")).feasible == ()


@pytest.mark.parametrize("node", ["", "c", "gone"])
def test_all_views_say_the_same(node: str) -> None:
    assert_views_agree(evaluator(PLUGIN, *map(make_node, "abcd")), PLUGIN, make_pod("p", node=node))


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (Action.ADD, Hint.QUEUE),
        (Action.UPDATE_NODE_LABEL, None),
        (Action.UPDATE_NODE_TAINT, None),
        (Action.DELETE, None),
    ],
    ids=lambda value: getattr(value, "label", ""),
)
def test_only_a_new_node_queues(action: Action, expected: Hint | None) -> None:
    event = ("Node", action)
    assert hint(evaluator(PLUGIN), make_pod("p"), event, None, make_node("n")) is expected
