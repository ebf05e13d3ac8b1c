"""`kuberth simulate`: what would happen if, in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from kuberth.cli.context import Extras, plugin_option, queue_option

_FILE: Final = click.Path(exists=True, path_type=Path)
_OUT: Final = click.Path(dir_okay=False, path_type=Path)
_FORMATS: Final = ("kuberth", "alibaba-gpu-2023", "google-2019")


class _Simulate(click.Group):
    """A group that is a command too, and whose --compare takes as many files as follow it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(_spread(args, "--compare", set(self.commands))))


def _spread(args: list[str], option: str, commands: set[str]) -> list[str]:
    """`--compare A B` as `--compare A --compare B`."""
    spread: list[str] = []
    taking = False
    for each in args:
        if each.startswith("-") or each in commands:
            taking = each == option
            spread += [] if taking else [each]
        elif taking:
            spread += [option, each]
        else:
            spread.append(each)
    return spread


def _workload_options(command: Any) -> Any:
    """What a cluster and a workload are given by; all commands that run share them."""
    for option in reversed(
        (
            click.option(
                "--cluster", type=_FILE, help="Nodes: manifests, shapes, a snapshot, or openb_node_list.csv."
            ),
            click.option("--nodes", type=click.IntRange(1, 100_000), help="Make so many nodes."),
            click.option("--shape", metavar="RESOURCE=AMOUNT,...", help="Of this size, with --nodes."),
            click.option("--trace", type=_FILE, help="Pods: a trace (.csv, .jsonl) or manifests."),
            click.option("--trace-format", type=click.Choice(_FORMATS), default="kuberth", show_default=True),
            click.option(
                "--generate", metavar="MIX", help="Draw pods by lot instead: services, gpu or alibaba-gpu."
            ),
            click.option("--pods", type=click.IntRange(1, 10_000_000), default=1000, show_default=True),
            click.option("--days", type=click.FloatRange(0.0001, 3650), default=1.0, show_default=True),
            click.option("--until", type=click.FloatRange(0.001), help="Stop after so many virtual seconds."),
            click.option(
                "--controllers", is_flag=True, help="Run controllers though no manifest asks for any."
            ),
            click.option("--feature-gates", default="", metavar="A=true,B=false"),
            click.option("--output-json", type=_OUT, help="Write everything as JSON."),
            click.option("--output-csv", type=_OUT, help="Write the figures as CSV."),
            click.option("--report", type=_OUT, help="Write a page with plots: .html."),
            click.option("--plot", type=_OUT, help="Write the plots: .svg, or .png with matplotlib."),
            click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table"),
            plugin_option,
            queue_option,
        )
    ):
        command = option(command)
    return command


@click.group(
    cls=_Simulate,
    invoke_without_command=True,
    epilog="docs/simulate.md has the formats of traces, and what the figures mean.",
)
@_workload_options
@click.option("--config", type=_FILE, help="A KubeSchedulerConfiguration.  [default: the defaults]")
@click.option(
    "--compare",
    type=_FILE,
    multiple=True,
    metavar="FILE...",
    help="Run these configurations or node shapes over the same arrivals.",
)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--seeds", type=click.IntRange(1, 1000), default=1, help="Run with so many, from --seed on.")
@click.option("--fit", type=_FILE, help="How many more of this pod fit? A manifest or a trace of one line.")
@click.option("--fit-pods", type=click.IntRange(1, 100_000), help="How many nodes would so many of it need?")
@click.option("--fit-shapes", type=_FILE, help="Of these shapes.  [default: that of the cluster's nodes]")
@click.pass_context
def simulate(ctx: click.Context, /, **flags: Any) -> None:
    """Play a workload on a cluster in virtual time, with the very scheduler, and tell how it went."""
    if ctx.invoked_subcommand is not None:
        return
    from kuberth.cli.simulate_run import run_fit, run_simulation  # heavy: not for --help

    extras = ctx.obj or Extras()
    if flags["fit"] is not None:
        run_fit(extras, flags)
    else:
        run_simulation(extras, flags)


@simulate.command()
@_workload_options
@click.option("--config", "compare", type=_FILE, multiple=True, help="A configuration; repeatable.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--seeds", type=click.IntRange(1, 1000), default=5, show_default=True)
@click.option("--processes", type=click.IntRange(1, 4096), help="[default: one for each core]")
@click.option("--dask", default="", metavar="ADDRESS", help="Run on this Dask cluster instead.")
@click.pass_context
def sweep(ctx: click.Context, /, **flags: Any) -> None:
    """Run a grid of configurations and seeds, on all cores or on a Dask cluster."""
    from kuberth.cli.simulate_run import run_sweep

    run_sweep(ctx.obj or Extras(), flags)


@simulate.command()
@click.option("--kubeconfig", metavar="FILE", help="[default: as kubectl finds it]")
@click.option("--context", metavar="NAME")
@click.option("--output-file", type=_OUT, help="[default: standard output]")
def snapshot(kubeconfig: str | None, context: str | None, output_file: Path | None) -> None:
    """Write what the scheduler of a real cluster sees, gzipped; secrets and annotations are left out."""
    from kuberth.cli.simulate_real import write_snapshot

    write_snapshot(kubeconfig, context, output_file)


@simulate.command()
@click.option("--kubeconfig", metavar="FILE", help="[default: as kubectl finds it]")
@click.option("--context", metavar="NAME")
@click.option("--seconds", type=click.FloatRange(0.1), help="Stop after so long.  [default: on Ctrl-C]")
@click.option("--output-file", type=_OUT, required=True, help="The trace: .jsonl.")
def record(kubeconfig: str | None, context: str | None, seconds: float | None, output_file: Path) -> None:
    """Follow the pods of a real cluster, read-only, and write them as a trace."""
    from kuberth.cli.simulate_real import write_recording

    write_recording(kubeconfig, context, seconds, output_file)


@simulate.command()
@click.argument("mix", metavar="MIX")
@click.option("--pods", type=click.IntRange(1, 10_000_000), default=1000, show_default=True)
@click.option("--days", type=click.FloatRange(0.0001, 3650), default=1.0, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
def trace(mix: str, pods: int, days: float, seed: int) -> None:
    """Print a trace drawn by lot: services, gpu or alibaba-gpu."""
    from kuberth.simulation.generating import generate, mix_named
    from kuberth.simulation.traces import write_trace

    arrivals = generate(mix_named(mix), pods=pods, seconds=days * 86_400, seed=seed)
    click.echo(write_trace(arrivals), nl=False)
