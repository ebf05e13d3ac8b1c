"""What a person sees of `kuberth bench`: a bar while it runs, a table at the end.

In: where a run stands, and results. Out: on a terminal a bar on standard error; the table on standard output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from kuberth.bench.measurements import Measurement
from kuberth.bench.running import Standing, WorkloadResult
from kuberth.bench.throughput import Distribution
from kuberth.errors import KuberthError

_WIDTH_OF_FILES = 200
"""Where there is no terminal to be narrow."""


class Display:
    """Shows a bar while it is entered, on a terminal; `quiet`: no lines between."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[step]}", style="dim"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            refresh_per_second=4,
            disable=not self._console.is_terminal,
        )
        self._task: TaskID | None = None
        self._run = ""

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._bar.stop()

    def told(self, standing: Standing) -> None:
        runs = f" ({standing.run}/{standing.runs})" if standing.runs > 1 else ""
        run = f"{standing.workload} · {standing.contender}{runs}"
        if run != self._run or self._task is None:
            self._run = run
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(run, step="", total=None)
        progress = standing.progress
        self._bar.update(
            self._task, completed=progress.done, total=progress.total or None, step=progress.step
        )

    def failed(self, error: KuberthError) -> None:
        self._clear()
        self._bar.console.print(Text(f"Error: {error}"), soft_wrap=True)

    def finished(self, result: WorkloadResult) -> None:
        self._clear()
        if self._console.is_terminal and not self._quiet:
            rates = ", ".join(f"{name} {each.average:.0f} pods/s" for name, each, _ in result.rows())
            self._bar.console.print(Text(f"{result.workload}: {rates}"))

    def _clear(self) -> None:
        if self._task is not None:
            self._bar.remove_task(self._task)
            self._task = None

    def show(self, results: Sequence[WorkloadResult], *, target: str) -> None:
        console = Console()
        if not console.is_terminal:
            console = Console(width=_WIDTH_OF_FILES)
        console.print(results_table(results))
        for note in notes(results, target=target):
            console.print(Text(note, style="dim"))


def results_table(results: Sequence[WorkloadResult]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("workload", overflow="fold")
    table.add_column("scheduler", no_wrap=True)
    heads = ("pods", "pods/s", "p50", "p90", "p95", "p99", "CPU ms/pod", "MiB")
    for head in (*heads, "attempt ms p50/p90/p99", "ratio", "threshold"):
        table.add_column(head, justify="right", no_wrap=True)
    for result in results:
        several = max(len(each) for each in result.measurements.values()) > 1
        last = ""
        for name, measurement, ratio in result.rows():
            title = f"{result.workload}" + (f" ({measurement.name})" if several else "")
            table.add_row(*_cells(title if title != last else "", name, measurement, ratio))
            last = title
    return table


def _cells(title: str, name: str, measurement: Measurement, ratio: float | None) -> list[str | Text]:
    rates = measurement.throughput
    return [
        title,
        name,
        str(measurement.scheduled),
        f"{measurement.average:.1f}" + ("" if measurement.sampled else "*"),
        *(_number(None if rates is None else rate) for rate in _percentiles(rates)),
        _number(measurement.cpu_ms_per_pod, 2),
        _number(measurement.peak_mib, 0),
        _attempts(measurement.attempts_ms),
        "" if ratio is None else f"{ratio:.2f}",
        _verdict(measurement),
    ]


def _percentiles(rates: Distribution | None) -> Sequence[float | None]:
    return [None] * 4 if rates is None else (rates.perc50, rates.perc90, rates.perc95, rates.perc99)


def _attempts(attempts: Distribution | None) -> str:
    if attempts is None:
        return "–"
    return " / ".join(f"{each:.1f}" for each in (attempts.perc50, attempts.perc90, attempts.perc99))


def _number(number: float | None, digits: int = 1) -> str:
    return "–" if number is None else f"{number:.{digits}f}"


def _verdict(measurement: Measurement) -> str | Text:
    verdict = measurement.verdict
    if verdict is None:
        return ""
    words, style = {
        None: ("not measured", "yellow"),
        True: ("met", "green"),
        False: ("missed", "bold red"),
    }[verdict.met]
    return Text(f"{'<' if verdict.selector.expect_lower else '>'} {verdict.threshold:g} {words}", style=style)


def notes(results: Sequence[WorkloadResult], *, target: str) -> list[str]:
    rows = [(name, each) for result in results for name, each, _ in result.rows()]
    found = []
    if any(not each.sampled for _, each in rows):
        found.append("* too short for samples a second apart: pods between the first and the last one bound")
    if target == "inproc":
        found.append("CPU and memory are of this whole process: scheduler, embedded API server and bench")
    return found
