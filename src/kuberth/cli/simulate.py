"""`kuberth simulate`: run the scheduler on a virtual cluster in virtual time."""

from __future__ import annotations

from typing import Final

import click

from kuberth.cli import options
from kuberth.cli.context import runs

_FORMATS: Final = ("kuberth", "alibaba-gpu-2023", "google-2019")


class _Simulate(click.Group):
    """A group that is also a command, and whose --compare takes all files that follow it."""

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


_pods_option = options.with_default(
    "--pods", click.IntRange(1, 10_000_000), 1000, "Number of pods to generate."
)
_days_option = options.with_default(
    "--days", click.FloatRange(0.0001, 3650), 1.0, "Days over which the generated pods arrive."
)
seed_option = options.with_default("--seed", int, 0, "Seed of the random numbers.")


workload_options = options.group(
    click.option(
        "--cluster",
        type=options.FILE_OR_FOLDER,
        help="Cluster to simulate: manifests, node shapes, a snapshot, or openb_node_list.csv.",
    ),
    click.option("--nodes", type=click.IntRange(1, 100_000), help="Number of nodes to create."),
    click.option("--shape", metavar="RESOURCE=AMOUNT,...", help="Size of the nodes of --nodes."),
    click.option(
        "--trace", type=options.FILE_OR_FOLDER, help="Workload: a trace (.csv, .jsonl) or manifests."
    ),
    options.with_default("--trace-format", click.Choice(_FORMATS), "kuberth", "Format of the trace."),
    click.option(
        "--generate", metavar="MIX", help="Generate a synthetic workload: services, gpu or alibaba-gpu."
    ),
    _pods_option,
    _days_option,
    click.option(
        "--until", type=options.DurationType(positive=True), help="Stop after this virtual time, e.g. 2h."
    ),
    click.option("--controllers", is_flag=True, help="Run controllers even if no manifest needs them."),
    click.option(
        "--autoscale",
        type=click.IntRange(1, 100_000),
        metavar="NODES",
        help="Maximum number of nodes (of --shape) to add for pending pods; empty ones are removed.",
    ),
    click.option(
        "--spot",
        type=click.FloatRange(0, 1440, min_open=True),
        metavar="PER_DAY",
        help="Interruptions per node and day, on average, at random times.",
    ),
    options.feature_gates,
    click.option("--output-json", type=options.NEW_FILE, help="Write the full results as JSON."),
    click.option("--output-csv", type=options.NEW_FILE, help="Write the figures as CSV."),
    click.option("--report", type=options.NEW_FILE, help="Write a report with plots: .html."),
    click.option("--plot", type=options.NEW_FILE, help="Write the plots: .svg, or .png with matplotlib."),
    options.output("table", "json"),
    options.plugin,
    options.queue,
)
"""The cluster, the workload and the output, which all simulations share."""


@click.group(
    cls=_Simulate,
    invoke_without_command=True,
    short_help="Simulate a workload in virtual time.",
    epilog="docs/simulate.md describes the trace formats and the figures.",
)
@workload_options
@click.option(
    "--config",
    type=options.FILE_OR_FOLDER,
    help="KubeSchedulerConfiguration to use.  [default: the default configuration]",
)
@click.option(
    "--compare",
    type=options.FILE_OR_FOLDER,
    multiple=True,
    metavar="FILE...",
    help="Compare these configurations or node shapes on the same workload.",
)
@seed_option
@options.with_default("--seeds", click.IntRange(1, 1000), 1, "Number of runs, with consecutive seeds.")
@click.option(
    "--fit",
    type=options.FILE_OR_FOLDER,
    help="Report how many more of this pod fit: a manifest, or a trace with one line.",
)
@click.option(
    "--fit-pods",
    type=click.IntRange(1, 100_000),
    help="Report how many more nodes this number of pods of --fit needs.",
)
@click.option(
    "--fit-shapes",
    type=options.FILE_OR_FOLDER,
    help="Node shapes for --fit-pods.  [default: those of the cluster]",
)
@runs("kuberth.cli.simulate_run:run_simulate")
def simulate() -> None:
    """Simulate a workload in virtual time with the real scheduler and report the results."""


@simulate.command()
@workload_options
@click.option(
    "--config",
    "compare",
    type=options.FILE_OR_FOLDER,
    multiple=True,
    help="KubeSchedulerConfiguration to run; repeatable.",
)
@seed_option
@options.with_default(
    "--seeds", click.IntRange(1, 1000), 5, "Number of runs per configuration, with consecutive seeds."
)
@options.parallel
@runs("kuberth.cli.simulate_run:run_sweep")
def sweep() -> None:
    """Run several configurations and seeds, on all cores or on Dask."""


@simulate.command()
@options.connection
@click.option(
    "--output-file", type=options.NEW_FILE, help="File to write: .json.gz.  [default: standard output]"
)
@runs("kuberth.cli.simulate_run:write_snapshot")
def snapshot() -> None:
    """Save a snapshot of a real cluster.

    It has the objects that a scheduler reads, without secrets and annotations.
    """


@simulate.command()
@options.connection
@click.option(
    "--for",
    "limit",
    type=options.DurationType(positive=True),
    help="Stop after this time, e.g. 30m.  [default: on Ctrl-C]",
)
@click.option("--output-file", type=options.NEW_FILE, required=True, help="Trace file to write: .jsonl.")
@runs("kuberth.cli.simulate_run:write_recording")
def record() -> None:
    """Record the pods of a real cluster as a trace, read-only."""


@simulate.command()
@click.argument("mix", metavar="MIX")
@_pods_option
@_days_option
@seed_option
def trace(mix: str, pods: int, days: float, seed: int) -> None:
    """Print a generated trace; MIX is services, gpu or alibaba-gpu."""
    from kuberth.simulation.generating import generate, mix_named
    from kuberth.simulation.traces import write_trace

    arrivals = generate(mix_named(mix), pods=pods, seconds=days * 86_400, seed=seed)
    click.echo(write_trace(arrivals), nl=False)
