"""Parts of the cluster for a whole group: which there are, how good they are, and plugins that cannot say."""

from __future__ import annotations

from typing import Any

import pytest

from kuberth.framework import Code, Plugin, Status
from kuberth.framework.cycle_state import GroupAttempt
from kuberth.framework.extension_points import (
    PlacementCandidate,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    ProposedPlacement,
)
from tests.unit.framework.harness import Framework, framework, plugin

GROUP = GroupAttempt("default/g")


def rated(*plugins: type[Plugin], **options: Any) -> Any:
    """What becomes of two proposals, a and b."""
    made = framework(*plugins, **options)
    proposed = [ProposedPlacement(PlacementCandidate(name, made.nodes), ()) for name in "ab"]
    return made.runner.placing.run_placement_score(GROUP, proposed)


def by_name(**scores: Any) -> Any:
    return lambda _state, _group, proposed: scores[proposed.candidate.name]


def test_scores_are_weighed_and_added_up() -> None:
    one = plugin("One", PlacementScorePlugin, score_placement=by_name(a=10, b=100))
    other = plugin("Other", PlacementScorePlugin, score_placement=by_name(a=7, b=0))
    assert rated(one, other, weights={"One": 2, "Other": 3}) == [41, 200]
    assert rated() == [0, 0]


def test_raw_scores_may_be_anything_that_normalizing_brings_into_range() -> None:
    raw = by_name(a=-5, b=10**9)
    made = plugin(
        "S",
        PlacementScorePlugin,
        score_placement=raw,
        normalize_placement_scores=lambda _state, _group, scores: [min(max(each, 0), 100) for each in scores],
    )
    assert rated(made) == [0, 100]


@pytest.mark.parametrize("method", ["score_placement", "normalize_placement_scores"])
@pytest.mark.parametrize(
    "answer, problem",
    [
        pytest.param(Status.error("no map"), "no map", id="error"),
        pytest.param(ValueError("no map"), "ValueError: no map", id="raises"),
        pytest.param("ten", "returned 'ten' where", id="nonsense"),
    ],
)
def test_a_plugin_that_cannot_say_ends_the_attempt_in_its_own_words(
    method: str, answer: Any, problem: str
) -> None:
    methods: dict[str, Any] = {"score_placement": 1, method: answer}
    status = rated(plugin("S", PlacementScorePlugin, **methods))
    assert status.code is Code.ERROR
    assert status.message.startswith(f"plugin 'S' at PlacementScore: {problem}")


@pytest.mark.parametrize("score", [-1, 101, True, 1.5, None], ids=str)
def test_what_is_no_score_after_normalizing(score: Any) -> None:
    assert rated(plugin("S", PlacementScorePlugin, score_placement=score)).message.startswith(
        f"plugin 'S' at PlacementScore: returned {score!r} where a "
    )


def generated(answer: Any) -> tuple[Framework, Any]:
    made = framework(plugin("G", PlacementGeneratePlugin, generate_placements=answer))
    return made, made.runner.placing.run_placement_generate(GROUP, made.nodes)


def test_without_a_plugin_the_whole_cluster_is_the_only_part() -> None:
    made = framework()
    parts = made.runner.placing.run_placement_generate(GROUP, made.nodes)
    assert not isinstance(parts, Status)
    (whole,) = parts
    assert (whole.name, whole.nodes.names()) == ("", ["n1", "n2", "n3"])


def test_the_parts_that_a_plugin_names() -> None:
    _made, parts = generated(lambda _state, _group, nodes: [PlacementCandidate("zone-a", nodes)])
    assert [part.name for part in parts] == ["zone-a"]


@pytest.mark.parametrize(
    "answer, code, message",
    [
        pytest.param([], Code.UNSCHEDULABLE, "no feasible placements found", id="none"),
        pytest.param(Status.unschedulable("no zones"), Code.UNSCHEDULABLE, "no zones", id="rejects"),
        pytest.param(
            Status.error("no map"), Code.ERROR, "plugin 'G' at PlacementGenerate: no map", id="fails"
        ),
        pytest.param(
            ["zone-a"],
            Code.ERROR,
            "plugin 'G' at PlacementGenerate: returned ['zone-a'] where a sequence of PlacementCandidate",
            id="nonsense",
        ),
    ],
)
def test_no_parts(answer: Any, code: Code, message: str) -> None:
    made, status = generated(answer)
    assert status.code is code
    assert status.message.startswith(message)
    timed = made.metrics.extension_point_duration.values
    assert list(timed) == [("PlacementGenerate", code.label, "default-scheduler")]
