"""Runs `kuberth up`, and prints the steps to a ready cluster, then its state.

In: the flags of the command line, and the log. Out: lines, or on a terminal a live summary below the log.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kuberth.cli.context import Extras, build_registry, configuration, notices, queue_factory
from kuberth.cli.rule_reader import RuleReader
from kuberth.clock import run_on_fastest_loop
from kuberth.config import FeatureGates, KubeSchedulerConfiguration, default_configuration
from kuberth.config.feature_gates import parse_settings
from kuberth.framework.registry import Registry
from kuberth.local.manifests import read_manifests
from kuberth.programs.run.watchdog import Watchdog
from kuberth.programs.up.cluster import ClusterSettings, EmbeddedCluster, PageSettings, running_cluster
from kuberth.programs.up.summary import GATED, IN_PERMIT, UNSCHEDULED, Summary
from kuberth.text.figures import printable

TRY_NEXT: Final = """\
Try next, in another terminal:
  kubectl create deployment web --image=nginx --replicas=20
  kuberth explain POD        # why a pod waits, and what would help
  kuberth plugin new NAME    # a scheduling rule of your own"""
_SETTINGS = ("nodes", "remove_nodes", "shapes", "devices", "host", "port", "kubeconfig_out")
"""Flags that are settings of the cluster under the same name."""
_REASONS: Final = 8
_ROWS_BESIDE: Final = 5
"""Rows of the terminal for the summary's head, the line about hidden reasons, and some log lines."""
_ORDER: Final = ("Running", "Pending", UNSCHEDULED, IN_PERMIT, GATED)


def default_data() -> Path:
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "kuberth"


def run(extras: Extras, flags: Mapping[str, Any]) -> None:
    if flags["no_page"] and flags["page_port"] is not None:
        raise click.UsageError("--page-port has no effect with --no-page")
    if flags["remove_nodes"] and flags["nodes"] is None and flags["shapes"] is None:
        raise click.UsageError("--remove-nodes needs --nodes or --shapes to know which nodes stay")
    registry = build_registry(extras, flags["plugin_references"])
    gates = parse_settings(flags["feature_gates"])
    path: Path | None = flags["config_path"]

    def load(text: str | None, plugins: Registry) -> KubeSchedulerConfiguration:
        if text is not None:
            return configuration(text, plugins, gates, name="its config.yaml")
        if path is not None:
            return configuration(path, plugins, gates)
        return default_configuration(FeatureGates(gates))

    wanted = load(None, registry)
    for notice in notices(wanted, registry, references=flags["plugin_references"]):
        click.echo(f"Warning: {notice}", err=True)
    reading = RuleReader(
        extras,
        registry,
        load,
        plugins=flags["plugin_references"],
        queue=flags["queue_reference"],
        path=path,
        reloads_modules=flags["reload_modules"],
    )
    page = None
    if not flags["no_page"]:
        port = flags["page_port"]
        page = PageSettings() if port is None else PageSettings(port, or_any=False)
    settings = ClusterSettings(
        **{name: flags[name] for name in _SETTINGS},
        data=None if flags["memory"] else flags["data"] or default_data(),
        manifests=tuple(manifest for path in flags["filenames"] for manifest in read_manifests(path)),
        config=None if path is None else wanted,
        registry=registry,
        queue=queue_factory(extras, flags["queue_reference"]),
        with_scheduler=not flags["no_scheduler"],
        without=frozenset(flags["without"]),
        feature_gates=dict(FeatureGates(wanted.feature_gates)),
        rules=reading.read,
        rule_sources=reading.sources(),
        page=page,
    )
    run_on_fastest_loop(run_cluster(settings))


async def run_cluster(settings: ClusterSettings) -> None:
    stop = asyncio.Event()
    console = Console()

    def print_line(line: str) -> None:
        console.print(line, highlight=False, markup=False, soft_wrap=True)

    def end(code: int) -> None:
        console.show_cursor(True)
        os._exit(code)

    with _log_through(console), Watchdog(end=end).watching(on_signal=stop.set):
        async with running_cluster(settings, progress=print_line) as cluster:
            print_line(f"Ready. Point kubectl at it:\n  export KUBECONFIG={cluster.kubeconfig_path}")
            if cluster.page_link is not None:
                print_line(
                    f"Watch it in a browser, or with kuberth top:\n  {link_for(cluster.page_link, console)}"
                )
            if settings.data is not None:
                print_line(
                    f"Stored in {settings.data}; Ctrl-C stops it, and the next start continues from there."
                )
            else:
                print_line("Nothing is stored; Ctrl-C stops it.")
            if not (await cluster.summary()).pods:
                print_line(TRY_NEXT)
            if console.is_terminal:
                await _show_live(cluster, console, stop)
            else:
                await _print_changes(cluster, print_line, stop)
            print_line("Stopping.")


