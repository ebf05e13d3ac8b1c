from __future__ import annotations

import io
import logging

import pytest
from rich.console import Console
from rich.live import Live

from kuberth.cli import COMMANDS
from kuberth.cli.up_display import TRY_NEXT, ConsoleHandler, link_for, live_frame, summary_line, summary_table
from kuberth.programs.up.summary import Summary

LONG = "0/5 nodes are available: 3 Insufficient cpu, 2 node(s) had untolerated taint {dedicated: gpu}"


def shown(summary: Summary, *, width: int, rows: int = 8, live: bool = False) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    console.print((live_frame if live else summary_table)(summary, rows=rows))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("terminal", "expected"),
    [
        (True, "http://127.0.0.1:1/ui/#token=secret"),
        (
            False,
            "http://127.0.0.1:1/ui/\n  (log in with the token of the user kuberth-admin in the kubeconfig)",
        ),
    ],
    ids=["terminal", "redirected"],
)
def test_a_token_is_printed_only_on_a_terminal(terminal: bool, expected: str) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal)
    assert link_for("http://127.0.0.1:1/ui/#token=secret", console) == expected


def test_phases_in_a_constant_order() -> None:
    pods = {"gated": 1, "unscheduled": 2, "Failed": 3, "waiting in Permit": 4, "Running": 5}
    assert summary_line(Summary(3, pods)) == (
        "nodes: 3; pods: 5 Running, 2 unscheduled, 4 waiting in Permit, 1 gated, 3 Failed"
    )
    assert summary_line(Summary(0, {})) == "nodes: 0; pods: none"


@pytest.mark.parametrize("width", [60, 120])
def test_every_reason_has_one_line(width: int) -> None:
    summary = Summary(5, {"unscheduled": 41}, {LONG: 40, "not tried yet": 1}, bound_per_second=12.34)
    assert shown(summary, width=width) == [
        "nodes: 5; pods: 41 unscheduled; 12.3 bound/s",
        "pods  reason",
        f"  40  {LONG}" if width == 120 else f"  40  {LONG[:53]}…",
        "   1  not tried yet",
    ]


def test_what_is_cut_is_counted() -> None:
    reasons = {f"reason {number}": number for number in range(1, 9)}
    lines = shown(Summary(1, {"unscheduled": 36}, reasons), width=60, rows=3)
    assert [line.split("  ")[-1] for line in lines[2:]] == [
        "reason 8",
        "reason 7",
        "reason 6",
        "and 15 more for 5 other reasons",
    ]


@pytest.mark.parametrize("reasons", [{}, {LONG: 40}])
def test_the_last_row_is_empty_for_typed_text(reasons: dict[str, int]) -> None:
    assert shown(Summary(1, {"unscheduled": 40}, reasons), width=60, live=True)[-1] == ""


def test_words_of_objects_move_no_cursor() -> None:
    [_, _, line] = shown(Summary(1, {"unscheduled": 1}, {"\x1b[2J[red]a\nb\r\x07[/red]": 1}), width=60)
    assert line == "   1   [2J[red]a b  [/red]"


def test_the_log_appears_above_the_summary() -> None:
    console = Console(file=io.StringIO(), width=60, height=20, force_terminal=True, color_system=None)
    summary = Summary(5, {"unscheduled": 41, "Running": 123_456, "Succeeded": 999_999}, {LONG: 40}, 1234.5)
    logger = logging.Logger("test")
    logger.addHandler(ConsoleHandler(console))
    with Live(summary_table(summary), console=console, auto_refresh=False) as live:
        live.refresh()
        rows = live._live_render.last_render_height
        logger.warning("[bold]word[/bold] " + "x" * 100)
        # A wrapped line of log must not change what the summary knows of its own height.
        assert live._live_render.last_render_height == rows == 4
    assert isinstance(console.file, io.StringIO)
    assert "[bold]word[/bold] " in console.file.getvalue()
    assert max(len(line) for line in console.file.getvalue().splitlines() if "\x1b" not in line) <= 60


def test_commands_to_try_next_exist() -> None:
    for line in TRY_NEXT.splitlines()[1:]:
        words = line.split("#")[0].split()
        if words[0] == "kuberth":
            assert words[1] in COMMANDS
