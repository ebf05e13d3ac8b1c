"""`kuberth tune`: search for a better scheduler configuration for a workload."""

from __future__ import annotations

import click

from kuberth.cli import options
from kuberth.cli.context import runs
from kuberth.cli.simulate import seed_option, workload_options


@click.command(
    short_help="Search for a better configuration for a workload.",
    epilog="docs/tune.md describes the objectives and how a configuration is judged.",
)
@workload_options
@click.option(
    "--config",
    type=options.FILE_OR_FOLDER,
    help="KubeSchedulerConfiguration to start from and compare with.  [default: the default configuration]",
)
@click.option(
    "--objective",
    multiple=True,
    default=("wait-mean",),
    show_default=True,
    metavar="NAME[=WEIGHT]",
    help="Figure to minimize, such as wait-p99, wait-p90@1000 (of a priority), nodes-used, fragmentation "
    "or unfairness; repeatable for a weighted sum.",
)
@click.option(
    "--search",
    multiple=True,
    metavar="PLUGIN.ARG=LOW..HIGH",
    help="Also search a numeric plugin argument, such as InterPodAffinity.hardPodAffinityWeight=0..100; "
    "repeatable.",
)
@options.with_default("--trials", click.IntRange(1, 100_000), 40, "Number of configurations to try.")
@seed_option
@options.with_default(
    "--seeds", click.IntRange(1, 1000), 3, "Number of runs of each configuration in the search."
)
@options.with_default(
    "--unseen-seeds",
    click.IntRange(2, 1000),
    10,
    "Number of runs of the best configurations that the search has not seen.",
)
@options.parallel
@click.option(
    "--state", type=options.NEW_FILE, help="File that saves finished runs, to resume the search after Ctrl-C."
)
@click.option(
    "--output-file",
    type=options.NEW_FILE,
    help="Write the best configuration here (.yaml), and the next best with -2, -3 in the name.",
)
@runs("kuberth.cli.tune_run:run_tune")
def tune() -> None:
    """Search for a configuration that is better than the default for a workload.

    Reports if no configuration is better.
    """