def link_for(link: str, console: Console) -> str:
    """The link; with its token only on a terminal, since redirected output is stored and shared."""
    if console.is_terminal:
        return link
    return f"{link.partition('#')[0]}\n  (log in with the token of the user kuberth-admin in the kubeconfig)"


@contextmanager
def _log_through(console: Console) -> Iterator[None]:
    """Print the log through the console while both are on one terminal, so that they do not overlap.

    Warnings are always shown: they concern what the user just did.
    """
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    if console.is_terminal and sys.stderr.isatty():
        through = ConsoleHandler(console)
        through.setFormatter(handlers[0].formatter if handlers else None)
        root.handlers[:] = [through]
    if level > logging.WARNING:
        root.setLevel(logging.WARNING)
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


class ConsoleHandler(logging.Handler):
    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        try:
            # Wrapped here, not by the terminal: the summary below must know the number of rows.
            self._console.print(Text(printable(self.format(record), keep="\n", instead=" "), overflow="fold"))
        except Exception:
            self.handleError(record)


async def _show_live(cluster: EmbeddedCluster, console: Console, stop: asyncio.Event) -> None:
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            summary = await cluster.summary()
            rows = max(1, min(_REASONS, console.height - _ROWS_BESIDE))
            live.update(live_frame(summary, rows=rows), refresh=True)
            if await _wait_stopped(stop, cluster.observer.pause_seconds):
                break
    console.print(summary_table(summary))


async def _print_changes(
    cluster: EmbeddedCluster, print_line: Callable[[str], None], stop: asyncio.Event
) -> None:
    last = None
    while True:
        summary = await cluster.summary()
        if summary != last:
            print_line(summary_line(summary))
            for number, reason in _cut_reasons(summary, _REASONS):
                print_line(f"  {number} {reason}" if number else f"  {reason}")
            last = summary
        if await _wait_stopped(stop, cluster.observer.pause_seconds):
            return


async def _wait_stopped(stop: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return False
    return True


def summary_line(summary: Summary) -> str:
    known = [phase for phase in _ORDER if phase in summary.pods]
    phases = [*known, *sorted(summary.pods.keys() - set(known))]
    pods = ", ".join(f"{summary.pods[phase]} {printable(phase, instead=' ')}" for phase in phases)
    return f"nodes: {summary.nodes}; pods: {pods or 'none'}"


def summary_table(summary: Summary, *, rows: int = _REASONS) -> RenderableType:
    """The summary with at most `rows` reasons, each on one line even on a narrow terminal."""
    # Text from objects may contain brackets, which are not markup.
    head = Text(summary_line(summary))
    if summary.bound_per_second:
        head.append(f"; {summary.bound_per_second:.1f} bound/s")
    if not summary.reasons:
        return head
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="dim")
    table.add_column("pods", justify="right", no_wrap=True)
    # no_wrap is set on the text: rich narrows all columns that set it equally.
    table.add_column("reason")
    for number, reason in _cut_reasons(summary, rows):
        table.add_row(str(number or ""), Text(reason, no_wrap=True, overflow="ellipsis"))
    return Group(head, table)


def live_frame(summary: Summary, *, rows: int) -> RenderableType:
    # The terminal writes ^C at the end of the last row; after a full row it would begin another, which rich
    # does not count. So the last row is empty.
    return Group(summary_table(summary, rows=rows), "")


def _cut_reasons(summary: Summary, rows: int) -> Iterator[tuple[int, str]]:
    """The most frequent reasons with their pods, and the number of pods with other reasons."""
    reasons = sorted(summary.reasons.items(), key=lambda item: (-item[1], item[0]))
    for reason, number in reasons[:rows]:
        yield number, printable(reason, instead=" ")
    if rest := reasons[rows:]:
        others = "another reason" if len(rest) == 1 else f"{len(rest)} other reasons"
        yield 0, f"and {sum(number for _, number in rest)} more for {others}"
