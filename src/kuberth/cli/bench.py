"""`kuberth bench`: how fast, and beside whom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kuberth.cli.context import Extras, plugin_option, queue_option

_TARGETS = ("inproc", "up", "assets")
_PEERS = ("kube-scheduler", "blind")
_ENDINGS = (".yaml", ".yml", ".json")


@click.command(
    epilog="Workloads are written as in Kubernetes' scheduler_perf. Without a name a small one runs; --list "
    "shows all. docs/bench.md says what the figures mean."
)
@click.argument("names", nargs=-1, metavar="[FILE] [CASE[/WORKLOAD]]...")
@click.option("--upstream", is_flag=True, help="Kubernetes' own workloads, from Go's module cache.")
@click.option("--list", "only_list", is_flag=True, help="Show the workloads and run none.")
@click.option(
    "--label-filter",
    default="",
    metavar="LABELS",
    help="Only workloads with these labels, e.g. performance,-short.",
)
@click.option(
    "--target",
    type=click.Choice(_TARGETS),
    default="inproc",
    show_default=True,
    help="Embedded server in this process; embedded server over HTTPS; real etcd and kube-apiserver.",
)
@click.option(
    "--peer", "peers", type=click.Choice(_PEERS), multiple=True, help="Compare with it; repeatable."
)
@click.option(
    "--assets",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where etcd, kube-apiserver and kube-scheduler are.  [default: where `make envtest` puts them]",
)
@click.option("--repeat", type=click.IntRange(1, 100), default=1, help="Run each so often; show medians.")
@click.option("--timeout", default="10m", show_default=True, help="When to give up pods that stay pending.")
@click.option(
    "--scheduler-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A KubeSchedulerConfiguration for Kuberth, in place of the workload's.",
)
@click.option("--feature-gates", default="", metavar="A=true,B=false", help="Over the workload's, for all.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw throughput and latency over time: .svg, or .png with matplotlib.",
)
@click.option(
    "--profile", type=click.Path(dir_okay=False, path_type=Path), help="Draw a flame graph of Kuberth: .svg."
)
@click.option("--check-thresholds", is_flag=True, help="Exit with 1 if Kuberth misses a threshold.")
@plugin_option
@queue_option
@click.pass_obj
def bench(extras: Extras | None, /, **flags: Any) -> None:
    """Measure how many pods a second are scheduled, at which cost, and how others do."""
    names = list(flags.pop("names"))
    file = Path(names.pop(0)) if names and _is_file(names[0]) else None
    if file is not None and flags["upstream"]:
        raise click.UsageError("--upstream and a file are two sources of workloads; name one")

    from kuberth.cli.bench_run import list_workloads, run_bench  # heavy: not for --help

    if flags["only_list"]:
        list_workloads(file, names, upstream=flags["upstream"], labels=flags["label_filter"])
    else:
        raise SystemExit(run_bench(extras or Extras(), file, names, flags))


def _is_file(name: str) -> bool:
    return name.endswith(_ENDINGS) or Path(name).is_file()
