from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kuberth.errors import PluginError
from kuberth.framework import SKIP, SUCCESS, Code, Plugin, PreScorePlugin, ScorePlugin, Status
from kuberth.framework.running.scoring import NodeScores
from kuberth.testing import make_pod
from tests.unit.framework.harness import Framework, framework, plugin, state_of

POD = make_pod("p")


def scored(made: Framework) -> NodeScores:
    scores = made.runner.scoring.run(state_of(POD), POD, made.nodes)
    assert isinstance(scores, NodeScores), scores
    return scores


def given(scores: NodeScores) -> dict[str, list[int]]:
    return {name: of_nodes.tolist() for name, of_nodes in scores.by_plugin.items()}


def failed(*plugins: type[Plugin]) -> Status:
    made = framework(*plugins)
    status = made.runner.scoring.run(state_of(POD), POD, made.nodes)
    assert isinstance(status, Status)
    assert status.code is Code.ERROR
    assert isinstance(status.cause, PluginError)
    return status


def by_name(*scores: Any) -> Any:
    """A per-node score by the node's number."""
    return lambda _state, _pod, node: scores[int(node.name[1:]) - 1]


ONE_TO_THREE = plugin("Each", ScorePlugin, score=by_name(1, 2, 3))


def test_both_forms_add_up() -> None:
    whole = plugin("Table", ScorePlugin, score_nodes=lambda _s, _p, _n: np.array([30, 20, 10]))
    scores = scored(framework(ONE_TO_THREE, whole))
    assert given(scores) == {"Each": [1, 2, 3], "Table": [30, 20, 10]}
    assert scores.totals.tolist() == [31, 22, 13]


def test_scores_are_weighed() -> None:
    scores = scored(framework(ONE_TO_THREE, plugin("B", ScorePlugin, score=10), weights={"Each": 5, "B": 2}))
    assert given(scores) == {"Each": [5, 10, 15], "B": [20, 20, 20]}
    assert scores.totals.tolist() == [25, 30, 35]


def normalizing(scores: Any, normalize: Any) -> type[Plugin]:
    return plugin("N", ScorePlugin, score=by_name(*scores), normalize_scores=normalize)


def test_scores_are_normalized_before_they_are_weighed() -> None:
    made = framework(
        normalizing((0, 500, 1000), lambda _s, _p, scores: scores * 100 // scores.max()), weights={"N": 3}
    )
    assert scored(made).totals.tolist() == [0, 150, 300]


def test_each_plugin_normalizes_its_own_scores() -> None:
    seen: list[list[int]] = []

    def note(_state: object, _pod: object, scores: Any) -> None:
        seen.append(scores.tolist())

    scored(framework(ONE_TO_THREE, normalizing((7, 8, 9), note)))
    assert seen == [[7, 8, 9]]


def test_scores_normalized_in_place() -> None:
    def halve(_state: object, _pod: object, scores: Any) -> None:
        scores //= 2

    assert scored(framework(normalizing((100, 150, 200), halve))).totals.tolist() == [50, 75, 100]


def test_raw_scores_may_be_anything_that_normalizing_brings_into_range() -> None:
    made = framework(normalizing((-5, 10**9, 0), lambda _s, _p, scores: scores.clip(0, 100)))
    assert scored(made).totals.tolist() == [0, 100, 0]


@pytest.mark.parametrize("score", [0, 100, np.int64(7), np.int32(7)], ids=["least", "most", "int64", "int32"])
def test_scores_within_range(score: Any) -> None:
    assert scored(framework(plugin("S", ScorePlugin, score=score))).totals.tolist() == [score] * 3


@pytest.mark.parametrize("score", [-1, 101, 10**15, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("form", ["score", "score_nodes", "normalize_scores"])
def test_a_score_out_of_range_aborts_the_cycle(form: str, score: int) -> None:
    def array(_state: object, _pod: object, _rest: object) -> Any:
        return np.array([0, score, 100])

    made = {
        "score": lambda: plugin("S", ScorePlugin, score=by_name(0, score, 100)),
        "score_nodes": lambda: plugin("S", ScorePlugin, score_nodes=array),
        "normalize_scores": lambda: plugin("S", ScorePlugin, score=0, normalize_scores=array),
    }[form]()
    assert failed(made).message == (
        f"plugin 'S' at Score: returns an invalid score {score} for node n2, "
        "it should be in the range of [0, 100] after normalizing"
    )


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(1.0, id="float"),
        pytest.param(np.float64(1.0), id="numpy-float"),
        pytest.param(True, id="bool"),
        pytest.param("1", id="text"),
        pytest.param(None, id="nothing"),
        pytest.param(2**63, id="one-more-than-64-bits-hold"),
        pytest.param(10**30, id="beyond-64-bits"),
        pytest.param(-(10**30), id="far-below"),
        pytest.param([1], id="list"),
    ],
)
def test_a_score_of_one_node_is_a_whole_number(answer: Any) -> None:
    message = failed(plugin("S", ScorePlugin, score=answer)).message
    assert (
        message
        == f"plugin 'S' at Score: returned {answer!r} where a whole number or an Error status is expected"
    )


@pytest.mark.parametrize("point", ["Score", "ScoreExtensionNormalize"])
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param([], id="none"),
        pytest.param(np.array([1, 2]), id="too-few"),
        pytest.param(np.array([1, 2, 3, 4]), id="too-many"),
        pytest.param(np.array([[1, 2, 3]]), id="another-shape"),
        pytest.param(np.array([1.0, 2.0, 3.0]), id="floats"),
        pytest.param(np.array([True, False, True]), id="bools"),
        pytest.param([[1], [2, 3], []], id="ragged"),
        pytest.param("123", id="text"),
        pytest.param(5, id="one-number"),
    ],
)
def test_scores_of_all_nodes_are_as_many_whole_numbers(answer: Any, point: str) -> None:
    if point == "Score":
        made = plugin("S", ScorePlugin, score_nodes=answer)
    else:
        made = plugin("S", ScorePlugin, score=0, normalize_scores=answer)
    message = failed(made).message
    assert message.startswith(f"plugin 'S' at {point}: returned ")
    assert "where an array of 3 whole numbers, an Error status or " in message


