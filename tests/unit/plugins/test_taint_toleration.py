from __future__ import annotations

from typing import Any

import pytest

from kuberth.framework.cluster_events import Action, Hint
from kuberth.framework.status import Code
from kuberth.testing.factories import make_node, make_pod
from tests.unit.plugins.harness import assert_views_agree, evaluator, hint

PLUGIN = "TaintToleration"
Tree = dict[str, Any]


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> Tree:
    return {"key": key, "value": value, "effect": effect}


@pytest.mark.parametrize(
    ("taints", "tolerations", "passes"),
    [
        pytest.param([], [], True, id="no taint"),
        pytest.param([taint("k", "v")], [], False, id="NoSchedule repels"),
        pytest.param([taint("k", "v", "NoExecute")], [], False, id="NoExecute repels"),
        pytest.param([taint("k", "v", "PreferNoSchedule")], [], True, id="PreferNoSchedule does not repel"),
        pytest.param([taint("k", "v", "")], [], True, id="a taint without effect does not repel"),
        pytest.param([taint("k", "v")], [{"key": "k", "value": "v"}], True, id="no operator means Equal"),
        pytest.param([taint("k", "v")], [{"key": "k", "value": "w"}], False, id="other value"),
        pytest.param([taint("k", "v")], [{"key": "k", "operator": "Exists"}], True, id="Exists"),
        pytest.param([taint("k", "v")], [{"operator": "Exists"}], True, id="everything is tolerated"),
        pytest.param([taint("k", "v")], [{"value": "v"}], True, id="no key with Equal compares values"),
        pytest.param(
            [taint("k", "v")],
            [{"key": "k", "operator": "Exists", "effect": "NoExecute"}],
            False,
            id="other effect",
        ),
        pytest.param(
            [taint("a"), taint("b")], [{"key": "a", "operator": "Exists"}], False, id="one of two tolerated"
        ),
        pytest.param(
            [taint("k", "5")], [{"key": "k", "operator": "Gt", "value": "3"}], False, id="Gt is off"
        ),
        pytest.param([taint("k", "v")], [{"key": "k", "operator": "Like"}], False, id="unknown operator"),
    ],
)
def test_hard_taints_must_be_tolerated(taints: list[Tree], tolerations: list[Tree], passes: bool) -> None:
    answer = evaluator(PLUGIN, make_node("n", taints=taints)).evaluate(
        make_pod("p", tolerations=tolerations), score=False
    )
    assert answer.feasible == (("n",) if passes else ())
    if not passes:
        status = answer.rejections["n"]
        assert (status.plugin, status.code) == (PLUGIN, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
        assert status.reasons == ("node(s) had untolerated taint(s)",)


@pytest.mark.parametrize(
    ("operator", "feasible"),
    [pytest.param("Gt", ("big",), id="Gt"), pytest.param("Lt", ("small",), id="Lt")],
)
def test_comparison_operators_with_their_gate(operator: str, feasible: tuple[str, ...]) -> None:
    judge = evaluator(
        PLUGIN,
        make_node("big", taints=[taint("k", "9")]),
        make_node("small", taints=[taint("k", "1")]),
        make_node("word", taints=[taint("k", "many")]),
        gates={"TaintTolerationComparisonOperators": True},
    )
    pod = make_pod("p", tolerations=[{"key": "k", "operator": operator, "value": "5"}])
    assert judge.evaluate(pod).feasible == feasible


SOFT = "PreferNoSchedule"


def test_scores_fall_with_the_number_of_untolerated_soft_taints() -> None:
    judge = evaluator(
        PLUGIN,
        make_node("none"),
        make_node("hard", taints=[taint("x")]),
        make_node("one", taints=[taint("a", "", SOFT)]),
        make_node("two", taints=[taint("a", "", SOFT), taint("b", "", SOFT)]),
        make_node("three", taints=[taint(key, "", SOFT) for key in "abc"]),
    )
    # The default weight is 3; of three taints at most, one costs 33 of 100 and two cost 66.
    scores = judge.evaluate(make_pod("p", tolerations=[{"key": "x", "effect": "NoSchedule"}])).scores[PLUGIN]
    weight = judge.runner.profile.score_weights[PLUGIN]
    assert scores == {
        "none": 100 * weight,
        "hard": 100 * weight,
        "one": 67 * weight,
        "two": 34 * weight,
        "three": 0,
    }


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        pytest.param({"key": "a", "operator": "Exists"}, True, id="any effect"),
        pytest.param({"key": "a", "operator": "Exists", "effect": SOFT}, True, id="this effect"),
        pytest.param({"key": "a", "operator": "Exists", "effect": "NoSchedule"}, False, id="a hard effect"),
    ],
)
def test_a_tolerated_soft_taint_costs_nothing(toleration: Tree, tolerated: bool) -> None:
    judge = evaluator(PLUGIN, make_node("plain"), make_node("soft", taints=[taint("a", "", SOFT)]))
    scores = judge.evaluate(make_pod("p", tolerations=[toleration])).scores[PLUGIN]
    assert (scores["soft"] == scores["plain"]) is tolerated


def test_without_any_taint_all_nodes_score_full() -> None:
    judge = evaluator(PLUGIN, make_node("a"), make_node("b"))
    weight = judge.runner.profile.score_weights[PLUGIN]
    assert judge.evaluate(make_pod("p")).scores[PLUGIN] == {"a": 100 * weight, "b": 100 * weight}


def test_all_views_say_the_same() -> None:
    nodes = [
        make_node(
            f"n{i}", taints=[taint("a", str(j), ("NoSchedule", SOFT)[(i + j) % 2]) for j in range(i % 4)]
        )
        for i in range(9)
    ]
    pod = make_pod("p", tolerations=[{"key": "a", "value": "1"}])
    assert_views_agree(evaluator(PLUGIN, *nodes), PLUGIN, pod)


PLAIN = make_node("n")
REPELLING = make_node("n", taints=[taint("k", "v")])
TOLERATED = make_node("n", taints=[taint("t", "v")])
SOFTLY = make_node("n", taints=[taint("k", "v", SOFT)])


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, PLAIN, Hint.QUEUE, id="added without taints"),
        pytest.param(None, TOLERATED, Hint.QUEUE, id="added with a tolerated taint"),
        pytest.param(None, REPELLING, Hint.SKIP, id="added with a repelling taint"),
        pytest.param(REPELLING, PLAIN, Hint.QUEUE, id="repelling taint removed"),
        pytest.param(REPELLING, SOFTLY, Hint.QUEUE, id="repelling taint softened"),
        pytest.param(REPELLING, REPELLING, Hint.SKIP, id="still repelling"),
        pytest.param(SOFTLY, PLAIN, Hint.SKIP, id="did not repel before"),
    ],
)
def test_hint_after_a_node_change(old: object, new: object, expected: Hint) -> None:
    pod = make_pod("p", tolerations=[{"key": "t", "operator": "Exists"}])
    action = Action.ADD if old is None else Action.UPDATE_NODE_TAINT
    assert hint(evaluator(PLUGIN), pod, ("Node", action), old, new) is expected


@pytest.mark.parametrize(("uid", "expected"), [("me", Hint.QUEUE), ("you", Hint.SKIP)])
def test_hint_after_a_new_toleration(uid: str, expected: Hint) -> None:
    pod, other = make_pod("p", uid="me"), make_pod("p", uid=uid)
    event = ("Pod", Action.UPDATE_POD_TOLERATION)
    assert hint(evaluator(PLUGIN), pod, event, other, other) is expected
