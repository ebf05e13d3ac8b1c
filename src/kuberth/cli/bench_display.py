"""The output of `kuberth bench`: a progress bar while it runs, tables at the end.

In: progress and results. Out: on a terminal a bar on standard error; the tables on standard output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from kuberth.bench.measurements import Measurement
from kuberth.bench.running import Standing, WorkloadResult
from kuberth.bench.throughput import Distribution
from kuberth.errors import KuberthError
from kuberth.text.figures import duration, size

_NONE: Final = "–"


class Display:
    """Shows a progress bar inside the `with` block, on a terminal; `quiet`: no lines in between."""

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

    def update(self, standing: Standing) -> None:
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
        for table in results_tables(results):
            console.print(table, "")
        for note in notes(results, target=target):
            console.print(Text(note, style="dim"))


class _Column(NamedTuple):
    title: str
    cell: Callable[[Measurement], str | Text]


def _rate(percentile: str) -> Callable[[Measurement], str]:
    return lambda each: _number(each.throughput, percentile, "{:.0f}".format)


def _latency(percentile: str) -> Callable[[Measurement], str]:
    return lambda each: _number(each.attempts_ms, percentile, lambda ms: duration(ms / 1000))


def _number(found: Distribution | None, percentile: str, show: Callable[[float], str]) -> str:
    return _NONE if found is None else show(getattr(found, percentile))


_THROUGHPUT: Final = (
    _Column("pods", lambda each: str(each.scheduled)),
    _Column("pods/s", lambda each: f"{each.average:.1f}" + ("" if each.sampled else "*")),
    *(_Column(f"p{number}", _rate(f"perc{number}")) for number in (50, 90, 95, 99)),
    _Column("threshold", lambda each: _verdict(each)),
)
_COST: Final = (
    _Column("CPU/pod", lambda each: _NONE if each.cpu_ms_per_pod is None else f"{each.cpu_ms_per_pod:.2f}ms"),
    _Column("memory", lambda each: _NONE if each.peak_mib is None else size(round(each.peak_mib) << 20)),
    *(_Column(f"attempt p{number}", _latency(f"perc{number}")) for number in (50, 90, 99)),
)


def results_tables(results: Sequence[WorkloadResult]) -> list[Table]:
    """Throughput, and what it costs: two tables, so that both fit 80 columns."""
    return [_table(results, _THROUGHPUT, with_ratio=True), _table(results, _COST, with_ratio=False)]


def _table(results: Sequence[WorkloadResult], columns: Sequence[_Column], *, with_ratio: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("scheduler")
    for column in columns:
        table.add_column(column.title, justify="right", no_wrap=True)
    if with_ratio:
        table.add_column("ratio", justify="right", no_wrap=True)
    for result in results:
        several = max(len(each) for each in result.measurements.values()) > 1
        last = ""
        for name, measurement, ratio in result.rows():
            title = f"{result.workload}" + (f" ({measurement.name})" if several else "")
            if title != last:
                table.add_row(Text(title, style="bold"))
                last = title
            cells = [column.cell(measurement) for column in columns]
            table.add_row(f"  {name}", *cells, *([_ratio(ratio)] if with_ratio else []))
    return table


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


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
        found.append("* too short to sample every second: average from the first to the last binding")
    if target == "inproc":
        found.append(
            "CPU and memory are those of the whole process: scheduler, embedded API server and bench"
        )
    return found
