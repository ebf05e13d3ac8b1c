"""Compares several configurations on the same workload.

In: the outcomes of each variant, one run per seed. Out: the mean and spread of each figure over seeds, and
the difference to the first variant, seed by seed.
"""

from __future__ import annotations

import enum
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from kuberth.simulation.outcomes import Outcome, rounded


class Unit(enum.StrEnum):
    """What a figure is measured in."""

    COUNT = "count"
    SECONDS = "seconds"
    SHARE = "share"


FIGURES: Final[Mapping[str, Callable[[Outcome], float]]] = {
    "pods placed": lambda each: each.pods.placed,
    "pods still waiting": lambda each: each.pods.waiting,
    "wait mean (s)": lambda each: each.waits.mean,
    "wait p50 (s)": lambda each: each.waits.p50,
    "wait p90 (s)": lambda each: each.waits.p90,
    "wait p99 (s)": lambda each: each.waits.p99,
    "preempted": lambda each: each.pods.preempted,
    "attempts wasted": lambda each: each.attempts_wasted,
    "fragmentation": lambda each: each.fragmentation,
    "fairness": lambda each: each.fairness,
    "last arrival after (s)": lambda each: each.arrival_seconds,
    "done after (s)": lambda each: each.seconds,
}


def unit_of(figure: str) -> Unit:
    if figure.endswith("(s)"):
        return Unit.SECONDS
    return Unit.COUNT if figure.startswith(("pods", "preempted")) else Unit.SHARE


class Figure(msgspec.Struct, frozen=True):
    """One figure of one variant."""

    name: str
    variant: str
    mean: float
    spread: float
    """Standard deviation over seeds; 0 with a single one."""
    difference: float
    """Mean of the differences to the first variant with the same seed."""
    difference_spread: float


class Comparison(msgspec.Struct, frozen=True):
    variants: list[str]
    seeds: list[int]
    figures: list[Figure]
    outcomes: dict[str, list[Outcome]]


def compare(outcomes: Mapping[str, Sequence[Outcome]]) -> Comparison:
    """Compare variants that ran with the same seeds, in the same order."""
    variants = list(outcomes)
    first = outcomes[variants[0]]
    resources = sorted({name for runs in outcomes.values() for name in runs[0].utilisation})
    measures = dict(FIGURES)
    for resource in resources:
        measures[f"utilisation {resource}"] = _utilisation(resource)
        if any(each.drain_utilisation for runs in outcomes.values() for each in runs):
            measures[f"utilisation {resource} (drain)"] = _drain_utilisation(resource)
    figures = []
    for name, measure in measures.items():
        base = [measure(each) for each in first]
        for variant in variants:
            values = [measure(each) for each in outcomes[variant]]
            differences = [value - other for value, other in zip(values, base, strict=True)]
            figures.append(
                Figure(
                    name,
                    variant,
                    rounded(statistics.fmean(values)),
                    _spread(values),
                    rounded(statistics.fmean(differences)),
                    _spread(differences),
                )
            )
    return Comparison(
        variants,
        [each.seed for each in first],
        figures,
        {name: list(runs) for name, runs in outcomes.items()},
    )


def _utilisation(resource: str) -> Callable[[Outcome], float]:
    return lambda each: each.utilisation.get(resource, 0.0)


def _drain_utilisation(resource: str) -> Callable[[Outcome], float]:
    return lambda each: each.drain_utilisation.get(resource, 0.0)


def _spread(values: Sequence[float]) -> float:
    return rounded(statistics.stdev(values)) if len(values) > 1 else 0.0
