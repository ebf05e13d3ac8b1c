"""Runs many simulations on all cores, or on an existing Dask cluster.

In: scenarios by name, and seeds. Out: the outcomes of every scenario, by seed. Runs are independent: the same
seed gives the same outcome.
"""

from __future__ import annotations

import importlib
import itertools
import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from kuberth.errors import ConfigError
from kuberth.simulation.outcomes import Outcome
from kuberth.simulation.running import Report, Scenario, simulate

ScenarioMaker = Callable[[int], Scenario]
"""The scenario for a seed; it must be picklable if runs use several processes."""


Task = tuple[str, int]
"""The name of a variant, and a seed."""


def run_all(
    variants: Mapping[str, ScenarioMaker],
    seeds: Sequence[int],
    *,
    processes: int | None = None,
    dask: str = "",
    on_finished: Callable[[int], None] = lambda _done: None,
) -> dict[str, list[Outcome]]:
    """Run every variant with every seed; `on_finished` gets the number of finished runs.

    `processes` None: one per core. An interrupt (Ctrl-C) ends the runs; the outcomes are then those that are
    `comparable`.
    """
    tasks = [(name, seed) for seed in seeds for name in variants]
    spread = _on_dask(variants, tasks, dask) if dask else _on_cores(variants, tasks, processes)
    done: list[Outcome] = []
    try:
        for outcome in spread:
            done.append(outcome)
            on_finished(len(done))
    except KeyboardInterrupt:
        if not done:
            raise
    return comparable({name: done[index :: len(variants)] for index, name in enumerate(variants)})


def run_in_turn(
    variants: Mapping[str, ScenarioMaker], seeds: Sequence[int], *, report: Report
) -> dict[str, list[Outcome]]:
    """Run every variant with every seed in this thread; `report` gets the number of arrived pods.

    The first SIGINT ends the current run and skips the rest. The outcomes include the interrupted run's
    figures until then.
    """
    outcomes: dict[str, list[Outcome]] = {name: [] for name in variants}
    before = 0
    # All variants of a seed before the next seed, so that an interrupt leaves comparable outcomes.
    for seed, (name, make) in itertools.product(seeds, variants.items()):
        scenario = make(seed)
        outcome = simulate(
            scenario, seed=seed, report=partial(_report_total, report, before), interruptible=True
        )
        outcomes[name].append(outcome)
        before += len(scenario.arrivals)
        if outcome.interrupted:
            break
    return outcomes


def _report_total(report: Report, before: int, arrived: int, seconds: float) -> None:
    report(before + arrived, seconds)


def comparable(outcomes: Mapping[str, Sequence[Outcome]]) -> dict[str, list[Outcome]]:
    """Outcomes with the same seeds for every variant.

    These are the seeds that all variants have finished; if there is none, all outcomes.
    """
    whole = {name: [each for each in runs if not each.interrupted] for name, runs in outcomes.items()}
    seeds = min(map(len, whole.values()))
    if seeds:
        return {name: runs[:seeds] for name, runs in whole.items()}
    return {name: runs for name, runs in whole.items() if runs} or {
        name: list(runs) for name, runs in outcomes.items() if runs
    }


def _simulate_task(variants: Mapping[str, ScenarioMaker], task: Task) -> Outcome:
    name, seed = task
    return simulate(variants[name](seed), seed=seed)


_received: Mapping[str, ScenarioMaker] = {}
"""The variants, in a process of a pool: sent once, not with every task."""


def _start(variants: Mapping[str, ScenarioMaker]) -> None:
    global _received
    _received = variants
    # Ctrl-C reaches all processes of a terminal, and only the first one has to handle it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _simulate_received(task: Task) -> Outcome:
    return _simulate_task(_received, task)


def _on_cores(
    variants: Mapping[str, ScenarioMaker], tasks: Sequence[Task], processes: int | None
) -> Iterator[Outcome]:
    count = min(len(tasks), processes or len(os.sched_getaffinity(0)))
    if count <= 1:
        yield from map(partial(_simulate_task, variants), tasks)
        return
    try:
        pickle.dumps(variants)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"a policy cannot be sent to another process ({error}); define its classes and functions in a "
            "module, or run with processes=1"
        ) from error
    with multiprocessing.get_context("spawn").Pool(count, _start, (variants,)) as pool:
        yield from pool.imap(_simulate_received, tasks)


def _on_dask(variants: Mapping[str, ScenarioMaker], tasks: Sequence[Task], address: str) -> Iterable[Outcome]:
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError as error:
        raise ConfigError("--dask needs Dask: pip install 'kuberth[dask]'") from error
    try:
        client = distributed.Client(address, timeout="10s")
    except (OSError, ValueError, TimeoutError) as error:
        raise ConfigError(f"--dask {address}: the cluster cannot be reached: {error}") from error
    with client:
        sent = client.scatter([variants], broadcast=True)[0]
        futures = [client.submit(_simulate_task, sent, task, pure=False) for task in tasks]
        results: Iterable[Outcome] = client.gather(futures)
        yield from results
