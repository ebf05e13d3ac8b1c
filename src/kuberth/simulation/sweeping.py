"""Runs many simulations on all cores, or on an existing Dask cluster.

In: scenarios by name, and seeds. Out: the outcomes of every scenario, by seed. Runs are independent: the same
seed gives the same outcome.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kuberth.errors import ConfigError
from kuberth.simulation.outcomes import Outcome
from kuberth.simulation.running import Scenario, simulate

ScenarioMaker = Callable[[int], Scenario]
"""The scenario of a seed; it has to be picklable where runs are spread over processes."""


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
    work = [(make, seed) for seed in seeds for make in variants.values()]
    spread = _on_dask(work, dask) if dask else _on_cores(work, processes)
    done: list[Outcome] = []
    try:
        for outcome in spread:
            done.append(outcome)
            on_finished(len(done))
    except KeyboardInterrupt:
        if not done:
            raise
    return comparable({name: done[index :: len(variants)] for index, name in enumerate(variants)})


def comparable(outcomes: Mapping[str, Sequence[Outcome]]) -> dict[str, list[Outcome]]:
    """Outcomes with the same seeds for every variant: those of the first seeds, which all variants finished.

    Before the first seed is finished, the outcomes of the variants that have any.
    """
    whole = {name: [each for each in runs if not each.interrupted] for name, runs in outcomes.items()}
    seeds = min(map(len, whole.values()))
    if seeds:
        return {name: runs[:seeds] for name, runs in whole.items()}
    return {name: runs for name, runs in whole.items() if runs} or {
        name: list(runs) for name, runs in outcomes.items() if runs
    }


def _play(task: tuple[ScenarioMaker, int]) -> Outcome:
    make, seed = task
    return simulate(make(seed), seed=seed)


def _on_cores(work: Sequence[tuple[ScenarioMaker, int]], processes: int | None) -> Iterator[Outcome]:
    count = min(len(work), processes or len(os.sched_getaffinity(0)))
    if count <= 1:
        yield from map(_play, work)
        return
    # Ctrl-C reaches all processes of a terminal, and only this one has to act on it.
    ignore = (signal.SIGINT, signal.SIG_IGN)
    with multiprocessing.get_context("spawn").Pool(count, signal.signal, ignore) as pool:
        yield from pool.imap(_play, work)


def _on_dask(work: Sequence[tuple[ScenarioMaker, int]], address: str) -> Iterable[Outcome]:
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError as error:
        raise ConfigError("--dask needs Dask: pip install 'kuberth[dask]'") from error
    try:
        client = distributed.Client(address, timeout="10s")
    except (OSError, ValueError, TimeoutError) as error:
        raise ConfigError(f"--dask {address}: the cluster cannot be reached: {error}") from error
    with client:
        results: Iterable[Outcome] = client.gather(client.map(_play, work, pure=False))
        yield from results
