"""Runs `kuberth bench`.

In: the flags of the command line. Out: a table or JSON on standard output, files with plots, an exit code.
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec

import kuberth
from kuberth.bench.arenas import IN_PROCESS
from kuberth.bench.cases import Workload
from kuberth.bench.contenders import (
    BLIND,
    KUBE_SCHEDULER,
    BlindBinder,
    Contender,
    KubeScheduler,
    OwnScheduler,
)
from kuberth.bench.drawing import flame_svg
from kuberth.bench.executor import Pace
from kuberth.bench.finding import of_file, select, shipped, upstream
from kuberth.bench.plotting import expect_drawable, write_plot
from kuberth.bench.profiling import read_folded
from kuberth.bench.running import BenchSettings, WorkloadResult, run_workload
from kuberth.cli.bench_display import Display
from kuberth.cli.context import Extras, build_registry, queue_factory
from kuberth.cli.event_loops import run_on_fastest_loop
from kuberth.config.feature_gates import parse_settings
from kuberth.errors import ConfigError, KuberthError

DEFAULT_WORKLOAD = "Quick"


def list_workloads(file: Path | None, names: Sequence[str], *, upstream: bool, labels: str) -> None:
    for workload in _chosen(file, names or [""], from_upstream=upstream, labels=labels):
        notes = [", ".join(sorted(workload.labels))] if workload.labels else []
        if workload.threshold:
            notes.append(f"threshold {workload.threshold:g}")
        if refusal := workload.refusal():
            notes.append(f"cannot run: {refusal}")
        click.echo(f"{workload}  [{'; '.join(notes)}]" if notes else str(workload))


_AGAIN_SECONDS: Final = 5.0


def run_bench(extras: Extras, file: Path | None, names: Sequence[str], flags: Mapping[str, Any]) -> int:
    workloads = _chosen(
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
        # A workload that cannot run is reported before hours are spent on the others.
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
            if results:  # hours may have gone into them
                _report(results, display, flags)
            raise click.Abort from None  # SIGTERM is reported like Ctrl-C
        if folded is not None:
            names_of_all = ", ".join(str(workload) for workload in workloads)
            flags["profile"].write_text(
                flame_svg(read_folded(folded), title=f"Kuberth, {names_of_all}"), encoding="utf-8"
            )
    if flags["plot"] is not None:
        write_plot(flags["plot"], results)
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


def _chosen(
    file: Path | None, names: Sequence[str], *, from_upstream: bool, labels: str
) -> Sequence[Workload]:
    known = of_file(file) if file is not None else upstream() if from_upstream else shipped()
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


def _contenders(extras: Extras, flags: Mapping[str, Any], folded: Path | None) -> Sequence[Contender]:
    if flags["peers"] and flags["target"] == IN_PROCESS:
        raise ConfigError(
            f"--peer {flags['peers'][0]} is a separate program and needs an API server: "
            "add --target up or --target assets"
        )
    peers: Mapping[str, Contender] = {KUBE_SCHEDULER: KubeScheduler(flags["assets"]), BLIND: BlindBinder()}
    own = OwnScheduler(
        build_registry(extras, flags["plugin_references"]),
        queue_factory(extras, flags["queue_reference"]),
        config=flags["scheduler_config"],
        plugin_references=flags["plugin_references"],
        queue_reference=flags["queue_reference"],
        by_code=tuple(extras.plugins),
        profile=folded,
    )
    return [own, *(peers[name] for name in dict.fromkeys(flags["peers"]))]


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
    contenders: Sequence[Contender],
    settings: BenchSettings,
    display: Display,
    results: list[WorkloadResult],
) -> int:
    """Append to `results`; returns how many workloads failed. A failure does not end the others."""
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()

    def stop() -> None:
        """Cancel the run, which ends what it started."""
        task.cancel()
        # An await that ends in the same moment may lose a cancellation (asyncio.wait_for does).
        loop.call_later(_AGAIN_SECONDS, stop)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    with display:
        for workload in workloads:
            try:
                results.append(await run_workload(workload, contenders, settings, display.update))
            except (KuberthError, ExceptionGroup) as error:
                if len(workloads) == 1:
                    raise
                display.failed(_first(error))
            else:
                display.finished(results[-1])
    return len(workloads) - len(results)


def _first(error: BaseException) -> KuberthError:
    """The first KuberthError in a group; any other error is a bug and is raised."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if not isinstance(error, KuberthError):
        raise error
    return error
