"""Formats a comparison as HTML, tables, CSV or JSON.

In: a `Comparison`. Out: text. The HTML page is self-contained: plots are embedded and nothing is loaded.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final

import msgspec

from kuberth.bench.drawing import Chart, Curve, single_svgs
from kuberth.bench.plotting import expect_drawable, write_charts
from kuberth.simulation.comparing import Comparison, Figure, Unit, unit_of
from kuberth.simulation.outcomes import Outcome, Sample, Waits
from kuberth.text.figures import count, decimal, duration, percent

_STYLE: Final = """
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,-apple-system,'Segoe UI',sans-serif;max-width:62rem;
margin:2rem auto;padding:0 1rem;overflow-wrap:anywhere}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:.25rem .6rem;border-bottom:1px solid #8884;overflow-wrap:normal}
th:first-child,td:first-child{text-align:left;overflow-wrap:break-word}
.table{overflow-x:auto}
.pictures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:.75rem}
.pictures svg{width:100%;height:auto;border-radius:6px}
small{opacity:.75}
@media(max-width:600px){body{font-size:13px;padding:0 .5rem}table{font-size:12px}th,td{padding:.2rem .12rem}}
"""

INTERRUPTED: Final = "interrupted: these are the figures until then"

_FORMATS: Final = {Unit.COUNT: decimal, Unit.SECONDS: duration, Unit.SHARE: percent}


def as_json(comparison: Comparison) -> bytes:
    """The whole comparison; for a single run, only its outcome."""
    plain = {
        name: [msgspec.structs.replace(run, records=msgspec.UNSET) for run in runs]
        for name, runs in comparison.outcomes.items()
    }
    comparison = msgspec.structs.replace(comparison, outcomes=plain)
    tree = comparison if len(comparison.variants) > 1 or len(comparison.seeds) > 1 else single(comparison)
    encoder = msgspec.json.Encoder(order="deterministic")
    return msgspec.json.format(encoder.encode(tree), indent=1) + b"\n"


def single(comparison: Comparison) -> Outcome:
    return comparison.outcomes[comparison.variants[0]][0]


def as_csv(comparison: Comparison) -> str:
    """One line per figure and variant."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Figure.__struct_fields__)
    writer.writerows(msgspec.structs.astuple(figure) for figure in comparison.figures)
    return text.getvalue()


def charts(comparison: Comparison) -> list[Chart]:
    """Values over time, for the first seed of each variant."""
    runs = {name: outcomes[0] for name, outcomes in comparison.outcomes.items()}
    resources = [
        name
        for name in sorted({name for run in runs.values() for name in run.utilisation})
        if any(run.utilisation.get(name) for run in runs.values())
    ]
    drawn = [
        Chart(
            f"Utilisation of {resource}",
            "%",
            [
                Curve(name, [(each.at, 100 * each.utilisation.get(resource, 0.0)) for each in run.samples])
                for name, run in runs.items()
            ],
        )
        for resource in resources
    ]
    drawn.append(_over_time("Waiting pods", "pods", runs, lambda each: each.waiting))
    drawn.append(_over_time("Fragmentation", "%", runs, lambda each: 100 * each.fragmentation))
    drawn.append(_over_time("Fairness among tenants", "%", runs, lambda each: 100 * each.fairness))
    return drawn


def _over_time(title: str, unit: str, runs: dict[str, Outcome], measure: Callable[[Sample], float]) -> Chart:
    return Chart(
        title,
        unit,
        [
            Curve(name, [(each.at, float(measure(each))) for each in run.samples])
            for name, run in runs.items()
        ],
    )


def write_plots(comparison: Comparison, path: Path | str) -> None:
    """Write the plots over time into a file: .svg, or .png with matplotlib."""
    path = Path(path)
    expect_drawable(path)
    write_charts(path, charts(comparison))


def as_html(comparison: Comparison, *, title: str = "Kuberth simulation", before: str = "") -> str:
    """The whole report as a self-contained page; `before` is HTML in front of the figures."""
    pictures = "".join(single_svgs(charts(comparison)))
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width'>",
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>",
        f"<p><small>{escape(_summary(comparison))}</small></p>",
        before,
        "<h2>Figures</h2>",
        html_table(*figure_table(comparison)),
        f"<h2>Over time</h2><div class='pictures'>{pictures}</div>",
    ]
    for name, outcomes in comparison.outcomes.items():
        run = outcomes[0]
        parts.append(f"<h2>{escape(name)}: how long pods waited</h2>")
        parts.append(html_table(*wait_table(run)))
        if run.reasons:
            parts.append(f"<h2>{escape(name)}: why pods were rejected</h2>")
            rows = [[each.text, str(each.pods)] for each in run.reasons]
            parts.append(html_table(["reason", "pods"], rows))
    return "".join((*parts, "</body></html>\n"))


def as_html_part(comparison: Comparison) -> str:
    """The figures and plots as a part of a page, such as a notebook's."""
    return html_table(*figure_table(comparison)) + "".join(single_svgs(charts(comparison)))


def _summary(comparison: Comparison) -> str:
    run = single(comparison)
    seeds = ", ".join(map(str, comparison.seeds))
    sizes = f"{count(run.nodes, 'node')}, {count(run.pods.arrived, 'pod')}"
    text = f"{sizes}, {duration(run.seconds)}; seeds {seeds}"
    return f"{text}; {INTERRUPTED}" if run.interrupted else text


def figure_table(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Header and rows: one row per figure, one column per variant."""
    by_name: dict[str, list[Figure]] = {}
    for figure in comparison.figures:
        by_name.setdefault(figure.name, []).append(figure)
    rows = [
        [name.removesuffix(" (s)"), *(_cell(figure, index) for index, figure in enumerate(figures))]
        for name, figures in by_name.items()
    ]
    return ["figure", *comparison.variants], rows


def shown(figure: str, value: float, *, signed: bool = False) -> str:
    """A value of the figure of this name, in its unit."""
    text = _FORMATS[unit_of(figure)](value)
    return f"+{text}" if signed and value > 0 else text


def _cell(figure: Figure, index: int) -> str:
    show = _FORMATS[unit_of(figure.name)]
    text = show(figure.mean) + (f" ± {show(figure.spread)}" if figure.spread else "")
    if index and figure.difference:
        spread = f" ± {show(figure.difference_spread)}" if figure.difference_spread else ""
        sign = "+" if figure.difference > 0 else ""
        text += f" ({sign}{show(figure.difference)}{spread})"
    return text


def wait_table(run: Outcome) -> tuple[list[str], list[list[str]]]:
    header = ["pods", "placed", "mean", "p50", "p90", "p99", "longest", "waiting"]
    groups = [("all", run.waits)]
    groups += ((f"priority {name}", each) for name, each in run.waits_by_priority.items())
    groups += (
        (name if name.startswith("tenant") else f"tenant {name}", each)
        for name, each in run.waits_by_tenant.items()
    )
    return header, [[name, *_cells(each)] for name, each in groups]


def _cells(each: Waits) -> Iterator[str]:
    yield str(each.pods)
    bound = "≥" if each.still_waiting else ""
    for seconds in (each.mean, each.p50, each.p90, each.p99, each.longest):
        yield bound + duration(seconds)
    yield str(each.still_waiting)


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table that scrolls if it is too wide."""
    head = "".join(f"<th scope='col'>{escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div class='table'>{table}</div>"
