"""Draws SVG: curves over time, and flame graphs; curves also as PNG, with matplotlib.

In: measurements, or folded stacks. Out: the text of one SVG file, or a file with charts.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, Final, NamedTuple

from kuberth.errors import ConfigError

_FONT: Final = "font-family='system-ui,-apple-system,Segoe UI,sans-serif'"
_INK: Final = "#1f2933"
_FAINT: Final = "#6b7785"
_GRID: Final = "#e4e8ec"
_COLOURS: Final = ("#2563a8", "#d9822b", "#3a8f5c", "#8c4fa3", "#b3413e", "#5d6b79")

Point = tuple[float, float]


class Curve(NamedTuple):
    name: str
    points: Sequence[Point]


class Chart(NamedTuple):
    """A picture of curves; both axes begin at zero."""

    title: str
    unit: str
    curves: Sequence[Curve]


# Curves over time

_WIDTH: Final = 860
_NARROW_WIDTH: Final = 500
_HEIGHT: Final = 280
_LEFT: Final = 70
_RIGHT: Final = 24
_TOP: Final = 52
_BOTTOM: Final = 40


def charts_svg(charts: Sequence[Chart]) -> str:
    """An SVG of the charts, one below the other."""
    colours = _colours(charts)
    body = "".join(
        f"<g transform='translate(0,{index * _HEIGHT})'>{_chart(chart, colours, _WIDTH)}</g>"
        for index, chart in enumerate(charts)
    )
    return _document(_WIDTH, max(len(charts), 1) * _HEIGHT, body)


def single_svgs(charts: Sequence[Chart]) -> list[str]:
    """An SVG for each chart, narrow enough for a telephone."""
    return [
        _document(_NARROW_WIDTH, _HEIGHT, _chart(each, _colours(charts), _NARROW_WIDTH)) for each in charts
    ]


def _colours(charts: Sequence[Chart]) -> dict[str, str]:
    """The colour of each name, the same in all charts."""
    names = dict.fromkeys(curve.name for chart in charts for curve in chart.curves)
    return {name: _COLOURS[index % len(_COLOURS)] for index, name in enumerate(names)}


_TIME_UNITS: Final = (("d", 86_400.0, 3), ("h", 3_600.0, 3), ("min", 60.0, 5))
"""Unit, its seconds, and how many of it a chart has at least."""


def time_unit(charts: Sequence[Chart]) -> tuple[str, float]:
    """The unit for the times of these charts, and its seconds."""
    longest = max((x for chart in charts for curve in chart.curves for x, _ in curve.points), default=0.0)
    return next(((unit, size) for unit, size, least in _TIME_UNITS if longest >= least * size), ("s", 1.0))


def _chart(chart: Chart, colours: Mapping[str, str], width: int) -> str:
    unit, unit_seconds = time_unit([chart])
    chart = chart._replace(
        curves=[Curve(curve.name, [(x / unit_seconds, y) for x, y in curve.points]) for curve in chart.curves]
    )
    points = [point for curve in chart.curves for point in curve.points]
    across = _Axis(max((x for x, _ in points), default=1.0), _LEFT, width - _RIGHT)
    up = _Axis(max((y for _, y in points), default=1.0), _HEIGHT - _BOTTOM, _TOP)
    parts = [_text(_LEFT, 22, chart.title, size=14, weight=600)]
    for value in up.ticks:
        y = up(value)
        parts.append(f"<path d='M{_LEFT} {y:.1f}H{width - _RIGHT}' stroke='{_GRID}'/>")
        parts.append(_text(_LEFT - 8, y + 4, f"{value:g}", anchor="end", colour=_FAINT))
    below = _HEIGHT - _BOTTOM + 18
    parts += [
        _text(across(at), below, f"{at:g} {unit}", anchor="middle", colour=_FAINT) for at in across.ticks
    ]
    if not points:
        parts.append(_text(width / 2, _HEIGHT / 2, "too short to be sampled", anchor="middle", colour=_FAINT))
    x = float(_LEFT)
    for curve in chart.curves:
        colour = colours[curve.name]
        line = " ".join(f"{across(at):.1f},{up(value):.1f}" for at, value in curve.points)
        parts.append(
            f"<polyline points='{line}' fill='none' stroke='{colour}' stroke-width='2' "
            "stroke-linejoin='round' stroke-linecap='round'/>"
        )
        parts += [
            f"<circle cx='{across(at):.1f}' cy='{up(value):.1f}' r='2.5' fill='{colour}'>"
            f"<title>{escape(curve.name)}, {at:.1f} {unit}: {value:.1f} {escape(chart.unit)}</title></circle>"
            for at, value in curve.points
        ]
        parts.append(f"<rect x='{x:.0f}' y='31' width='10' height='10' rx='2' fill='{colour}'/>")
        parts.append(_text(x + 15, 40, curve.name))
        x += 34 + 6.6 * len(curve.name)
    parts.append(_text(width - _RIGHT, 40, chart.unit, anchor="end", colour=_FAINT))
    return "".join(parts)


class _Axis:
    """Converts values of an axis to positions; it has about five ticks, at round values."""

    def __init__(self, largest: float, start: float, end: float) -> None:
        step = _round_step((largest or 1.0) / 5)
        self._top = step * math.ceil((largest or 1.0) / step)
        self._start, self._end = start, end
        self.ticks = [step * number for number in range(round(self._top / step) + 1)]

    def __call__(self, value: float) -> float:
        return self._start + (self._end - self._start) * value / self._top


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, 50, … that is not less."""
    power: float = 10.0 ** math.floor(math.log10(least))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * 0.999)


