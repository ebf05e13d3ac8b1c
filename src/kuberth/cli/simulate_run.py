"""Runs `kuberth simulate`.

In: the flags of the command line. Out: tables or JSON on standard output, and files. All input is read and
checked before the first run; files are written at the end.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from rich.console import Console
from rich.table import Table

from kuberth.bench.plotting import expect_drawable, write_charts
from kuberth.cli.context import Extras, build_registry, queue_factory
from kuberth.cli.simulate_progress import Show, shown_progress
from kuberth.config import load
from kuberth.config.feature_gates import parse_settings
from kuberth.errors import ConfigError
from kuberth.framework.registry import Registry
from kuberth.local.hollow.shapes import load_shapes
from kuberth.simulation.clusters import ClusterState, from_shapes, read_cluster, shape_of
from kuberth.simulation.comparing import Comparison, compare
from kuberth.simulation.fitting import Fitting, expect_pod
from kuberth.simulation.generating import generate, mix_named, shapes_for
from kuberth.simulation.outcomes import Outcome
from kuberth.simulation.published import alibaba_gpu
from kuberth.simulation.reporting import as_csv, as_html, as_json, charts, figure_table, single, wait_table
from kuberth.simulation.running import Scenario, simulate
from kuberth.simulation.snapshots import write_whole
from kuberth.simulation.sweeping import ScenarioMaker, comparable, run_all
from kuberth.simulation.workloads import Coming, read_workload
from kuberth.text.documents import read_tree
from kuberth.text.field_errors import InvalidConfiguration
from kuberth.text.figures import count

INTERRUPTED_CODE: Final = 130
"""Exit code after an interrupt, as of a process that SIGINT ended."""

Flags = Mapping[str, Any]


@dataclass(frozen=True)
class _ScenarioMaker:
    """Makes the scenario of a seed from flags; small, so that it can be sent to another process."""

    flags: dict[str, Any]
    extras: Extras
    name: str
    variant: Path | None
    cache: dict[str, Any] = field(default_factory=dict, compare=False)

    def __call__(self, seed: int) -> Scenario:
        if "cluster" not in self.cache:
            self.cache["cluster"] = self._cluster()
            self.cache["config"] = self._config()
            if self.flags["generate"] is None:
                self.cache["coming"] = read_workload(self.flags["trace"], format_=self.flags["trace_format"])
        cluster: ClusterState = self.cache["cluster"]
        coming: Coming = self.cache.get("coming") or Coming(self._generated(seed))
        return Scenario(
            nodes=cluster.nodes,
            arrivals=coming.arrivals,
            objects=(*cluster.objects, *coming.objects),
            name=self.name,
            config=self.cache["config"],
            gates=parse_settings(self.flags["feature_gates"]),
            registry=self._registry,
            queue=queue_factory(self.extras, self.flags["queue_reference"]),
            until=self.flags["until"],
            managed=(*cluster.managed, *coming.managed),
            controllers=self.flags["controllers"],
        )

    def _registry(self) -> Registry:
        return build_registry(self.extras, self.flags["plugin_references"])

    def _generated(self, seed: int) -> Sequence[Any]:
        seconds = self.flags["days"] * 86_400
        return generate(
            mix_named(self.flags["generate"]), pods=self.flags["pods"], seconds=seconds, seed=seed
        )

    def _config(self) -> Any:
        file = self.variant if self.variant is not None and not holds_shapes(self.variant) else None
        file = file or self.flags.get("config")
        gates = parse_settings(self.flags["feature_gates"])
        return None if file is None else load(file, feature_gates=gates)

    def _cluster(self) -> ClusterState:
        flags = self.flags
        if self.variant is not None and holds_shapes(self.variant):
            return from_shapes(self.variant, count=flags["nodes"] or 0)
        if flags["cluster"] is not None:
            if flags["cluster"].suffix == ".csv":
                return from_shapes(alibaba_gpu.read_nodes(flags["cluster"]), count=0)
            return read_cluster(flags["cluster"])
        if flags["shape"] is not None:
            return from_shapes([{"name": "node", **shape_of(flags["shape"])}], count=flags["nodes"])
        if flags["generate"] is not None:
            return from_shapes(shapes_for(mix_named(flags["generate"]), flags["nodes"]), count=0)
        return from_shapes(None, count=flags["nodes"])


def holds_shapes(path: Path) -> bool:
    """Whether a file has node shapes instead of a scheduler configuration."""
    try:
        tree, _errors = read_tree(path.read_bytes())
    except (OSError, InvalidConfiguration):
        return False
    return isinstance(tree, list) or (isinstance(tree, dict) and "nodes" in tree and "kind" not in tree)


def run_simulation(extras: Extras, flags: dict[str, Any]) -> None:
    variants = _variants(extras, flags)
    seeds = range(flags["seed"], flags["seed"] + flags["seeds"])
    # The first scenario of each variant is made before any run: errors are reported at once.
    scenarios = {name: make(seeds[0]) for name, make in variants.items()}
    total = sum(len(each.arrivals) for each in scenarios.values()) * len(seeds)
    outcomes: dict[str, list[Any]] = {name: [] for name in variants}
    with shown_progress("pods", total) as show:
        before = 0
        # All variants of a seed before the next seed, so that an interrupt leaves something to compare.
        for seed, (name, make) in itertools.product(seeds, variants.items()):
            scenario = scenarios.pop(name, None) or make(seed)
            report = partial(_show_total, show, before)
            outcome = simulate(scenario, seed=seed, report=report, interruptible=True)
            outcomes[name].append(outcome)
            before += len(scenario.arrivals)
            if outcome.interrupted:
                break
    _report_results(compare(comparable(outcomes)), flags)
    _expect_all(outcomes, len(seeds))


def _show_total(show: Show, before: int, arrived: int, seconds: float) -> None:
    show(before + arrived, seconds)


def _expect_all(outcomes: Mapping[str, Sequence[Outcome]], seeds: int) -> None:
    """Exit as after an interrupt, and say what is missing, if not all runs were finished."""
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
    for make in variants.values():
        make(flags["seed"])
    seeds = range(flags["seed"], flags["seed"] + flags["seeds"])
    # Each process reads the input again: sending it would be slower.
    fresh: dict[str, ScenarioMaker] = {
        name: replace(make, cache={}) for name, make in variants.items() if isinstance(make, _ScenarioMaker)
    }
    with shown_progress("runs", len(variants) * len(seeds)) as show:
        outcomes = run_all(
            fresh,
            seeds,
            processes=flags["processes"],
            dask=flags["dask"],
            on_finished=lambda done: show(done, 0.0),
        )
    _report_results(compare(outcomes), flags)
    _expect_all({name: outcomes.get(name, ()) for name in variants}, len(seeds))


def run_fit(extras: Extras, flags: dict[str, Any]) -> None:
    if flags["fit_shapes"] is not None and flags["fit_pods"] is None:
        raise click.UsageError("--fit-shapes needs --fit-pods")
    pod = expect_pod(read_workload(flags["fit"]).arrivals)
    # Only the cluster counts, without its workload.
    scenario = _ScenarioMaker({**flags, "trace": flags["fit"], "generate": None}, extras, "fit", None)(0)
    if scenario.managed:
        raise ConfigError(f"{scenario.managed[0]}: --fit runs no controllers; remove it from --cluster")
    shapes = _shapes_to_try(flags, scenario)
    found = Fitting(scenario, pod).answer(wanted=flags["fit_pods"] or 0, shapes=shapes)
    encoded = msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n"
    if flags["output_json"] is not None:
        write_whole(flags["output_json"], encoded)
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
    _check(flags)
    files: Sequence[Path] = flags["compare"]
    if not files:
        return {"simulation": _ScenarioMaker(flags, extras, "simulation", None)}
    names = [file.stem for file in files]
    if len(set(names)) < len(names):
        names = [str(file) for file in files]
    if len(set(names)) < len(names):
        raise click.UsageError("--compare: a file is given twice")
    return {name: _ScenarioMaker(flags, extras, name, file) for name, file in zip(names, files, strict=True)}


def _check(flags: Flags) -> None:
    if (flags["trace"] is None) == (flags["generate"] is None):
        raise click.UsageError("give a workload: --trace FILE or --generate MIX")
    shapes_compared = bool(flags["compare"]) and all(holds_shapes(file) for file in flags["compare"])
    if flags["cluster"] is None and flags["nodes"] is None and not shapes_compared:
        raise click.UsageError("give a cluster: --cluster FILE or --nodes NUMBER")
    if flags["shape"] is not None and flags["nodes"] is None:
        raise click.UsageError("--shape needs --nodes NUMBER")
    for name in ("output_json", "output_csv", "report"):
        if flags[name] is not None and not flags[name].resolve().parent.is_dir():
            raise ConfigError(f"{flags[name]}: the folder does not exist")
    if flags["plot"] is not None:
        expect_drawable(flags["plot"])


def _report_results(comparison: Comparison, flags: Flags) -> None:
    encoded = as_json(comparison)
    if flags["output_json"] is not None:
        write_whole(flags["output_json"], encoded)
    if flags["output_csv"] is not None:
        write_whole(flags["output_csv"], as_csv(comparison).encode())
    if flags["report"] is not None:
        write_whole(flags["report"], as_html(comparison, title="Kuberth simulation").encode())
    if flags["plot"] is not None:
        write_charts(flags["plot"], charts(comparison))
    if flags["output"] == "json":
        click.echo(encoded.decode(), nl=False)
        return
    console = Console()
    console.print(_table("Figures", *figure_table(comparison)))
    for name in comparison.variants:
        run = comparison.outcomes[name][0]
        console.print(_table(f"{name}: time until a node was found", *wait_table(run)))
    if len(comparison.variants) == 1 and (reasons := single(comparison).reasons):
        rows = [[each.text, str(each.pods)] for each in reasons]
        console.print(_table("Why pods were rejected", ["reason", "pods"], rows))


def _table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for number, name in enumerate(header):
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table
