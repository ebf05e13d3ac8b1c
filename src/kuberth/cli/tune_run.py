"""Runs `kuberth tune`.

In: the flags of the command line. Out: a verdict on standard output, configurations, a page, and the files of
`kuberth simulate` about the unseen runs.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console

from kuberth.cli.context import Extras, build_registry, configuration, notices
from kuberth.cli.simulate_run import (
    INTERRUPTED_CODE,
    check_flags,
    experiment_of,
    policy_of,
    text_table,
    write_files,
)
from kuberth.config.feature_gates import parse_settings
from kuberth.errors import ConfigError
from kuberth.simulation.experiments import Experiment, FixedWorkload
from kuberth.simulation.snapshots import write_atomically
from kuberth.simulation.tuning import Objective, Tuned, Tuning, TuningProgress, split_by_time
from kuberth.simulation.tuning_report import as_yaml, other_changes, report_page, verdict
from kuberth.text.documents import read_tree


def run_tune(extras: Extras, flags: dict[str, Any]) -> None:
    check_flags({**flags, "compare": ()})
    file = flags["output_file"]
    if file is not None and file.suffix not in (".yaml", ".yml"):
        raise click.UsageError("--output-file: expected a file name that ends with .yaml")
    for each in (file, flags["state"]):
        if each is not None and not each.resolve().parent.is_dir():
            raise ConfigError(f"{each}: the folder does not exist")
    experiment, unseen, checked_on = _experiments(flags)
    objective = Objective.parse(flags["objective"])
    policy = policy_of(extras, flags, "base", None)
    policy.loaded()
    tuning = Tuning(
        experiment,
        objective,
        base=_base(flags["config"]),
        policy=policy,
        unseen=unseen,
        trials=flags["trials"],
        seeds=flags["seeds"],
        unseen_seeds=flags["unseen_seeds"],
        seed=flags["seed"],
        search=dict(map(_range, flags["search"])),
    )
    _show_notices(extras, flags)
    try:
        with _terminated_as_interrupted():
            found = tuning.run(
                file=flags["state"],
                processes=flags["processes"],
                dask=flags["dask"],
                on_progress=partial(_show, objective),
            )
    except KeyboardInterrupt:
        click.echo(f"kuberth tune: interrupted: {_how_to_continue(flags['state'])}", err=True)
        raise SystemExit(INTERRUPTED_CODE) from None
    write_files(found.comparison, {**flags, "report": None})
    if flags["report"] is not None:
        write_atomically(flags["report"], report_page(found, objective, checked_on).encode())
    _write_configurations(found, objective, file)
    if flags["output"] == "json":
        shown = {"base": found.base, "candidates": found.candidates}
        click.echo(msgspec.json.format(msgspec.json.encode(shown), indent=1).decode())
        return
    for line in verdict(found, objective, checked_on):
        click.echo(line)
    for each in found.better[:1]:
        rows = list(other_changes(found.comparison, each.name))
        if rows:
            header = ["figure", "default" if flags["config"] is None else "base", each.name]
            Console().print(text_table("What else changes", header, rows))


def _range(text: str) -> tuple[str, tuple[float, float]]:
    """Parse `NAME.argument=LOW..HIGH`."""
    name, _, bounds = text.partition("=")
    low, dots, high = bounds.partition("..")
    try:
        if not dots:
            raise ValueError
        return name, (_number(low), _number(high))
    except ValueError:
        raise click.UsageError(
            f"--search {text}: expected PLUGIN.ARGUMENT=LOW..HIGH, such as "
            "InterPodAffinity.hardPodAffinityWeight=0..100"
        ) from None


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return int(text) if text.lstrip("+-").isdecimal() else number


def _show_notices(extras: Extras, flags: Mapping[str, Any]) -> None:
    registry = build_registry(extras, flags["plugin_references"])
    config = configuration(flags["config"], registry, parse_settings(flags["feature_gates"]))
    for notice in notices(config, registry, references=flags["plugin_references"]):
        click.echo(f"kuberth tune: {notice}", err=True)


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM end a search like Ctrl-C, so that its processes end with it."""
    before = signal.signal(signal.SIGTERM, lambda _number, _frame: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _show(objective: Objective, progress: TuningProgress) -> None:
    best = f"best difference so far {objective.shown(progress.best)}"
    best = best if progress.best else "nothing better so far"
    click.echo(f"kuberth tune: {progress.tried} of {progress.trials} configurations, {best}", err=True)


def _how_to_continue(state: Path | None) -> str:
    if state is None:
        return "nothing is kept without --state"
    return f"the same command continues from {state}"


def _base(file: Path | None) -> Mapping[str, Any]:
    """The tree of a file that was already read and validated."""
    if file is None:
        return {}
    tree, _errors = read_tree(file.read_bytes())
    assert isinstance(tree, dict)
    return tree


def _experiments(flags: Mapping[str, Any]) -> tuple[Experiment, Experiment | None, str]:
    """The experiment to search, the one to check with (None: the same), and a description of the latter."""
    experiment = experiment_of(flags)
    if flags["generate"] is not None:
        return experiment, None, "generated workloads that the search has not seen"
    parts = split_by_time(experiment.workload(flags["seed"]))
    if parts is None:
        return experiment, None, "the same workload with other seeds, because it cannot be divided by time"
    early, late = (replace(experiment, workload=FixedWorkload(each)) for each in parts)
    return early, late, "the second half of the trace, which the search has not seen"


def _write_configurations(found: Tuned, objective: Objective, file: Path | None) -> None:
    if file is None:
        return
    for number, each in enumerate(found.better, 1):
        named = file if number == 1 else file.with_stem(f"{file.stem}-{number}")
        write_atomically(named, as_yaml(each, objective).encode())
