"""`kuberth bench`: measure scheduling throughput, alone or beside other schedulers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kuberth.cli.context import (
    FILE,
    NEW_FILE,
    DurationType,
    Extras,
    default_option,
    feature_gates_option,
    output_option,
    plugin_option,
    queue_option,
)

_TARGETS = ("inproc", "up", "assets")
_PEERS = ("kube-scheduler", "blind")
_ENDINGS = (".yaml", ".yml", ".json")


@click.command(
    short_help="Measure scheduling throughput and cost.",
    epilog="Workloads are written as in Kubernetes' scheduler_perf. Without a name, a small workload runs; "
    "--list shows all of them. docs/bench.md explains the figures.",
)
@click.argument("names", nargs=-1, metavar="[FILE] [CASE[/WORKLOAD]]...")
@click.option("--upstream", is_flag=True, help="Use Kubernetes' own workloads, from Go's module cache.")
@click.option("--list", "only_list", is_flag=True, help="List the workloads without running them.")
@click.option(
    "--label-filter",
    default="",
    metavar="LABELS",
    help="Select workloads by label, e.g. performance,-short.",
)
@default_option(
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
@default_option("--repeat", click.IntRange(1, 100), 1, "Repetitions per workload; the median is shown.")
@default_option("--timeout", DurationType(positive=True), "10m", "Time to wait for pods that stay pending.")
@click.option(
    "--scheduler-config",
    type=FILE,
    help="KubeSchedulerConfiguration for Kuberth, instead of the workload's.",
)
@feature_gates_option
@output_option("table", "json")
@click.option(
    "--plot", type=NEW_FILE, help="Plot throughput and latency over time: .svg, or .png with matplotlib."
)
@click.option("--profile", type=NEW_FILE, help="Draw a flame graph of Kuberth: .svg.")
@click.option("--check-thresholds", is_flag=True, help="Exit with 1 if Kuberth misses a threshold.")
@plugin_option
@queue_option
@click.pass_obj
def bench(extras: Extras | None, /, **flags: Any) -> None:
    """Measure how many pods per second are scheduled and at what cost."""
    names = list(flags.pop("names"))
    is_file = names and (names[0].endswith(_ENDINGS) or Path(names[0]).is_file())
    file = Path(names.pop(0)) if is_file else None
    if file is not None and flags["upstream"]:
        raise click.UsageError("--upstream and FILE are both sources of workloads; give one of them")

    from kuberth.cli.bench_run import list_workloads, run_bench  # heavy: not for --help

    if flags["only_list"]:
        list_workloads(file, names, upstream=flags["upstream"], labels=flags["label_filter"])
    else:
        raise SystemExit(run_bench(extras or Extras(), file, names, flags))
