"""Runs `kuberth simulate`.

In: the flags of the command line. Out: tables or JSON on standard output, and files. All input is read and
checked before the first run; files are written at the end.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from kuberth.assembly.profiles import full_registry
from kuberth.bench.drawing import expect_drawable
from kuberth.cli.context import Extras, build_registry, queue_factory
from kuberth.client.http_api import HttpApi
from kuberth.client.identity.kubeconfig import load_client_config
from kuberth.clock import NANOSECONDS, Clock, SystemClock
from kuberth.config.feature_gates import parse_settings
from kuberth.errors import ConfigError
from kuberth.local.hollow.shapes import load_shapes
from kuberth.queue.interface import QueueContext, SchedulingQueue
from kuberth.simulation.arrivals import Arrival
from kuberth.simulation.clusters import (
    ClusterState,
    from_shapes,
    holds_shapes,
    nodes_of,
    read_cluster,
    shape_of,
)
from kuberth.simulation.comparing import Comparison, compare
from kuberth.simulation.experiments import Experiment, FixedWorkload, GeneratedWorkload, Policy, Workload
from kuberth.simulation.fitting import Fitting, expect_pod
from kuberth.simulation.generating import mix_named, shapes_for
from kuberth.simulation.node_policies import Autoscaler, SpotInterruptions
from kuberth.simulation.outcomes import Outcome
from kuberth.simulation.published import alibaba_gpu
from kuberth.simulation.recording import Recording
from kuberth.simulation.reporting import (
    as_csv,
    as_html,
    as_json,
    figure_table,
    single,
    wait_table,
    write_plots,
)
from kuberth.simulation.running import Scenario
from kuberth.simulation.snapshots import take_snapshot, write_atomically
from kuberth.simulation.sweeping import ScenarioMaker, comparable, run_all, run_in_turn
from kuberth.simulation.traces import write_trace
from kuberth.simulation.workloads import read_workload
from kuberth.text.figures import count, duration

LINE_SECONDS: Final = 5.0
BAR_SECONDS: Final = 0.1
"""The minimum time between two lines, and between two updates of a bar."""

Show = Callable[[int, float], None]
"""Called with the number of finished pods or runs, and the virtual time (s) or 0."""


INTERRUPTED_CODE: Final = 130
"""The exit code after an interrupt, as for a process that SIGINT ended."""
NO_CLUSTER: Final = "give a cluster: --cluster FILE or --nodes NUMBER"
Flags = Mapping[str, Any]


@contextmanager
def shown_progress(what: str, total: int) -> Iterator[Show]:
    if not sys.stderr.isatty():
        yield Throttle(partial(_print_line, what, total), LINE_SECONDS, clock=SystemClock()).show
        return
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[time]}"))
    console = Console(stderr=True)
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
        task = progress.add_task(what, total=total or None, time="")

        def show(done: int, seconds: float) -> None:
            progress.update(task, completed=done, time=_simulated(seconds))

        yield Throttle(show, BAR_SECONDS, clock=SystemClock()).show


class Throttle:
    """Passes calls on, unless the last one was less than `seconds` ago."""

    def __init__(self, show: Show, seconds: float, *, clock: Clock) -> None:
        self._show = show
        self._least_ns = seconds * NANOSECONDS
        self._clock = clock
        self._last_ns = clock.now_ns()

    def show(self, done: int, seconds: float) -> None:
        now = self._clock.now_ns()
        if now - self._last_ns >= self._least_ns:
            self._last_ns = now
            self._show(done, seconds)


def _print_line(what: str, total: int, done: int, seconds: float) -> None:
    parts = [f"{done} of {total} {what}"] if total else []
    parts += [_simulated(seconds)] if seconds else []
    click.echo(f"kuberth simulate: {', '.join(parts)}", err=True)


def _simulated(seconds: float) -> str:
    return f"{duration(seconds)} simulated" if seconds else ""


def experiment_of(flags: Flags) -> Experiment:
    """The cluster and the workload of the flags."""
    return Experiment(
        _cluster(flags),
        _workload(flags),
        until=None if flags["until"] is None else flags["until"].total_seconds(),
        controllers=flags["controllers"],
        interruptions=None if flags["spot"] is None else SpotInterruptions(flags["spot"]),
        records=False,
    )


def policy_of(extras: Extras, flags: Flags, name: str, file: Path | None) -> Policy:
    """The policy of a configuration or a file of node shapes; None: that of `--config`."""
    shapes = file is not None and holds_shapes(file)
    registry = build_registry(extras, flags["plugin_references"])
    known = full_registry()
    queue = flags["queue_reference"]
    queue_factory(extras, queue)
    return Policy(
        name,
        config=flags.get("config") if shapes or file is None else file,
        plugins={name: registry[name] for name in registry if name not in known},
        queue=extras.queue if queue is None else partial(_make_queue, extras, queue),
        gates=parse_settings(flags["feature_gates"]),
        nodes=_autoscaler(flags),
        cluster=from_shapes(file, count=flags["nodes"] or 0) if shapes else None,
    )


def _autoscaler(flags: Flags) -> Autoscaler | None:
    if flags["autoscale"] is None:
        return None
    return Autoscaler({} if flags["shape"] is None else shape_of(flags["shape"]), most=flags["autoscale"])


def _make_queue(extras: Extras, reference: str, context: QueueContext) -> SchedulingQueue:
    """Creates the queue of `--queue`, in the process that needs it."""
    factory = queue_factory(extras, reference)
    assert factory is not None
    return factory(context)


def _workload(flags: Flags) -> Workload:
    if flags["generate"] is not None:
        return GeneratedWorkload(flags["generate"], pods=flags["pods"], days=flags["days"])
    return FixedWorkload(read_workload(flags["trace"], format_=flags["trace_format"]))


def _cluster(flags: Flags) -> ClusterState:
    if flags["cluster"] is not None:
        if flags["cluster"].suffix == ".csv":
            return from_shapes(alibaba_gpu.read_nodes(flags["cluster"]), count=0)
        return read_cluster(flags["cluster"])
    if flags["nodes"] is None:
        return ClusterState(())  # every variant has its own
    if flags["generate"] is not None and flags["shape"] is None:
        return from_shapes(shapes_for(mix_named(flags["generate"]), flags["nodes"]), count=0)
    return nodes_of(flags["nodes"], None if flags["shape"] is None else shape_of(flags["shape"]))


def run_simulate(extras: Extras, flags: dict[str, Any]) -> None:
    if flags["fit"] is not None:
        run_fit(extras, flags)
        return
    variants = _variants(extras, flags)
    seeds = range(flags["seed"], flags["seed"] + flags["seeds"])
    # The first scenario of each variant is created before any run: errors are reported at once.
    total = sum(len(make(seeds[0]).arrivals) for make in variants.values()) * len(seeds)
    with shown_progress("pods", total) as show:
        outcomes = run_in_turn(variants, seeds, report=show)
    _report_results(compare(comparable(outcomes)), flags)
    _report_interruption(outcomes, len(seeds))


def _report_interruption(outcomes: Mapping[str, Sequence[Outcome]], seeds: int) -> None:
    """Exit as after an interrupt, and print what is missing, if not all runs were finished."""
    done, wanted = (
        sum(not each.interrupted for runs in outcomes.values() for each in runs),
        len(outcomes) * seeds,
    )
    if done < wanted:
        detail = (
            f"{done} of {wanted} runs were finished" if wanted > 1 else "the figures are of the run so far"
        )
        click.echo(f"kuberth simulate: interrupted: {detail}", err=True)
        raise SystemExit(INTERRUPTED_CODE)


def run_sweep(extras: Extras, flags: dict[str, Any]) -> None:
    variants = _variants(extras, flags)
    seeds = range(flags["seed"], flags["seed"] + flags["seeds"])
    with shown_progress("runs", len(variants) * len(seeds)) as show:
        outcomes = run_all(
            variants,
            seeds,
            processes=flags["processes"],
            dask=flags["dask"],
            on_finished=lambda done: show(done, 0.0),
        )
    _report_results(compare(outcomes), flags)
    _report_interruption({name: outcomes.get(name, ()) for name in variants}, len(seeds))


def run_fit(extras: Extras, flags: dict[str, Any]) -> None:
    if flags["fit_shapes"] is not None and flags["fit_pods"] is None:
        raise click.UsageError("--fit-shapes needs --fit-pods")
    if flags["autoscale"] is not None or flags["spot"] is not None:
        raise click.UsageError("--fit needs a fixed set of nodes: omit --autoscale and --spot")
    if flags["cluster"] is None and flags["nodes"] is None:
        raise click.UsageError(NO_CLUSTER)
    pod = expect_pod(read_workload(flags["fit"]).arrivals)
    # Only the cluster counts, without its workload.
    fitted = {**flags, "trace": flags["fit"], "generate": None}
    scenario = experiment_of(fitted).scenario(policy_of(extras, flags, "fit", None))
    if scenario.managed:
        raise ConfigError(f"{scenario.managed[0]}: --fit runs no controllers; remove it from --cluster")
    shapes = _shapes_to_try(flags, scenario)
    found = Fitting(scenario, pod).answer(wanted=flags["fit_pods"] or 0, shapes=shapes)
    encoded = msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n"
    if flags["output_json"] is not None:
        write_atomically(flags["output_json"], encoded)
    if flags["output"] == "json":
        click.echo(encoded.decode(), nl=False)
        return
    click.echo(f"{found.fits} more of this pod fit on {count(len(scenario.nodes), 'node')}.")
    for reason in found.reasons:
        click.echo(f"  the next one does not: {reason}")
    for each in found.needed:
        what = "no number of nodes is enough" if each.nodes is None else count(each.nodes, "more node")
        pods = count(each.pods_each, "pod")
        click.echo(f"{count(found.wanted, 'pod')}: {what} of shape {each.shape} ({pods} on an empty node)")


def _shapes_to_try(flags: Flags, scenario: Scenario) -> list[dict[str, Any]]:
    if flags["fit_pods"] is None:
        return []
    if flags["fit_shapes"] is not None:
        shapes = load_shapes(flags["fit_shapes"], count=1)
        return [
            {
                "name": each.name,
                "labels": dict(each.labels),
                "taints": list(each.taints),
                "capacity": dict(each.capacity),
            }
            for each in shapes
        ]
    # Each size of the cluster's nodes once.
    sizes: dict[tuple[tuple[str, str], ...], dict[str, Any]] = {}
    for node in scenario.nodes:
        capacity = {name: str(amount) for name, amount in node.status.allocatable.items()}
        key = tuple(sorted(capacity.items()))
        sizes.setdefault(key, {"name": f"as-{node.metadata.name}", "capacity": capacity})
    return list(sizes.values())


def _variants(extras: Extras, flags: dict[str, Any]) -> dict[str, ScenarioMaker]:
    check_flags(flags)
    files: Sequence[Path] = flags["compare"]
    names = [file.stem for file in files]
    if len(set(names)) < len(names):
        names = [str(file) for file in files]
    if len(set(names)) < len(names):
        raise click.UsageError("--compare: a file is given twice")
    policies = [policy_of(extras, flags, name, file) for name, file in zip(names, files, strict=True)]
    return experiment_of(flags).makers(policies or [policy_of(extras, flags, "simulation", None)])


def check_flags(flags: Flags) -> None:
    """UsageError or ConfigError for invalid combinations of flags, before anything runs."""
    if (flags["trace"] is None) == (flags["generate"] is None):
        raise click.UsageError("give a workload: --trace FILE or --generate MIX")
    shapes_compared = bool(flags["compare"]) and all(holds_shapes(file) for file in flags["compare"])
    if flags["cluster"] is None and flags["nodes"] is None and not shapes_compared:
        raise click.UsageError(NO_CLUSTER)
    if flags["shape"] is not None and flags["nodes"] is None:
        raise click.UsageError("--shape needs --nodes NUMBER")
    for name in ("output_json", "output_csv", "report"):
        if flags[name] is not None and not flags[name].resolve().parent.is_dir():
            raise ConfigError(f"{flags[name]}: the folder does not exist")
    if flags["report"] is not None and flags["report"].suffix not in (".html", ".htm"):
        raise click.UsageError("--report: expected a file name that ends with .html")
    if flags["plot"] is not None:
        expect_drawable(flags["plot"])


def write_files(comparison: Comparison, flags: Flags) -> None:
    if flags["output_json"] is not None:
        write_atomically(flags["output_json"], as_json(comparison))
    if flags["output_csv"] is not None:
        write_atomically(flags["output_csv"], as_csv(comparison).encode())
    if flags["report"] is not None:
        write_atomically(flags["report"], as_html(comparison).encode())
    if flags["plot"] is not None:
        write_plots(comparison, flags["plot"])


def _report_results(comparison: Comparison, flags: Flags) -> None:
    write_files(comparison, flags)
    if flags["output"] == "json":
        click.echo(as_json(comparison).decode(), nl=False)
        return
    console = Console()
    console.print(text_table("Figures", *figure_table(comparison)))
    for name in comparison.variants:
        run = comparison.outcomes[name][0]
        console.print(text_table(f"{name}: time until a node was found", *wait_table(run)))
    if len(comparison.variants) == 1 and (reasons := single(comparison).reasons):
        rows = [[each.text, str(each.pods)] for each in reasons]
        console.print(text_table("Why pods were rejected", ["reason", "pods"], rows))


def text_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for number, name in enumerate(header):
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def write_snapshot(_extras: Extras, flags: Flags) -> None:
    file: Path | None = flags["output_file"]
    if file is None and sys.stdout.isatty():
        raise click.UsageError("a snapshot is binary; redirect the output or give --output-file")
    if file is not None and not file.name.endswith(".json.gz"):
        raise click.UsageError("--output-file: expected a file name that ends with .json.gz")
    content = asyncio.run(_snapshot(flags["kubeconfig"], flags["context"]))
    if file is None:
        sys.stdout.buffer.write(content)
    else:
        write_atomically(file, content)


async def _snapshot(kubeconfig: str | None, context: str | None) -> bytes:
    async with HttpApi(load_client_config(kubeconfig=kubeconfig, context=context)) as api:
        return await take_snapshot(api)


def write_recording(_extras: Extras, flags: Flags) -> None:
    file: Path = flags["output_file"]
    if file.suffix != ".jsonl":
        raise click.UsageError("--output-file: expected a file name that ends with .jsonl")
    if not file.resolve().parent.is_dir():
        raise ConfigError(f"{file}: the folder does not exist")
    arrivals = asyncio.run(_record(flags["kubeconfig"], flags["context"], flags["limit"]))
    write_atomically(file, write_trace(arrivals).encode())
    click.echo(f"{count(len(arrivals), 'pod')} recorded in {file}", err=True)


async def _record(kubeconfig: str | None, context: str | None, limit: timedelta | None) -> list[Arrival]:
    loop = asyncio.get_running_loop()
    async with HttpApi(load_client_config(kubeconfig=kubeconfig, context=context)) as api:
        recording = Recording(api, now=loop.time)
        following = asyncio.ensure_future(recording.follow())
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, following.cancel)
        try:
            await asyncio.wait([following], timeout=None if limit is None else limit.total_seconds())
            if following.done() and not following.cancelled():
                following.result()
            return recording.arrivals()
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
