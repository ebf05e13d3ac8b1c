"""Decisions as trees, and the report over them."""

from __future__ import annotations

import json

import pytest

from kuberth.programs.shadow.decisions import (
    Agreement,
    DifferenceCause,
    DifferenceExplanation,
    ShadowDecision,
    ShadowReport,
)

CROSSED = DifferenceExplanation(DifferenceCause.BINDINGS, "both agree without it", pods=("default/a",))


def test_a_tree_leaves_out_what_there_is_nothing_to_say_about() -> None:
    tree = ShadowDecision("default/p", Agreement.SAME, node="n1", own_node="n1", passing=1, equals=1).tree()
    assert json.loads(json.dumps(tree)) == {
        "pod": "default/p",
        "agreement": "same node",
        "node": "n1",
        "ownNode": "n1",
        "passingNodes": 1,
        "equalNodes": 1,
        "attempts": 0,
        "ownAttempts": 0,
        "ownSeconds": 0.0,
    }


def test_a_difference_has_both_score_tables_and_what_explains_it() -> None:
    tree = ShadowDecision(
        "default/p",
        Agreement.OTHER,
        node="n1",
        own_node="n2",
        scores={"A": 1, "B": 2},
        own_scores={"A": 1, "B": 5},
        explanation=CROSSED,
    ).tree()
    assert (tree["scores"], tree["total"]) == ({"A": 1, "B": 2}, 3)
    assert (tree["ownScores"], tree["ownTotal"]) == ({"A": 1, "B": 5}, 6)
    assert tree["explanation"]["cause"] == "bindings"
    assert tree["explanation"]["pods"] == ["default/a"]


def test_the_report_counts() -> None:
    report = ShadowReport()
    for decision in (
        ShadowDecision("d/a", Agreement.SAME, node="n", waited_seconds=1.0, attempts=1, own_attempts=1),
        ShadowDecision("d/b", Agreement.EQUAL, node="n", waited_seconds=3.0, attempts=3, own_attempts=2),
        ShadowDecision("d/c", Agreement.OTHER, node="n", explanation=CROSSED),
        ShadowDecision("d/d", Agreement.OTHER, node="n"),
        ShadowDecision("d/e", Agreement.SAME_VERDICT, attempts=1),
        ShadowDecision("d/f", Agreement.NOT_REJECTED),
    ):
        report.record(decision)
    assert (report.decisions, report.placed, report.agreeing, report.unexplained) == (6, 4, 3, 2)
    assert [each.pod for each in report.differences] == ["d/d", "d/f"]
    assert (report.attempts, report.own_attempts) == (4, 3)
    assert report.waited() == {"p50": 1.0, "p90": 3.0, "p99": 3.0, "max": 3.0}
    assert report.tree()["agreeingShare"] == 0.5


def test_a_report_about_nothing() -> None:
    tree = ShadowReport().tree()
    assert tree["decisions"] == 0
    assert tree["agreeingShare"] is None
    assert tree["waitedSeconds"] == {}


@pytest.mark.parametrize("agreement", list(Agreement), ids=str)
def test_what_agrees_needs_no_explanation(agreement: Agreement) -> None:
    decision = ShadowDecision("d/p", agreement)
    assert decision.is_unexplained is not decision.agrees
