"""Formats a comparison as HTML, tables, CSV or JSON.

In: a `Comparison`. Out: text. The HTML page is self-contained: plots are embedded and nothing is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from html import escape
from pathlib import Path
from typing import Final

import msgspec

from kuberth.bench.drawing import Chart, Curve, expect_drawable, single_svgs, write_charts
from kuberth.simulation.comparing import Comparison, Figure
from kuberth.simulation.outcomes import Outcome, Sample, Waits
from kuberth.simulation.tables import Table, html_table
from kuberth.text.figures import count, decimal, duration, percent

_STYLE: Final = "\n" + (Path(__file__).parent / "report.css").read_text(encoding="utf-8")

INTERRUPTED: Final = "interrupted: these are the figures until then"


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
    return Table(map(msgspec.structs.asdict, comparison.figures)).to_csv()


def charts(comparison: Comparison) -> list[Chart]:
    """Values over time, for the first seed of each variant."""
    runs = {name: outcomes[0] for name, outcomes in comparison.outcomes.items()}
    resources = sorted({name for run in runs.values() for name, share in run.utilisation.items() if share})
    measures: list[tuple[str, str, Callable[[Sample], float]]] = [
        (f"Utilisation of {each}", "%", partial(_used_percent, each)) for each in resources
    ]
    measures += [
        ("Waiting pods", "pods", lambda sample: float(sample.waiting)),
        ("Fragmentation", "%", lambda sample: 100 * sample.fragmentation),
        ("Fairness among tenants", "%", lambda sample: 100 * sample.fairness),
    ]
    return [
        Chart(
            title,
            unit,
            [
                Curve(name, [(sample.at, measure(sample)) for sample in run.samples])
                for name, run in runs.items()
            ],
        )
        for title, unit, measure in measures
    ]


def _used_percent(resource: str, sample: Sample) -> float:
    return 100 * sample.utilisation.get(resource, 0.0)


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


def _format_of(figure: str) -> Callable[[float], str]:
    """How values of the figure of this name are shown: as seconds, a count or a share."""
    if figure.endswith("(s)"):
        return duration
    return decimal if figure.startswith(("pods", "preempted", "nodes")) else percent


def shown(figure: str, value: float, *, signed: bool = False) -> str:
    """A value of the figure of this name, in its unit."""
    text = _format_of(figure)(value)
    return f"+{text}" if signed and value > 0 else text


def _cell(figure: Figure, index: int) -> str:
    show = _format_of(figure.name)
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
