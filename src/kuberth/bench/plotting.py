"""Plots throughput and latency over time.

In: results and a path. Out: an SVG, or with matplotlib a PNG.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kuberth.bench.drawing import Chart, Curve, charts_svg, time_unit
from kuberth.errors import ConfigError

if TYPE_CHECKING:
    # Reports of simulations draw charts, too, and do not need the rest of the benchmark.
    from kuberth.bench.running import WorkloadResult


def expect_drawable(path: Path) -> None:
    """Raise ConfigError if no chart can be written to this path, before the benchmark runs."""
    if path.suffix not in (".svg", ".png"):
        raise ConfigError(f"--plot {path}: the name ends with .svg or .png")
    if path.suffix == ".png":
        _matplotlib()
    if not path.resolve().parent.is_dir():
        raise ConfigError(f"--plot {path}: there is no folder {path.resolve().parent}")


def write_plot(path: Path, results: Sequence[WorkloadResult]) -> None:
    write_charts(path, [chart for result in results for chart in _charts(result)])


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


def _charts(result: WorkloadResult) -> Iterator[Chart]:
    stretches = max(len(measurements) for measurements in result.measurements.values())
    for index in range(stretches):
        found = {name: measurements[index] for name, measurements in result.measurements.items()}
        title = f"{result.workload}" + (f", {next(iter(found.values())).name}" if stretches > 1 else "")
        rates = [
            Curve(name, [(sample.at_seconds, sample.pods_per_second) for sample in each.samples])
            for name, each in found.items()
        ]
        yield Chart(f"{title}: throughput", "pods/s", rates)
        attempts = []
        for name, each in found.items():
            if each.latencies:
                attempts.append(Curve(f"{name} p50", [(at, p50) for at, p50, _ in each.latencies]))
                attempts.append(Curve(f"{name} p99", [(at, p99) for at, _, p99 in each.latencies]))
        yield Chart(f"{title}: latency of scheduling attempts", "ms", attempts)


def _matplotlib() -> Any:
    try:
        matplotlib = importlib.import_module("matplotlib")
        matplotlib.use("Agg")
        return importlib.import_module("matplotlib.pyplot")
    except ImportError as error:
        raise ConfigError("a PNG needs matplotlib: pip install 'kuberth[plot]', or write an .svg") from error
