"""`kuberth bench`: measure scheduling throughput, alone or beside other schedulers."""

from __future__ import annotations

from pathlib import Path

import click

from kuberth.cli import options
from kuberth.cli.context import runs

_TARGETS = ("inproc", "up", "assets")
_PEERS = ("kube-scheduler", "blind")


@click.command(
    short_help="Measure scheduling throughput and cost.",
    epilog="Workloads are written as in Kubernetes' scheduler_perf. Without a name, a small workload runs; "
    "--list shows all of them. docs/bench.md explains the figures.",
)
@click.argument("names", nargs=-1, metavar="[FILE] [CASE[/WORKLOAD]]...")
@click.option("--upstream", is_flag=True, help="Use Kubernetes' own workloads, from Go's module cache.")
@click.option("--list", "only_list", is_flag=True, help="List the workloads without running them.")
@click.option(
    "--label-filter", default="", metavar="LABELS", help="Select workloads by label, e.g. performance,-short."
)
@options.with_default(
    "--target",
    click.Choice(_TARGETS),
    "inproc",
    "API server to use: embedded in this process, embedded over HTTPS, or a real kube-apiserver.",
)
@click.option(
    "--peer", "peers", type=click.Choice(_PEERS), multiple=True, help="Scheduler to compare with; repeatable."
)
@click.option(
    "--assets",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with etcd, kube-apiserver and kube-scheduler.  [default: that of `make envtest`]",
)
@options.with_default("--repeat", click.IntRange(1, 100), 1, "Repetitions per workload; the median is shown.")
@options.with_default(
    "--timeout", options.DurationType(positive=True), "10m", "Time to wait for pods that stay pending."
)
@click.option(
    "--scheduler-config",
    type=options.FILE,
    help="KubeSchedulerConfiguration for Kuberth, instead of the workload's.",
)
@options.feature_gates
@options.output("table", "json")
@click.option(
    "--plot",
    type=options.NEW_FILE,
    help="Plot throughput and latency over time: .svg, or .png with matplotlib.",
)
@click.option("--profile", type=options.NEW_FILE, help="Draw a flame graph of Kuberth: .svg.")
@click.option("--check-thresholds", is_flag=True, help="Exit with 1 if Kuberth misses a threshold.")
@options.plugin
@options.queue
@runs("kuberth.cli.bench_run:run")
def bench() -> None:
    """Measure how many pods per second are scheduled and at what cost."""
