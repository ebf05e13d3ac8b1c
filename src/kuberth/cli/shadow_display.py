"""Runs `kuberth shadow`.

In: the flags of the command line; decisions and the report. Out: on a terminal a live table with the
differences above it; elsewhere one line per difference; or JSON, one line per decision.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kuberth.cli.context import Extras, build_registry, configuration, notices
from kuberth.clock import run_on_fastest_loop
from kuberth.config.feature_gates import parse_settings
from kuberth.programs.shadow.decisions import (
    AGREEING,
    Agreement,
    DifferenceCause,
    ShadowDecision,
    ShadowReport,
)
from kuberth.programs.shadow.program import ShadowSettings, run_shadow
from kuberth.text.figures import duration, percent

_MAX_DIFFERENCES: Final = 20
"""Number of differences in the final report."""
_NO_VALUE: Final = "-"


def run(extras: Extras, flags: Mapping[str, Any]) -> None:
    registry = build_registry(extras, flags["plugin_references"])
    config = configuration(flags["config_file"], registry, parse_settings(flags["feature_gates"]))
    display = display_for(flags["output"])
    for notice in notices(config, registry, references=flags["plugin_references"]):
        display.message(notice)
    settings = ShadowSettings(
        config=config,
        registry=registry,
        scheduler_name=flags["scheduler_name"],
        kubeconfig=flags["kubeconfig"],
        context=flags["context"],
        for_seconds=None if flags["duration"] is None else flags["duration"].total_seconds(),
        pods=flags["pods"],
        settle_seconds=flags["settle"].total_seconds(),
        metrics_host=flags["metrics_address"],
        metrics_port=flags["metrics_port"],
    )
    with display.live:
        report = run_on_fastest_loop(
            run_shadow(settings, on_decision=display.decided, on_message=display.message)
        )
    display.end(report)


def display_for(output: str) -> JsonDisplay | TextDisplay:
    return JsonDisplay() if output == "json" else TextDisplay(Console())


class JsonDisplay:
    """Decisions as JSON on standard output, messages on standard error."""

    live: Final = nullcontext()

    def decided(self, decision: ShadowDecision) -> None:
        click.echo(json.dumps(decision.tree()))

    def message(self, sentence: str) -> None:
        click.echo(sentence, err=True)

    def end(self, report: ShadowReport) -> None:
        click.echo(json.dumps({"report": report.tree()}))


class TextDisplay:
    """Text; on a terminal with a live table, while `live` is entered."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._report = ShadowReport()
        self.live: AbstractContextManager[object] = nullcontext()
        if console.is_terminal:
            self.live = Live(
                get_renderable=self._frame, console=console, refresh_per_second=4, transient=True
            )

    def _frame(self) -> RenderableType:
        # The terminal writes ^C at the end of the last row, so the last row is empty.
        return Group(agreement_table(self._report), "")

    def decided(self, decision: ShadowDecision) -> None:
        self._report.record(decision)
        if not decision.agrees:
            self._print(Text(difference_line(decision)))

    def message(self, sentence: str) -> None:
        self._print(Text(sentence))

    def end(self, report: ShadowReport) -> None:
        self._console.print(report_text(report))

    def _print(self, text: Text) -> None:
        self._console.print(text, soft_wrap=not self._console.is_terminal)


def difference_line(decision: ShadowDecision) -> str:
    own = decision.own_node or "no node"
    line = f"{decision.pod}: {decision.agreement}: {decision.node or 'no node'} in the cluster, {own} here"
    if decision.explanation is not None:
        return f"{line}; explained by {decision.explanation.cause}: {decision.explanation.text}"
    if decision.own_message:
        line += f"; {decision.own_message}"
    return line


def agreement_table(report: ShadowReport) -> RenderableType:
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="dim")
    table.add_column("decision")
    table.add_column("pods", justify="right", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    for each in Agreement:
        number = report.agreements[each]
        if number or each in AGREEING:
            table.add_row(str(each), str(number), _share(number, report.decisions))
    explained = ", ".join(
        f"{cause} {report.causes[cause]}" for cause in DifferenceCause if report.causes[cause]
    )
    head = f"{report.decisions} decisions, {_share(report.agreeing, report.decisions)} agree"
    if report.reordered:
        head += f" ({report.reordered} after reordering bindings that crossed)"
    foot = f"differences explained: {explained or 'none'}; unexplained: {report.unexplained}"
    return Group(Text(head), table, Text(foot))


def report_text(report: ShadowReport) -> RenderableType:
    """The final report: the table, waiting times, attempts, and unexplained differences with both scores."""
    parts: list[RenderableType] = [agreement_table(report)]
    if report.placed:
        parts.append(
            Text(f"waiting time in the cluster: {_seconds(report.waited())}; attempts: {report.attempts}")
        )
        parts.append(
            Text(f"time per decision here: {_seconds(report.took())}; attempts: {report.own_attempts}")
        )
    differences = list(report.differences)
    for decision in differences[:_MAX_DIFFERENCES]:
        parts += ["", Text(difference_line(decision))]
        if decision.scores or decision.own_scores:
            parts.append(score_table(decision))
    if len(differences) > _MAX_DIFFERENCES:
        parts.append(Text(f"and {report.unexplained - _MAX_DIFFERENCES} more; -o json prints all of them"))
    return Group(*parts)


def score_table(decision: ShadowDecision) -> Table:
    """The scores of both nodes here, by plugin."""
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="dim")
    table.add_column("score here")
    for node in (decision.node, decision.own_node):
        table.add_column(Text(node or _NO_VALUE), justify="right")
    for plugin in decision.own_scores or decision.scores:
        table.add_row(plugin, _cell(decision.scores, plugin), _cell(decision.own_scores, plugin))
    table.add_row("total", _total(decision.scores), _total(decision.own_scores))
    return table


def _cell(scores: Mapping[str, int], plugin: str) -> str:
    return str(scores.get(plugin, _NO_VALUE))


def _total(scores: Mapping[str, int]) -> str:
    return str(sum(scores.values())) if scores else _NO_VALUE


def _share(number: int, of: int) -> str:
    return percent(number / of, 2) if of else _NO_VALUE


def _seconds(percentiles: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {duration(seconds)}" for name, seconds in percentiles.items()) or "unknown"
