"""What a person, or a program, sees of `kuberth shadow`."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from kuberth.cli.shadow_display import JsonDisplay, TextDisplay, display_for
from kuberth.programs.shadow.decisions import (
    Agreement,
    DifferenceCause,
    DifferenceExplanation,
    ShadowDecision,
    ShadowReport,
)

SAME = ShadowDecision("d/same", Agreement.SAME, node="n1", own_node="n1", waited_seconds=1.0, attempts=1)
OTHER = ShadowDecision(
    "d/other",
    Agreement.OTHER,
    node="n1",
    own_node="n2",
    scores={"NodeResourcesFit": 10, "[red]": 1},
    own_scores={"NodeResourcesFit": 12, "[red]": 2},
)
CROSSED = ShadowDecision(
    "d/crossed",
    Agreement.OTHER,
    node="n1",
    own_node="n2",
    explanation=DifferenceExplanation(DifferenceCause.BINDINGS, "both agree without d/x", pods=("d/x",)),
)
REJECTED = ShadowDecision("d/nowhere", Agreement.NOT_PLACED, node="n1", own_message="0/2 nodes are available")


def shown(*decisions: ShadowDecision, terminal: bool = False, width: int = 100) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=width, height=30, color_system=None)
    display, report = TextDisplay(console), ShadowReport()
    with display.live:
        for decision in decisions:
            report.record(decision)
            display.decided(decision)
    display.end(report)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_differences_and_the_report_as_text() -> None:
    text = shown(SAME, OTHER, CROSSED, REJECTED)
    lines = text.splitlines()
    assert lines[0] == "d/other: other node: n1 in the cluster, n2 here"
    assert lines[1].endswith("explained by bindings: both agree without d/x")
    assert "n1 in the cluster, no node here; 0/2 nodes are available" in lines[2]
    assert "4 decisions, 25.00 % agree" in text
    assert "differences explained: bindings 1; unexplained: 2" in text
    assert "waiting time in the cluster: p50 1s" in text
    # Both score tables, plugin by plugin, of what nothing explains.
    table = [line.split() for line in lines]
    assert ["NodeResourcesFit", "10", "12"] in table
    assert ["total", "11", "14"] in table


@pytest.mark.parametrize("width", [40, 120])
def test_a_live_table_on_a_terminal(width: int) -> None:
    text = shown(SAME, OTHER, terminal=True, width=width)
    assert "same node" in text
    assert "50.00 %" in text


def test_nothing_was_seen() -> None:
    text = shown()
    assert "0 decisions, - agree" in text


def test_many_differences_are_cut() -> None:
    text = shown(*[OTHER] * 30)
    assert "and 10 more; -o json prints all of them" in text


def test_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    display = display_for("json")
    assert isinstance(display, JsonDisplay)
    report = ShadowReport()
    with display.live:
        display.message("following")
        report.record(OTHER)
        display.decided(OTHER)
    display.end(report)
    out, err = capsys.readouterr()
    decision, end = (json.loads(line) for line in out.splitlines())
    assert decision["ownTotal"] == 14
    assert end["report"]["unexplained"] == 1
    assert err == "following\n"
