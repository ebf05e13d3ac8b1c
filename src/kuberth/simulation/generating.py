"""Workloads out of nothing: arrivals drawn by lot, with the shape of a kind of cluster.

In: a seed, a number of pods, a time and a `Mix`. Out: arrivals, the same for the same seed. Arrivals come at
random times with days and nights, durations are spread widely, as published traces have them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kuberth.errors import ConfigError
from kuberth.simulation.arrivals import Arrival

_DAY: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class DrawnClass:
    """Pods that are alike."""

    weight: float
    requests: Mapping[str, str]
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Mix:
    """A kind of workload."""

    classes: Sequence[DrawnClass]
    mean_seconds: float
    """Of a pod's duration; the median is far below."""
    tenants: int
    shapes: Sequence[Mapping[str, Any]]
    """Nodes that such a workload is run on, in the proportions of their counts."""


_GPU: Final = "nvidia.com/gpu"

MIXES: Final[Mapping[str, Mix]] = {
    "services": Mix(
        classes=(
            DrawnClass(50, {"cpu": "500m", "memory": "1Gi"}, 100),
            DrawnClass(30, {"cpu": "1", "memory": "4Gi"}),
            DrawnClass(15, {"cpu": "2", "memory": "4Gi"}),
            DrawnClass(5, {"cpu": "4", "memory": "16Gi"}, 1000),
        ),
        mean_seconds=4 * 3600.0,
        tenants=8,
        shapes=({"name": "node", "count": 1, "capacity": {"cpu": "8", "memory": "32Gi"}},),
    ),
    "gpu": Mix(
        # In the proportions of a large GPU cluster that was published: most pods want one GPU, or none.
        classes=(
            DrawnClass(18, {"cpu": "6", "memory": "24Gi"}),
            DrawnClass(46, {"cpu": "8", "memory": "32Gi", _GPU: "1"}),
            DrawnClass(12, {"cpu": "12", "memory": "64Gi", _GPU: "2"}),
            DrawnClass(10, {"cpu": "32", "memory": "128Gi", _GPU: "4"}),
            DrawnClass(9, {"cpu": "64", "memory": "320Gi", _GPU: "8"}),
            DrawnClass(5, {"cpu": "4", "memory": "16Gi", _GPU: "1"}, 1000),
        ),
        mean_seconds=6 * 3600.0,
        tenants=12,
        shapes=(
            {"name": "gpu8", "count": 4, "capacity": {"cpu": "96", "memory": "768Gi", _GPU: "8"}},
            {"name": "gpu4", "count": 3, "capacity": {"cpu": "64", "memory": "384Gi", _GPU: "4"}},
            {"name": "gpu2", "count": 2, "capacity": {"cpu": "96", "memory": "384Gi", _GPU: "2"}},
            {"name": "cpu", "count": 1, "capacity": {"cpu": "96", "memory": "384Gi"}},
        ),
    ),
}


def mix_named(name: str) -> Mix:
    if name not in MIXES:
        raise ConfigError(f"there is no workload {name}; there are {', '.join(MIXES)}")
    return MIXES[name]


def generate(mix: Mix, *, pods: int, seconds: float, seed: int) -> list[Arrival]:
    """So many pods within so many seconds."""
    rng = random.Random(f"arrivals {seed}")
    tenants = [f"tenant-{number + 1}" for number in range(mix.tenants)]
    # Few tenants ask for most: each for two thirds of what the one before does.
    shares = [(2 / 3) ** number for number in range(mix.tenants)]
    weights = [each.weight for each in mix.classes]
    spread = 1.5
    location = math.log(mix.mean_seconds) - spread**2 / 2
    longest = 20 * mix.mean_seconds
    arrivals = []
    for _ in range(pods):
        chosen = rng.choices(mix.classes, weights)[0]
        duration = min(max(1.0, rng.lognormvariate(location, spread)), longest)
        arrivals.append(
            Arrival(
                arrival=round(_moment(rng, seconds), 3),
                duration=round(duration, 3),
                tenant=rng.choices(tenants, shares)[0],
                priority=chosen.priority,
                requests=dict(chosen.requests),
            )
        )
    return sorted(arrivals, key=lambda each: each.arrival)


def _moment(rng: random.Random, seconds: float) -> float:
    """More by day than by night, if there are days at all."""
    while True:
        at = rng.random() * seconds
        busy = 1.0 if seconds < _DAY else 0.75 - 0.25 * math.cos(2 * math.pi * at / _DAY)
        if rng.random() < busy:
            return at


def shapes_for(mix: Mix, nodes: int) -> list[dict[str, Any]]:
    """So many nodes in the mix's proportions."""
    whole = sum(int(shape["count"]) for shape in mix.shapes)
    counts = [nodes * int(shape["count"]) // whole for shape in mix.shapes]
    counts[0] += nodes - sum(counts)
    return [{**shape, "count": count} for shape, count in zip(mix.shapes, counts, strict=True) if count]