def test_nothing_is_no_score_of_all_nodes() -> None:
    assert "plugin 'S' at Score: returned None" in failed(plugin("S", ScorePlugin, score_nodes=None)).message


@pytest.mark.parametrize("form", ["score", "score_nodes", "normalize_scores"])
@pytest.mark.parametrize(
    "answer, problem",
    [
        pytest.param(ValueError("lost"), "ValueError: lost", id="raises"),
        pytest.param(Status.error("lost"), "lost", id="error"),
        pytest.param(Status.unschedulable("no"), "returned 'Unschedulable' where", id="rejects"),
        pytest.param(SUCCESS, "returned <Success> where a", id="success-without-scores"),
    ],
)
def test_a_plugin_that_fails_aborts_the_cycle(form: str, answer: Any, problem: str) -> None:
    methods = {"score": 0, form: answer} if form == "normalize_scores" else {form: answer}
    status = failed(plugin("S", ScorePlugin, **methods))
    point = "ScoreExtensionNormalize" if form == "normalize_scores" else "Score"
    assert status.message.startswith(f"plugin 'S' at {point}: {problem}")
    assert status.plugin == "S"


def test_after_a_failure_no_one_else_is_asked() -> None:
    log: list[str] = []
    failed(
        plugin("A", ScorePlugin, score=ValueError("x"), log=log), plugin("B", ScorePlugin, score=0, log=log)
    )
    assert log == ["A.score"]


def test_no_nodes_no_scores() -> None:
    made = framework(ONE_TO_THREE, plugin("T", ScorePlugin, score_nodes=[]), nodes=[])
    assert scored(made).totals.tolist() == []


# PreScore


def test_skip_spares_the_score_of_that_plugin_only() -> None:
    log: list[str] = []
    made = framework(
        plugin("A", PreScorePlugin, ScorePlugin, pre_score=SKIP, score=100, log=log),
        plugin("B", PreScorePlugin, ScorePlugin, pre_score=None, score=1, log=log),
        nodes=["n1"],
    )
    state = state_of(POD)
    assert made.runner.scoring.run_pre_score(state, POD, made.nodes).is_success
    scores = made.runner.scoring.run(state, POD, made.nodes)
    assert isinstance(scores, NodeScores)
    assert (list(given(scores)), scores.totals.tolist()) == (["B"], [1])
    assert log == ["A.pre_score", "B.pre_score", "B.score"]


def test_all_plugins_skipping_leaves_zero() -> None:
    made = framework(plugin("A", PreScorePlugin, ScorePlugin, pre_score=SKIP, score=100))
    state = state_of(POD)
    made.runner.scoring.run_pre_score(state, POD, made.nodes)
    scores = made.runner.scoring.run(state, POD, made.nodes)
    assert isinstance(scores, NodeScores)
    assert scores.totals.tolist() == [0, 0, 0]


@pytest.mark.parametrize("form", ["score", "normalize_scores"])
def test_a_plugin_that_skips_single_nodes_aborts_the_cycle(form: str) -> None:
    methods: dict[str, Any] = {"score": 0, form: SKIP}
    assert "returned 'Skip' where" in failed(plugin("S", ScorePlugin, **methods)).message


@pytest.mark.parametrize("skip", [SKIP, Status(Code.SKIP)])
def test_a_plugin_may_have_nothing_for_any_node(skip: Status) -> None:
    nothing = plugin("Nothing", ScorePlugin, score_nodes=lambda _s, _p, _n: skip)
    scores = scored(framework(ONE_TO_THREE, nothing, weights={"Nothing": 7}))
    assert given(scores) == {"Each": [1, 2, 3], "Nothing": [0, 0, 0]}
    assert scores.totals.tolist() == [1, 2, 3]


def test_nothing_for_any_node_is_still_normalised() -> None:
    nothing = plugin(
        "Nothing",
        ScorePlugin,
        score_nodes=lambda _s, _p, _n: SKIP,
        normalize_scores=lambda _s, _p, scores: 100 - scores,
    )
    assert scored(framework(ONE_TO_THREE, nothing)).totals.tolist() == [101, 102, 103]
