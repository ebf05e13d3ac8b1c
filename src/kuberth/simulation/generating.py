"""Generates synthetic workloads: random arrivals like those of a kind of cluster.

In: a seed, a number of pods, a duration and a `Mix`: a custom one, or one of mixes.yaml. Out: arrivals, the
same for the same seed. Arrival times follow days and nights, and run times vary widely, as in published
traces.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from kuberth.errors import ConfigError
from kuberth.simulation.arrivals import Arrival
from kuberth.simulation.published.alibaba_gpu import on_models
from kuberth.text.documents import read_file

_DAY: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class DrawnClass:
    """Pods with equal properties."""

    weight: float
    requests: Mapping[str, str]
    priority: int = 0
    models: str = ""
    """The GPU models that they require, separated by bars; empty: any."""


@dataclass(frozen=True, slots=True)
class Mix:
    """A kind of workload."""

    classes: Sequence[DrawnClass]
    mean_seconds: float
    """The mean run time of a pod; the median is far below."""
    tenants: int
    shapes: Sequence[Mapping[str, Any]]
    """Nodes for such a workload, in the proportions of their counts."""


MIXES: Final = msgspec.convert(
    read_file(Path(__file__).parent / "mixes.yaml", "the mixes of pods"), dict[str, Mix]
)


def mix_named(name: str) -> Mix:
    if name not in MIXES:
        raise ConfigError(f"there is no workload {name}; there are {', '.join(MIXES)}")
    return MIXES[name]


def generate(mix: Mix, *, pods: int, seconds: float, seed: int) -> list[Arrival]:
    """Generate this number of pods, arriving within `seconds`."""
    rng = random.Random(f"arrivals {seed}")
    tenants = [f"tenant-{number + 1}" for number in range(mix.tenants)]
    # Few tenants create most pods: each tenant two thirds as many as the previous one.
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
                affinity=on_models(chosen.models),
            )
        )
    return sorted(arrivals, key=lambda each: each.arrival)


def _moment(rng: random.Random, seconds: float) -> float:
    """More by day than by night, if the time covers days."""
    while True:
        at = rng.random() * seconds
        busy = 1.0 if seconds < _DAY else 0.75 - 0.25 * math.cos(2 * math.pi * at / _DAY)
        if rng.random() < busy:
            return at


def shapes_for(mix: Mix, nodes: int) -> list[dict[str, Any]]:
    """Return shapes for `nodes` nodes in the mix's proportions."""
    whole = sum(int(shape["count"]) for shape in mix.shapes)
    counts = [nodes * int(shape["count"]) // whole for shape in mix.shapes]
    counts[0] += nodes - sum(counts)
    return [{**shape, "count": count} for shape, count in zip(mix.shapes, counts, strict=True) if count]
