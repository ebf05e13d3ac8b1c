"""Runs `kuberth bench`.

In: the flags of the command line. Out: a table or JSON on standard output, files with plots, an exit code.
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

import kuberth
from kuberth.bench.arenas import IN_PROCESS
from kuberth.bench.cases import Workload, read_workloads, select, shipped, upstream
from kuberth.bench.contenders import (
    BLIND,
    KUBE_SCHEDULER,
    KUBERTH,
    Contender,
    OwnScheduler,
    blind_binder,
    kube_scheduler,
)
from kuberth.bench.drawing import expect_drawable, flame_svg, write_charts
from kuberth.bench.executor import Pace
from kuberth.bench.executor import Progress as RunProgress
from kuberth.bench.measurements import Distribution, Measurement
from kuberth.bench.profiling import read_folded
from kuberth.bench.running import BenchSettings, WorkloadResult, run_workload
from kuberth.cli.context import Extras, build_registry, queue_factory
from kuberth.clock import run_on_fastest_loop
from kuberth.config.feature_gates import parse_settings
from kuberth.errors import ConfigError, KuberthError, first_error
from kuberth.text.figures import duration, size

DEFAULT_WORKLOAD = "Quick"


_ENDINGS: Final = (".yaml", ".yml", ".json")
_RETRY_SECONDS: Final = 5.0
_NO_VALUE: Final = "–"


def run(extras: Extras, flags: dict[str, Any]) -> None:
    names = list(flags.pop("names"))
    is_file = names and (names[0].endswith(_ENDINGS) or Path(names[0]).is_file())
    file = Path(names.pop(0)) if is_file else None
    if file is not None and flags["upstream"]:
        raise click.UsageError("--upstream and FILE are both sources of workloads; give one of them")
    if flags["only_list"]:
        list_workloads(file, names, upstream=flags["upstream"], labels=flags["label_filter"])
    else:
        raise SystemExit(run_bench(extras, file, names, flags))


def list_workloads(file: Path | None, names: Sequence[str], *, upstream: bool, labels: str) -> None:
    for workload in _select_workloads(file, names or [""], from_upstream=upstream, labels=labels):
        notes = [", ".join(sorted(workload.labels))] if workload.labels else []
        if workload.threshold:
            notes.append(f"threshold {workload.threshold:g}")
        if refusal := workload.refusal():
            notes.append(f"cannot run: {refusal}")
        click.echo(f"{workload}  [{'; '.join(notes)}]" if notes else str(workload))


def run_bench(extras: Extras, file: Path | None, names: Sequence[str], flags: Mapping[str, Any]) -> int:
    workloads = _select_workloads(
        file,
        names or _default_names(file, flags),
        from_upstream=flags["upstream"],
        labels=flags["label_filter"],
    )
    if len(workloads) > 1:
        for workload in [each for each in workloads if each.refusal()]:
            click.echo(f"{workload} is skipped: {workload.refusal()}", err=True)
        workloads = [each for each in workloads if not each.refusal()]
    for workload in workloads:
        # Report workloads that cannot run before hours are spent on the others.
        if refusal := workload.refusal():
            raise ConfigError(f"{workload.where}: {refusal}")
    if flags["plot"] is not None:
        expect_drawable(flags["plot"])
    if flags["profile"] is not None and flags["profile"].suffix != ".svg":
        raise ConfigError(f"--profile {flags['profile']}: expected a file name that ends with .svg")
    display = Display(quiet=flags["output"] == "json")
    with tempfile.TemporaryDirectory(prefix="kuberth-bench-") as folder:
        folded = Path(folder, "stacks.folded") if flags["profile"] is not None else None
        contenders = _contenders(extras, flags, folded)
        results: list[WorkloadResult] = []
        try:
            failed = run_on_fastest_loop(_run_all(workloads, contenders, _settings(flags), display, results))
        except (asyncio.CancelledError, KeyboardInterrupt):
            if results:  # the runs may have taken hours
                _report(results, display, flags)
            raise click.Abort from None  # SIGTERM is reported like Ctrl-C
        if folded is not None:
            names_of_all = ", ".join(str(workload) for workload in workloads)
            flags["profile"].write_text(
                flame_svg(read_folded(folded), title=f"Kuberth, {names_of_all}"), encoding="utf-8"
            )
    if flags["plot"] is not None:
        write_charts(flags["plot"], [chart for result in results for chart in result.charts()])
    _report(results, display, flags)
    missed = flags["check_thresholds"] and any(result.missed for result in results)
    return 1 if missed or failed else 0


def _report(results: Sequence[WorkloadResult], display: Display, flags: Mapping[str, Any]) -> None:
    if flags["output"] == "json":
        tree = {
            "kuberth": kuberth.__version__,
            "target": flags["target"],
            "repeat": flags["repeat"],
            "results": [result.plain() for result in results],
        }
        click.echo(msgspec.json.format(msgspec.json.encode(tree)).decode())
    else:
        display.show(results, target=flags["target"])


def _select_workloads(
    file: Path | None, names: Sequence[str], *, from_upstream: bool, labels: str
) -> Sequence[Workload]:
    known = read_workloads(file) if file is not None else upstream() if from_upstream else shipped()
    found = {id(each): each for name in names for each in select(known, name, labels=labels)}
    return list(found.values())


def _default_names(file: Path | None, flags: Mapping[str, Any]) -> Sequence[str]:
    if file is not None or flags["label_filter"]:
        return [""]
    if flags["upstream"]:
        raise click.UsageError(
            "name a CASE or CASE/WORKLOAD, or select with --label-filter performance,short; --list shows all"
        )
    return [DEFAULT_WORKLOAD]


def _contenders(extras: Extras, flags: Mapping[str, Any], folded: Path | None) -> Mapping[str, Contender]:
    if flags["peers"] and flags["target"] == IN_PROCESS:
        raise ConfigError(
            f"--peer {flags['peers'][0]} is a separate program and needs an API server: "
            "add --target up or --target assets"
        )
    peers: Mapping[str, Contender] = {
        KUBE_SCHEDULER: partial(kube_scheduler, assets=flags["assets"]),
        BLIND: blind_binder,
    }
    own = OwnScheduler(
        build_registry(extras, flags["plugin_references"]),
        queue_factory(extras, flags["queue_reference"]),
        config=flags["scheduler_config"],
        plugin_references=flags["plugin_references"],
        queue_reference=flags["queue_reference"],
        by_code=tuple(extras.plugins),
        profile=folded,
    )
    return {KUBERTH: own.running, **{name: peers[name] for name in flags["peers"]}}


def _settings(flags: Mapping[str, Any]) -> BenchSettings:
    return BenchSettings(
        target=flags["target"],
        assets=flags["assets"],
        repeat=flags["repeat"],
        pace=Pace(patience_seconds=flags["timeout"].total_seconds()),
        gates=parse_settings(flags["feature_gates"]),
        with_latencies=flags["plot"] is not None,
    )


async def _run_all(
    workloads: Sequence[Workload],
    contenders: Mapping[str, Contender],
    settings: BenchSettings,
    display: Display,
    results: list[WorkloadResult],
) -> int:
    """Append to `results`; returns the number of failed workloads. A failure does not stop the others."""
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()

    def stop() -> None:
        """Cancel the run, which stops everything that it started."""
        task.cancel()
        # An await that ends at the same time may swallow a cancellation (asyncio.wait_for does).
        loop.call_later(_RETRY_SECONDS, stop)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    with display.bar:
        for workload in workloads:
            try:
                results.append(await run_workload(workload, contenders, settings, display.update))
            except (KuberthError, ExceptionGroup) as error:
                first = first_error(error)
                if len(workloads) == 1 or not isinstance(first, KuberthError):
                    raise
                display.failed(first)
            else:
                display.finished(results[-1])
    return len(workloads) - len(results)


class Display:
    """Shows a progress bar on a terminal, while `bar` is entered; `quiet`: without lines in between."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._console = Console(stderr=True)
        self.bar = Progress(
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

    def update(self, run: str, progress: RunProgress) -> None:
        if run != self._run or self._task is None:
            self._run = run
            self._clear()
            self._task = self.bar.add_task(run, step="", total=None)
        self.bar.update(self._task, completed=progress.done, total=progress.total or None, step=progress.step)

    def failed(self, error: KuberthError) -> None:
        self._clear()
        self.bar.console.print(Text(f"Error: {error}"), soft_wrap=True)

    def finished(self, result: WorkloadResult) -> None:
        self._clear()
        if self._console.is_terminal and not self._quiet:
            rates = ", ".join(f"{name} {each.average:.0f} pods/s" for name, each, _ in result.rows())
            self.bar.console.print(Text(f"{result.workload}: {rates}"))

    def _clear(self) -> None:
        if self._task is not None:
            self.bar.remove_task(self._task)
            self._task = None

    def show(self, results: Sequence[WorkloadResult], *, target: str) -> None:
        console = Console()
        for table in results_tables(results):
            console.print(table, "")
        for note in notes(results, target=target):
            console.print(Text(note, style="dim"))


def _rate(percentile: str) -> Callable[[Measurement], str]:
    return lambda each: _number(each.throughput, percentile, "{:.0f}".format)


def _latency(percentile: str) -> Callable[[Measurement], str]:
    return lambda each: _number(each.attempts_ms, percentile, lambda ms: duration(ms / 1000))


def _number(found: Distribution | None, percentile: str, show: Callable[[float], str]) -> str:
    return _NO_VALUE if found is None else show(getattr(found, percentile))


_Columns = Mapping[str, Callable[[Measurement], str | Text]]
"""The cell of a measurement, by the title of the column."""
_THROUGHPUT: Final[_Columns] = {
    "pods": lambda each: str(each.scheduled),
    "pods/s": lambda each: f"{each.average:.1f}" + ("" if each.sampled else "*"),
    **{f"p{number}": _rate(f"perc{number}") for number in (50, 90, 95, 99)},
    "threshold": lambda each: _verdict(each),
}
_COST: Final[_Columns] = {
    "CPU/pod": lambda each: _NO_VALUE if each.cpu_ms_per_pod is None else f"{each.cpu_ms_per_pod:.2f}ms",
    "memory": lambda each: _NO_VALUE if each.peak_mib is None else size(round(each.peak_mib) << 20),
    **{f"attempt p{number}": _latency(f"perc{number}") for number in (50, 90, 99)},
}


def results_tables(results: Sequence[WorkloadResult]) -> list[Table]:
    """Throughput and cost: two tables, so that both fit 80 columns."""
    return [_table(results, _THROUGHPUT, with_ratio=True), _table(results, _COST, with_ratio=False)]


def _table(results: Sequence[WorkloadResult], columns: _Columns, *, with_ratio: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("scheduler")
    for title in (*columns, *(["ratio"] if with_ratio else [])):
        table.add_column(title, justify="right", no_wrap=True)
    for result in results:
        several = max(len(each) for each in result.measurements.values()) > 1
        last = ""
        for name, measurement, ratio in result.rows():
            title = f"{result.workload}" + (f" ({measurement.name})" if several else "")
            if title != last:
                table.add_row(Text(title, style="bold"))
                last = title
            cells = [cell(measurement) for cell in columns.values()]
            table.add_row(
                f"  {name}", *cells, *(["" if ratio is None else f"{ratio:.2f}"] if with_ratio else [])
            )
    return table


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
