"""Computes how many more copies of a pod fit, and how many nodes a number of copies needs.

In: a cluster, a pod, a scheduler configuration. Out: numbers, found by scheduling: the real scheduler places
copies of the pod until one does not fit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from kuberth.api.core import Node, Pod
from kuberth.errors import ConfigError
from kuberth.simulation.arrivals import Arrival
from kuberth.simulation.clusters import from_shapes
from kuberth.simulation.running import Scenario, simulate

MOST_PODS: Final = 200_000
MOST_NODES: Final = 20_000
_FIRST_BATCH: Final = 256


class NodesNeeded(msgspec.Struct, frozen=True):
    """How many nodes of a shape a number of pods needs."""

    shape: str
    nodes: int | None
    """How many more nodes; None if the pod never fits there, or not with the maximum number of nodes tried.
    """
    pods_each: int
    """How many pods fit on one such node."""


class Fit(msgspec.Struct, frozen=True):
    fits: int
    """How many more pods find a node now."""
    reasons: list[str]
    """Why the next one does not."""
    wanted: int
    needed: list[NodesNeeded]
    """Nodes needed for `wanted` pods beyond the free capacity, by node shape."""


class Fitting:
    """Schedules copies of one pod in simulations of a scenario."""

    def __init__(self, scenario: Scenario, pod: Arrival) -> None:
        self._scenario = scenario
        self._pod = msgspec.structs.replace(pod, arrival=0.0, duration=None, name="")

    def answer(self, *, wanted: int = 0, shapes: Sequence[Mapping[str, Any]] = ()) -> Fit:
        fits, reasons = self._count(self._scenario.nodes, most=MOST_PODS)
        needed = [self._needed(shape, wanted) for shape in shapes] if wanted else []
        return Fit(fits, reasons, wanted, needed)

    def _count(self, nodes: Sequence[Node], *, most: int) -> tuple[int, list[str]]:
        """How many of at most `most` copies fit, tried in growing batches."""
        placed_before = sum(
            isinstance(each, Pod) and bool(each.spec.node_name) for each in self._scenario.objects
        )
        batch = min(_FIRST_BATCH, most)
        while True:
            outcome = simulate(replace(self._scenario, nodes=nodes, arrivals=[self._pod] * batch), seed=0)
            # Neither pods that were on nodes at the start, nor those recreated after preemption.
            own = outcome.pods.placed - placed_before - outcome.pods.preempted
            if own < batch or batch == most:
                return own, [each.text for each in outcome.reasons]
            batch = min(4 * batch, most)

    def _needed(self, shape: Mapping[str, Any], wanted: int) -> NodesNeeded:
        name = str(shape.get("name", "node"))
        alone, _ = self._count(_more_nodes(shape, 1), most=wanted)
        fewest, most = 0, 1
        if self._all_fit(shape, 0, wanted):
            return NodesNeeded(name, 0, alone)
        while not self._all_fit(shape, most, wanted):
            fewest, most = most, most * 2
            if most > MOST_NODES or not alone:
                return NodesNeeded(name, None, alone)
        least = bisect_left(
            range(most), True, lo=fewest + 1, key=lambda more: self._all_fit(shape, more, wanted)
        )
        return NodesNeeded(name, least, alone)

    def _all_fit(self, shape: Mapping[str, Any], more: int, wanted: int) -> bool:
        nodes = [*self._scenario.nodes, *_more_nodes(shape, more)]
        return self._count(nodes, most=wanted)[0] >= wanted


def _more_nodes(shape: Mapping[str, Any], count: int) -> Sequence[Node]:
    if not count:
        return ()
    named = {**shape, "name": f"more-{shape.get('name', 'node')}", "count": count}
    return from_shapes([named], count=0).nodes


def expect_pod(arrivals: Sequence[Arrival]) -> Arrival:
    if len(arrivals) != 1:
        raise ConfigError(f"--fit takes one pod, and there are {len(arrivals)} in the file")
    return arrivals[0]
