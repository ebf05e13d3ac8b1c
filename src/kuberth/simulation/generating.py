"""Generates synthetic workloads: random arrivals like those of a kind of cluster.

In: a seed, a number of pods, a duration and a `Mix`. Out: arrivals, the same for the same seed. Arrival times
follow days and nights, and run times vary widely, as in published traces.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kuberth.errors import ConfigError
from kuberth.simulation.arrivals import Arrival
from kuberth.simulation.published.alibaba_gpu import GPU_MILLI, MODEL, PRIORITIES, on_models

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


_GPU: Final = "nvidia.com/gpu"
_SERVES, _IN_BETWEEN, _BEST_EFFORT = PRIORITIES["LS"], PRIORITIES["Burstable"], PRIORITIES["BE"]


def _openb(cpu_milli: int, memory_mib: int, gpu_milli: int = 0) -> dict[str, str]:
    asked = {"cpu": f"{cpu_milli}m", "memory": f"{memory_mib}Mi"}
    return {**asked, GPU_MILLI: str(gpu_milli)} if gpu_milli else asked


def _openb_nodes(count: int, model: str, cpus: int, memory_gib: int, gpus: int) -> dict[str, Any]:
    capacity = {"cpu": str(cpus), "memory": f"{memory_gib}Gi", GPU_MILLI: str(1000 * gpus)}
    name = f"{model.lower()}-{gpus}-{cpus}"
    return {"name": name, "count": count, "capacity": capacity, "labels": {MODEL: model}, "zones": []}


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
        # In the proportions of a large published GPU cluster: most pods request one GPU, or none.
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
    "alibaba-gpu": Mix(
        # The shape of cluster-trace-gpu-v2023, from its description: of 100 pods, 13 request no GPU, 38 a
        # fraction, 48 one, one more than one; a third of those with GPUs require a model; the most frequent
        # sizes. Nodes are its 1,213 with GPUs, with their models and sizes.
        classes=(
            DrawnClass(6.5, _openb(32_000, 49_152), _BEST_EFFORT),
            DrawnClass(4.4, _openb(8_000, 30_517), _BEST_EFFORT),
            DrawnClass(2.4, _openb(15_400, 51_200), _SERVES),
            DrawnClass(9.0, _openb(8_000, 30_517, 470), _BEST_EFFORT),
            DrawnClass(9.0, _openb(4_000, 22_888, 320), _BEST_EFFORT),
            DrawnClass(7.0, _openb(4_000, 15_258, 220), _BEST_EFFORT),
            DrawnClass(4.0, _openb(8_000, 30_517, 650), _BEST_EFFORT, "G2|G3"),
            DrawnClass(8.8, _openb(6_000, 6_144, 460), _SERVES, "T4|P100"),
            DrawnClass(14.0, _openb(15_700, 58_368, 1000), _SERVES),
            DrawnClass(12.0, _openb(11_400, 48_128, 1000), _SERVES, "G2|G3"),
            DrawnClass(11.0, _openb(16_000, 32_768, 1000), _SERVES),
            DrawnClass(7.0, _openb(12_000, 24_576, 1000), _IN_BETWEEN),
            DrawnClass(4.0, _openb(4_000, 24_576, 1000), _SERVES, "V100M16|V100M32"),
            DrawnClass(0.2, _openb(16_200, 66_560, 2000), _SERVES),
            DrawnClass(0.2, _openb(32_200, 132_096, 4000), _SERVES),
            DrawnClass(0.5, _openb(88_000, 327_680, 8000), _IN_BETWEEN),
        ),
        mean_seconds=24 * 3600.0,
        tenants=12,
        shapes=(
            _openb_nodes(549, "G2", 96, 384, 8),
            _openb_nodes(39, "G3", 128, 768, 8),
            _openb_nodes(391, "T4", 104, 512, 2),
            _openb_nodes(15, "T4", 96, 384, 4),
            _openb_nodes(22, "P100", 64, 256, 2),
            _openb_nodes(111, "P100", 16, 120, 2),
            _openb_nodes(7, "V100M16", 64, 256, 8),
            _openb_nodes(30, "V100M16", 32, 128, 4),
            _openb_nodes(19, "V100M16", 8, 32, 1),
            _openb_nodes(22, "V100M32", 96, 768, 8),
            _openb_nodes(8, "V100M32", 48, 368, 4),
        ),
    ),
}


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
