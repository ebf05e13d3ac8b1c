"""The figures of a simulated run, identical for the same seed.

Times are virtual, in seconds after the beginning; nothing depends on the speed of the machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec

VERSION: Final = "kuberth.dev/simulation/v1"


class Waits(msgspec.Struct, frozen=True):
    """How long pods waited for a node, in seconds.

    A pod without a node counts with its wait so far, so with such pods all figures are lower bounds.
    """

    pods: int
    """Pods that got a node."""
    mean: float
    p50: float
    p90: float
    p99: float
    longest: float
    still_waiting: int
    """Pods without a node when the run ended."""


class Sample(msgspec.Struct, frozen=True):
    """The cluster at one moment."""

    at: float
    utilisation: dict[str, float]
    """Share of each resource that is taken."""
    fragmentation: float
    """Share of the free capacity that is on nodes where the workload's pods do not fit."""
    fairness: float
    """Jain's index over tenants' dominant shares: 1 is even, 1/n is all for one of n."""
    running: int
    waiting: int


class Attempts(msgspec.Struct, frozen=True):
    scheduled: int
    unschedulable: int
    error: int

    @property
    def wasted(self) -> float:
        total = self.scheduled + self.unschedulable + self.error
        return (total - self.scheduled) / total if total else 0.0


class PodCounts(msgspec.Struct, frozen=True):
    arrived: int
    placed: int
    finished: int
    preempted: int
    """Pods that had to leave for others; each is made again, as its controller would."""
    waiting: int


class Reason(msgspec.Struct, frozen=True):
    text: str
    pods: int
    """How many pods had this reason; a pod counts again after six minutes."""


class Outcome(msgspec.Struct, frozen=True):
    """One run."""

    version: str
    name: str
    seed: int
    nodes: int
    seconds: float
    """Time from the start to the last change."""
    pods: PodCounts
    waits: Waits
    waits_by_priority: dict[str, Waits]
    waits_by_tenant: dict[str, Waits]
    utilisation: dict[str, float]
    """Mean until the last arrival, by resource."""
    drain_utilisation: dict[str, float]
    """Mean from the last arrival to the end, by resource; empty if the run ends with an arrival."""
    arrival_seconds: float
    """Time of the last arrival; of the end, if everything arrives at the start."""
    fragmentation: float
    fairness: float
    attempts: Attempts
    attempts_wasted: float
    reasons: list[Reason]
    samples: list[Sample]
    interrupted: bool = False
    """The run was stopped before its end: the figures are of the time until then."""


def waits(seconds: Sequence[float], *, still_waiting: Sequence[float] = ()) -> Waits:
    """Of pods with a node their waits, and of pods that still wait their waits so far."""
    ordered = sorted((*seconds, *still_waiting))
    if not ordered:
        return Waits(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0)
    return Waits(
        len(seconds),
        rounded(math.fsum(ordered) / len(ordered)),
        rounded(_percentile(ordered, 50)),
        rounded(_percentile(ordered, 90)),
        rounded(_percentile(ordered, 99)),
        rounded(ordered[-1]),
        len(still_waiting),
    )


def _percentile(ordered: Sequence[float], percent: int) -> float:
    """The nearest rank."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def rounded(number: float) -> float:
    """To a millionth: sums of floats differ in their last bits between machines."""
    return round(number, 6) + 0.0
