"""NodeResourcesBalancedAllocation: prefers nodes whose resources the pod makes more evenly used."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from kuberth.api.core import Pod
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.config.plugin_args import NodeResourcesBalancedAllocationArgs
from kuberth.errors import QuantityError
from kuberth.framework.cycle_state import CycleState, StateKey
from kuberth.framework.extension_points import DependsOn, PreScorePlugin, ScorePlugin, Scores
from kuberth.framework.handle import Handle
from kuberth.framework.scores import MAX_NODE_SCORE
from kuberth.framework.status import SKIP, Status
from kuberth.plugins.devices.backing import Backing
from kuberth.plugins.resources.allocation import Allocation, Matrix, Share, allocation, shares_of, uses
from kuberth.plugins.resources.requests import REQUEST_FIELDS, amounts_for_balance, is_counted

_HALF: Final = MAX_NODE_SCORE // 2
_SHARES: Final = StateKey[tuple[Share, ...]]("NodeResourcesBalancedAllocation/shares")


class NodeResourcesBalancedAllocation(PreScorePlugin, ScorePlugin):
    """Between 50 and 100: 75 if the pod changes nothing, more if the node gets more even, else less."""

    name = "NodeResourcesBalancedAllocation"
    reads = REQUEST_FIELDS
    pre_score_depends_on = DependsOn.POD
    score_depends_on = DependsOn.REQUESTS

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None, handle: Handle) -> None:
        self._backing = Backing(handle)
        self._resources = (args or NodeResourcesBalancedAllocationArgs()).resources
        self._only_counted = all(is_counted(spec.name) for spec in self._resources)

    def tells_apart(self, info: PodInfo) -> bool:
        """Whether the pod's requests can be met by devices, of which tables know nothing."""
        scalars = info.request.scalars
        return bool(scalars and self._backing.backed(scalars))

    def pre_score(self, state: CycleState, pod: Pod, _nodes: Nodes) -> Status | None:
        assert state.pod_info is not None
        try:
            amounts = amounts_for_balance(pod, state.pod_info, only_counted=self._only_counted)
        except QuantityError:
            return SKIP
        if not any(amounts.get(spec.name, 0) for spec in self._resources):
            # Pods without requests would all pile up on the one node that is most even.
            return SKIP
        state.write(_SHARES, shares_of(self._resources, amounts, self._backing.counts))
        return None

    def score(self, state: CycleState, _pod: Pod, node: NodeRow) -> int:
        found = uses(node, state.read(_SHARES), with_defaults=False)
        after = [min((taken + added) / allocatable, 1.0) for _, allocatable, taken, added in found]
        before = [min(taken / allocatable, 1.0) for _, allocatable, taken, _ in found]
        return _score(_evenness_of_one(after) - _evenness_of_one(before))

    def score_nodes(self, state: CycleState, _pod: Pod, nodes: Nodes) -> Scores:
        use = allocation(nodes, state.read(_SHARES), with_defaults=False)
        return _score(_evenness(use.allocated + use.added, use) - _evenness(use.allocated, use))


S = TypeVar("S", int, Scores)


def _score(gain: S) -> S:
    return _HALF + (_HALF + gain) // 2


def _evenness_of_one(fractions: Sequence[float]) -> int:
    """What `_evenness` says of one node, from the fractions of the resources that it has."""
    resources = len(fractions)
    deviation = 0.0
    if resources == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif resources > 2:
        mean = _total(fractions) / resources
        deviation = math.sqrt(
            _total([(fraction - mean) * (fraction - mean) for fraction in fractions]) / resources
        )
    return int((1 - deviation) * MAX_NODE_SCORE)


def _total(numbers: Sequence[float]) -> float:
    """One after the other, without what newer Pythons do about rounding."""
    total = 0.0
    for number in numbers:
        total += number
    return total


def _evenness(used: Matrix, use: Allocation) -> Scores:
    """100 where all resources are used to the same fraction, down to 50 where they could not differ more."""
    fractions: NDArray[np.float64] = used / use.divisors
    np.minimum(fractions, 1.0, out=fractions)
    deviation = _deviation(fractions) if use.is_complete else _deviation_of_some(fractions, use.has)
    return ((1 - deviation) * MAX_NODE_SCORE).astype(np.int64)


def _deviation(fractions: NDArray[np.float64]) -> NDArray[np.float64]:
    """The standard deviation over the resources of each node, in upstream's order of operations."""
    resources = len(fractions)
    if resources < 2:
        return np.zeros(fractions.shape[1])
    if resources == 2:
        of_two: NDArray[np.float64] = np.abs((fractions[0] - fractions[1]) / 2)
        return of_two
    mean = _sum(fractions) / resources
    of_many: NDArray[np.float64] = np.sqrt(_sum((fractions - mean) * (fractions - mean)) / resources)
    return of_many


def _deviation_of_some(fractions: NDArray[np.float64], has: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The same where a node may lack some of the resources, which then do not count."""
    resources = has.sum(axis=0)
    mean = _sum(np.where(has, fractions, 0.0)) / np.maximum(resources, 1)
    squares = _sum(np.where(has, (fractions - mean) * (fractions - mean), 0.0))
    of_many = np.sqrt(squares / np.maximum(resources, 1))
    highest = np.where(has, fractions, -np.inf).max(axis=0, initial=-np.inf)
    lowest = np.where(has, fractions, np.inf).min(axis=0, initial=np.inf)
    of_two = (highest - lowest) / 2
    return np.where(resources == 2, of_two, np.where(resources > 2, of_many, 0.0))


def _sum(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """One row after the other: numpy's own sum may pair them up, and floats notice."""
    total = np.zeros(rows.shape[1])
    for row in rows:
        total = total + row
    return total
