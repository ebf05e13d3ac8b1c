"""Measurements over time, and what grows in them.

In: samples of one process after the other. Out: a CSV file, charts, and the slope of every figure
with its error.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

from kuberth.api import quantity
from kuberth.bench.drawing import Chart, Curve, charts_svg
from kuberth.text.documents import read_file

WARM_UP_SECONDS: Final = 300.0
"""What a process takes while its plans and the history of changes fill up is no growth."""


class Sample(NamedTuple):
    """What a process held at one moment."""

    seconds: float
    """Since the start of the soak."""
    process: int
    """Which process it was: 1, and one more after each restart."""
    age: float
    """Seconds since the process started."""
    memory_mib: float
    files: int
    tasks: int
    plans: int
    pending: int
    """Pods in the queue."""
    cached: int
    """Pods in the cluster table."""
    bound: int
    """Pods that this process has bound."""


FIGURES: Final = ("memory_mib", "files", "tasks", "plans", "pending", "cached")
_UNITS: Final = {"memory_mib": "MiB"}


class Slope(NamedTuple):
    """Growth per hour, and its standard error."""

    per_hour: float
    error: float

    def __str__(self) -> str:
        if math.isnan(self.per_hour):
            return "too few samples"
        return f"{self.per_hour:+.2f} ± {self.error:.2f} per hour"


def slope(samples: Sequence[Sample], figure: str) -> Slope:
    """One slope for all processes, each with its own level; their warm-up is left out."""
    squares = products = total = 0.0
    centred: list[tuple[float, float]] = []
    processes = 0
    for points in _by_process(samples, figure):
        settled = [(seconds, value) for seconds, age, value in points if age >= WARM_UP_SECONDS]
        if len(settled) < 3:
            continue
        processes += 1
        middle = sum(seconds for seconds, _ in settled) / len(settled)
        mean = sum(value for _, value in settled) / len(settled)
        centred += [((seconds - middle) / 3600, value - mean) for seconds, value in settled]
    for hours, value in centred:
        squares += hours * hours
        products += hours * value
    free = len(centred) - processes - 1
    if free < 1 or not squares:
        return Slope(math.nan, math.nan)
    per_hour = products / squares
    for hours, value in centred:
        total += (value - per_hour * hours) ** 2
    return Slope(per_hour, math.sqrt(total / free / squares))


def most_memory_mib(deployment: Path) -> float:
    """The memory limit of a Deployment's only container."""
    manifest = read_file(deployment, "the Deployment")
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    return quantity.value(container["resources"]["limits"]["memory"]) / (1 << 20)


def over_limit(samples: Sequence[Sample], limit_mib: float) -> str:
    """What to say about processes that the kernel would have killed in their container; "" for none."""
    most = max((each.memory_mib for each in samples), default=0.0)
    return f"memory: {most:.0f} MiB is over the limit, {limit_mib:.0f} MiB" if most > limit_mib else ""


def write_csv(path: Path, samples: Sequence[Sample]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(Sample._fields)
        writer.writerows(
            [f"{each:.1f}" if isinstance(each, float) else each for each in row] for row in samples
        )


def write_plot(path: Path, samples: Sequence[Sample], *, title: str) -> None:
    charts = []
    for figure in FIGURES:
        curves = [
            Curve(f"process {number}", [(seconds, value) for seconds, _, value in points])
            for number, points in enumerate(_by_process(samples, figure), 1)
        ]
        name = figure.removesuffix("_mib")
        charts.append(Chart(f"{title}: {name}", _UNITS.get(figure, name), curves))
    path.write_text(charts_svg(charts), encoding="utf-8")


def _by_process(samples: Sequence[Sample], figure: str) -> Iterator[list[tuple[float, float, float]]]:
    """Seconds, age and value, for each process."""
    for _, group in groupby(samples, key=lambda sample: sample.process):
        yield [(each.seconds, each.age, float(getattr(each, figure))) for each in group]