# Files of charts


def expect_drawable(path: Path) -> None:
    """Raise ConfigError if no chart can be written to this path, before the benchmark runs."""
    if path.suffix not in (".svg", ".png"):
        raise ConfigError(f"--plot {path}: the name ends with .svg or .png")
    if path.suffix == ".png":
        _matplotlib()
    if not path.resolve().parent.is_dir():
        raise ConfigError(f"--plot {path}: there is no folder {path.resolve().parent}")


def write_charts(path: Path, charts: Sequence[Chart]) -> None:
    """Write the charts to a file, one below the other."""
    if path.suffix == ".svg":
        path.write_text(charts_svg(charts), encoding="utf-8")
        return
    pyplot = _matplotlib()
    unit, seconds = time_unit(charts)
    figure, axes = pyplot.subplots(len(charts), 1, figsize=(9, 3.2 * len(charts)), squeeze=False)
    for chart, (axis,) in zip(charts, axes, strict=True):
        for curve in chart.curves:
            axis.plot(
                [x / seconds for x, _ in curve.points], [y for _, y in curve.points], ".-", label=curve.name
            )
        axis.set(title=chart.title, xlabel=f"time ({unit})", ylabel=chart.unit, ylim=(0, None))
        axis.grid(visible=True, alpha=0.3)
        axis.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _matplotlib() -> Any:
    try:
        matplotlib = importlib.import_module("matplotlib")
        matplotlib.use("Agg")
        return importlib.import_module("matplotlib.pyplot")
    except ImportError as error:
        raise ConfigError("a PNG needs matplotlib: pip install 'kuberth[plot]', or write an .svg") from error


# Flame graphs

_FLAME_WIDTH: Final = 1200
_ROW: Final = 17
_NARROWEST: Final = 0.4
"""Size of the drawing area, in pixels."""


@dataclass
class _Flame:
    count: int = 0
    children: dict[str, _Flame] = field(default_factory=dict)


def flame_svg(stacks: Mapping[str, int], *, title: str) -> str:
    """A flame graph: the outermost function at the bottom, each as wide as its share of the samples."""
    root = _Flame()
    for stack, count in stacks.items():
        at = root
        at.count += count
        for name in stack.split(";"):
            at = at.children.setdefault(name, _Flame())
            at.count += count
    total = root.count or 1
    scale = (_FLAME_WIDTH - 20) / total
    depth = _depth(root, scale)
    height = (depth + 1) * _ROW + 56
    parts = [_text(10, 24, f"{title}: {root.count} samples", size=14, weight=600)]

    def draw(flame: _Flame, name: str, x: float, level: int) -> None:
        width = flame.count * scale
        if width < _NARROWEST:
            return
        y = height - 12 - (level + 1) * _ROW
        share = f"{name} ({flame.count / total:.1%})"
        parts.append(
            f"<g><title>{escape(share)}</title><rect x='{x:.1f}' y='{y}' width='{max(width - 0.4, 0.3):.1f}' "
            f"height='{_ROW - 1}' rx='1.5' fill='{_warm(name)}'/>"
        )
        fits = int((width - 6) / 6.3)
        if fits >= 4:
            short = name.rpartition(":")[2] if len(name) > fits else name
            shown = short if len(short) <= fits else short[: fits - 1] + "…"
            parts.append(_text(x + 3, y + 12, shown, size=11))
        parts.append("</g>")
        for child_name, child in sorted(flame.children.items()):
            draw(child, child_name, x, level + 1)
            x += child.count * scale

    draw(root, "all", 10, 0)
    return _document(_FLAME_WIDTH, height, "".join(parts))


def _depth(flame: _Flame, scale: float) -> int:
    wide: Iterable[_Flame] = (child for child in flame.children.values() if child.count * scale >= _NARROWEST)
    return 1 + max((_depth(child, scale) for child in wide), default=0)


def _warm(name: str) -> str:
    """A warm colour for each package of Kuberth, grey for others."""
    package = name.partition(":")[0].split(".")
    if package[0] != "kuberth":
        return "#cfd6dd" if package[0] != "all" else "#e9edf0"
    hue = sum(
        ord(letter) * (index + 7) for index, letter in enumerate(package[1] if len(package) > 1 else "")
    )
    return f"hsl({12 + hue % 44},{72 + hue % 18}%,{66 + hue % 9}%)"


# Charts and flame graphs


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int = 12,
    anchor: str = "start",
    colour: str = _INK,
    weight: int = 400,
) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' font-weight='{weight}' text-anchor='{anchor}' "
        f"fill='{colour}'>{escape(text)}</text>"
    )


def _document(width: float, height: float, body: str) -> str:
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width:g} {height:g}' width='{width:g}' "
        f"height='{height:g}' {_FONT}><rect width='100%' height='100%' fill='#ffffff'/>{body}</svg>\n"
    )
