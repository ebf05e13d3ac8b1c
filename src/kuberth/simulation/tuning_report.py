"""Reports the result of a search, as text, YAML and HTML.

In: a `Tuned` result. Out: text. The page has the verdict, the intervals, the configurations, what else they
change, and the figures and plots of the unseen runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from kuberth.config.types import API_VERSION, KIND
from kuberth.simulation.comparing import Comparison, interval
from kuberth.simulation.reporting import as_html, shown
from kuberth.simulation.tables import html_table
from kuberth.simulation.tuning import Objective, Tuned, TunedConfiguration
from kuberth.text.documents import write_yaml
from kuberth.text.figures import count, decimal


def as_yaml(candidate: TunedConfiguration, objective: Objective) -> str:
    """The configuration for `kuberth run --config`."""
    head = f"# {objective}: {_difference(candidate, objective)}\n"
    tree = {"apiVersion": API_VERSION, "kind": KIND, **candidate.config}
    return head + write_yaml(tree)


def verdict(found: Tuned, objective: Objective, checked_on: str) -> Iterator[str]:
    """The result in sentences."""
    yield from _summary(found, objective, checked_on)
    for each in found.candidates:
        word = "better" if each.is_better else "not better"
        yield f"{each.name}: {_difference(each, objective)}, {word}"


def _difference(candidate: TunedConfiguration, objective: Objective) -> str:
    mean, low, high = (
        objective.shown(each, signed=True) for each in (candidate.difference, candidate.low, candidate.high)
    )
    return f"{mean} (95 %: {low} to {high})"


def _summary(found: Tuned, objective: Objective, checked_on: str) -> Iterator[str]:
    seeds = count(len(found.comparison.seeds), "run")
    base = objective.shown(found.base)
    yield f"Objective: {objective}. Checked in {seeds} on {checked_on}: the base has {base}."
    if not found.better:
        yield "No configuration is better than the base."
    waiting = found.comparison.figure("pods still waiting", "base").mean
    if waiting:
        run = found.comparison.outcomes["base"][0]
        why = f", most often because of: {run.reasons[0].text}" if run.reasons else ""
        yield f"{decimal(waiting)} of {count(run.pods.arrived, 'pod')} have no node at the end of a run{why}."


def other_changes(comparison: Comparison, name: str) -> Iterator[list[str]]:
    """Figures that differ from the base with 95 % confidence."""
    seeds = len(comparison.seeds)
    for each in comparison.figures:
        bounds = interval(each.difference, each.difference_spread, seeds=seeds)
        if each.variant == name and bounds is not None and (bounds[0] > 0 or bounds[1] < 0):
            before = comparison.figure(each.name, "base")
            low, high = (shown(each.name, bound, signed=True) for bound in bounds)
            change = f"{shown(each.name, each.mean)} ({low} to {high})"
            yield [each.name.removesuffix(" (s)"), shown(each.name, before.mean), change]


def report_page(found: Tuned, objective: Objective, checked_on: str) -> str:
    """The whole result as a self-contained page."""
    parts = [f"<p>{escape(line)}</p>" for line in _summary(found, objective, checked_on)]
    if found.candidates:
        rows = [
            [
                each.name,
                objective.shown(each.difference, signed=True),
                f"{objective.shown(each.low, signed=True)} to {objective.shown(each.high, signed=True)}",
                objective.shown(each.searched, signed=True),
                "better" if each.is_better else "not better",
            ]
            for each in found.candidates
        ]
        header = ["configuration", "difference", "95 %", "in the search", "verdict"]
        parts.append(f"<h2>Differences to the base</h2>{html_table(header, rows)}{_intervals(found)}")
    for each in found.candidates:
        changes = list(other_changes(found.comparison, each.name))
        if changes:
            parts.append(f"<h2>{escape(each.name)}: what else changes</h2>")
            parts.append(html_table(["figure", "base", each.name], changes))
        parts.append(
            f"<details{' open' if each.is_better else ''}><summary>{escape(each.name)} as YAML</summary>"
            f"<pre>{escape(as_yaml(each, objective))}</pre></details>"
        )
    return as_html(found.comparison, title="Kuberth tune", before="".join(parts))


def _intervals(found: Tuned) -> str:
    """A plot of the intervals: left of the line is better."""
    low = min(0.0, *(each.low for each in found.candidates))
    high = max(0.0, *(each.high for each in found.candidates))
    width, row = 600, 26
    scale = (width - 140) / ((high - low) or 1.0)

    def x(value: float) -> str:
        return f"{120 + (value - low) * scale:.1f}"

    height = row * len(found.candidates) + 10
    drawn = [
        f"<svg viewBox='0 0 {width} {height}' role='img' aria-label='Intervals of the differences' "
        "style='max-width:38rem;width:100%' fill='currentColor' stroke='currentColor'>",
        f"<path d='M{x(0)} 0V{height}' stroke-dasharray='4 4' stroke-opacity='.6'/>",
    ]
    for number, each in enumerate(found.candidates):
        y = row * number + 18
        drawn.append(
            f"<text x='0' y='{y + 5}' stroke='none' font-size='14'>{escape(each.name)}</text>"
            f"<path d='M{x(each.low)} {y}H{x(each.high)}' stroke-width='2'/>"
            f"<circle cx='{x(each.difference)}' cy='{y}' r='4' stroke='none'/>"
        )
    return "".join((*drawn, "</svg>"))
