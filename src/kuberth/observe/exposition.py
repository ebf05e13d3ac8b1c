"""Formats metric families as text for Prometheus.

In: families. Out: text format 0.0.4 or OpenMetrics 1.0.0, one piece per family, so that a server can handle
other requests in between. Numbers and the order of labels are kube-scheduler's: a bucket's bound is a label,
and a dashboard that queries le="1" must find it (prometheus-client writes le="1.0").
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Final, TypeVar

from kuberth.observe.metrics import ComputedGauge, Family, Histogram, HistogramValue, Labels

T = TypeVar("T")

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
OPEN_METRICS_END: Final = "# EOF\n"

_VALUE_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})


def render(families: Iterable[Family], *, open_metrics: bool = False) -> Iterator[str]:
    """The text of the families, sorted by name; those without an observation are left out."""
    for family in sorted(families, key=lambda family: family.name):
        if samples := _samples(family, open_metrics=open_metrics):
            yield _head(family, open_metrics=open_metrics) + "".join(samples)
    if open_metrics:
        yield OPEN_METRICS_END


def number(value: float) -> str:
    """Format a float as Go does: the shortest digits that read back the same, an exponent from 1e+06 on."""
    if -1e6 < value < 1e6 and value == (whole := int(value)):
        return str(whole)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    text = repr(float(value))
    if "e" in text or abs(value) < 1e6:
        return text
    digits = text.lstrip("-").replace(".", "").rstrip("0")
    return f"{value:.{len(digits) - 1}e}"


def _head(family: Family, *, open_metrics: bool) -> str:
    name, kind = family.name, family.kind
    if open_metrics and kind == "counter":
        # In OpenMetrics the family of x_total is called x, and every counter ends with _total.
        name, kind = (name.removesuffix("_total"), kind) if name.endswith("_total") else (name, "unknown")
    text = f"[{family.stability}] {family.help}" if family.stability else family.help
    escapes = _VALUE_ESCAPES if open_metrics else _HELP_ESCAPES
    return f"# HELP {name} {text.translate(escapes)}\n# TYPE {name} {kind}\n"


def _samples(family: Family, *, open_metrics: bool) -> list[str]:
    if isinstance(family, Histogram):
        return _histogram(family, open_metrics=open_metrics)
    values: Mapping[Labels, float] = family.values
    if not family.labels and not values and not isinstance(family, ComputedGauge):
        values = {(): 0}  # without labels there is exactly one series, from the start
    return [
        f"{family.name}{{{text}}} {number(value)}\n" if text else f"{family.name} {number(value)}\n"
        for text, value in _ordered(family.labels, values)
    ]


def _histogram(family: Histogram, *, open_metrics: bool) -> list[str]:
    values: Mapping[Labels, HistogramValue] = family.values
    if not family.labels and not values:
        values = {(): HistogramValue(family.buckets)}
    bounds = [*family.buckets, math.inf]
    ends = [f'le="{_open_bound(bound) if open_metrics else number(bound)}"}} ' for bound in bounds]
    name = family.name
    lines: list[str] = []
    for text, value in _ordered(family.labels, values):
        start = f"{name}_bucket{{{text}," if text else f"{name}_bucket{{"
        total = 0
        for end, count in zip(ends, value.counts, strict=True):
            total += count
            lines.append(f"{start}{end}{total}\n")
        braces = f"{{{text}}}" if text else ""
        lines.append(f"{name}_sum{braces} {number(value.sum)}\n{name}_count{braces} {total}\n")
    return lines


def _open_bound(bound: float) -> str:
    """A bound in OpenMetrics: a float always has a fraction."""
    text = number(bound)
    return f"{text}.0" if text.lstrip("-").isdigit() else text


def _ordered(names: Labels, values: Mapping[Labels, T]) -> list[tuple[str, T]]:
    """Label text and value of each series: labels sorted by name, series by label values."""
    if not names:
        return [("", value) for value in values.values()]
    order = sorted(range(len(names)), key=names.__getitem__)
    sorted_names = [names[index] for index in order]
    # Copied at once: probes are counted in another thread.
    rows = [(tuple(labels[index] for index in order), value) for labels, value in list(values.items())]
    rows.sort(key=itemgetter(0))
    return [
        (
            ",".join(
                f'{name}="{text.translate(_VALUE_ESCAPES)}"'
                for name, text in zip(sorted_names, labels, strict=True)
            ),
            value,
        )
        for labels, value in rows
    ]
