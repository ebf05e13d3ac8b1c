"""What a person sees of `kuberth up`: the way to a ready cluster, then how it stands.

In: the settings of a cluster. Out: lines, or on a terminal a table that keeps itself up to date.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kuberth.programs.up.cluster import ClusterSettings, EmbeddedCluster, Summary, running_cluster

SUMMARY_SECONDS = 1.0


async def run_cluster(settings: ClusterSettings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    console = Console()

    def tell(line: str) -> None:
        console.print(line, highlight=False, markup=False, soft_wrap=True)

    async with running_cluster(settings, progress=tell) as cluster:
        tell(f"Ready. Point kubectl at it:\n  export KUBECONFIG={cluster.kubeconfig_path}")
        if settings.data is not None:
            tell(f"Kept in {settings.data}; Ctrl-C ends it, the next start goes on from here.")
        if console.is_terminal:
            await _live(cluster, console, stop)
        else:
            await _lines(cluster, tell, stop)
        tell("Ending.")


async def _live(cluster: EmbeddedCluster, console: Console, stop: asyncio.Event) -> None:
    with Live(summary_table(await cluster.summary()), console=console, auto_refresh=False) as live:
        while not await _stopped(stop):
            live.update(summary_table(await cluster.summary()), refresh=True)


async def _lines(cluster: EmbeddedCluster, tell: Callable[[str], None], stop: asyncio.Event) -> None:
    last = None
    while True:
        summary = await cluster.summary()
        if summary != last:
            tell(_line(summary))
            last = summary
        if await _stopped(stop):
            return


async def _stopped(stop: asyncio.Event) -> bool:
    try:
        await asyncio.wait_for(stop.wait(), SUMMARY_SECONDS)
    except TimeoutError:
        return False
    return True


def _line(summary: Summary) -> str:
    pods = ", ".join(f"{number} {phase}" for phase, number in sorted(summary.pods.items())) or "none"
    return f"nodes: {summary.nodes}; pods: {pods}"


def summary_table(summary: Summary) -> Table:
    # Objects' own words are text, whatever brackets are in them.
    title = Text(_line(summary))
    table = Table(title=title, title_justify="left", show_header=bool(summary.reasons), box=None)
    table.add_column("pods", justify="right")
    table.add_column("wait because")
    for reason, number in sorted(summary.reasons.items(), key=lambda item: -item[1])[:8]:
        table.add_row(str(number), Text(reason))
    return table
