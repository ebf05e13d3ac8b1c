"""`kuberth demo`: a tour of what the scheduler does, on an in-memory cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from kuberth.cli import options

if TYPE_CHECKING:
    from kuberth.programs.up.cluster import EmbeddedCluster

_STYLES: Final = {
    "title": "bold cyan",
    "text": "",
    "command": "bold",
    "result": "green",
    "code": "dim",
}
_PREFIXES: Final = {"title": "\n# ", "command": "$ ", "result": "→ ", "code": "  "}


@click.command(short_help="Show a tour of what the scheduler does.")
@options.with_default("--pause", click.FloatRange(min=0), 15.0, "Seconds between scenes.")
@click.option("--no-page", is_flag=True, help="Do not serve the web page.")
@click.option("--keep", is_flag=True, help="Keep the cluster after the tour, until Ctrl-C.")
def demo(pause: float, no_page: bool, keep: bool) -> None:
    """Show a tour: spread, gates, preemption, a gang, a custom rule, explain.

    An in-memory cluster runs in this process during the tour; nothing is stored.
    """
    import asyncio

    from rich.console import Console

    from kuberth.cli.up_display import link_for
    from kuberth.clock import run_on_fastest_loop
    from kuberth.programs.demo.playing import play

    console = Console()

    def print_line(style: str, line: str) -> None:
        text = _PREFIXES.get(style, "") + line
        console.print(text, style=_STYLES[style], highlight=False, markup=False, soft_wrap=True)

    async def until_interrupted(cluster: EmbeddedCluster) -> None:
        print_line("text", f"The cluster goes on until Ctrl-C: export KUBECONFIG={cluster.kubeconfig_path}")
        await asyncio.Event().wait()

    try:
        run_on_fastest_loop(
            play(
                print_line,
                pause_seconds=pause,
                page=not no_page,
                shown_link=lambda link: link_for(link, console),
                keep=until_interrupted if keep else None,
            )
        )
    except KeyboardInterrupt:
        print_line("text", "\nStopped.")
