"""NodeResourcesBalancedAllocation: prefers nodes whose resource usage becomes more balanced."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from kuberth.api.core import Pod
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.config.plugin_args import NodeResourcesBalancedAllocationArgs
from kuberth.errors import QuantityError
from kuberth.framework.cycle_state import CycleState, StateKey
from kuberth.framework.extension_points import PreScorePlugin, ScorePlugin, Scores
from kuberth.framework.handle import Handle
from kuberth.framework.inputs import DependsOn, Inputs
from kuberth.framework.scores import MAX_NODE_SCORE
from kuberth.framework.status import SKIP, Status
from kuberth.plugins.devices.inventory import Backing
from kuberth.plugins.resources.allocation import N, Share, Use, scores_of, shares_of, uses_of_one
from kuberth.plugins.resources.requests import REQUEST_FIELDS, amounts_for_balance, is_counted

_HALF: Final = MAX_NODE_SCORE // 2
_SHARES: Final = StateKey[tuple[Share, ...]]("NodeResourcesBalancedAllocation/shares")


class NodeResourcesBalancedAllocation(PreScorePlugin, ScorePlugin):
    """Scores of 50 to 100: 75 if the pod changes nothing, more if the node becomes more balanced."""

    name = "NodeResourcesBalancedAllocation"

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None, handle: Handle) -> None:
        self._backing = Backing(handle)
        self._resources = (args or NodeResourcesBalancedAllocationArgs()).resources
        self._only_counted = all(is_counted(spec.name) for spec in self._resources)
        self.inputs = Inputs(
            REQUEST_FIELDS,
            pre_score=self._backing.without_devices(self._resources, DependsOn.POD),
            score=self._backing.without_devices(self._resources, DependsOn.REQUESTS),
        )

    def pre_score(self, state: CycleState, pod: Pod, _nodes: Nodes) -> Status | None:
        assert state.pod_info is not None
        try:
            amounts = amounts_for_balance(pod, state.pod_info, only_counted=self._only_counted)
        except QuantityError:
            return SKIP
        if not any(amounts.get(spec.name, 0) for spec in self._resources):
            # Pods without requests would all go to the most balanced node.
            return SKIP
        state.write(_SHARES, shares_of(self._resources, amounts, self._backing.counts))
        return None

    def score(self, state: CycleState, pod: Pod, node: NodeRow) -> int:
        uses = uses_of_one(node, state.read(_SHARES), with_defaults=False)
        return int(self.score_nodes(state, pod, node.alone)[0]) if uses is None else _score(uses, _OF_ONE)

    def score_nodes(self, state: CycleState, _pod: Pod, nodes: Nodes) -> Scores:
        return scores_of(nodes, state.read(_SHARES), lambda uses: _score(uses, _OF_MANY), with_defaults=False)


_Floats = NDArray[np.float64]
F = TypeVar("F", float, _Floats)


class _Operations(NamedTuple, Generic[N, F]):
    """The operations that differ between one node and arrays of many."""

    minimum: Callable[[Any, float], F]
    root: Callable[[F | float], F]
    truncated: Callable[[F], N]


_OF_ONE: Final = _Operations[int, float](min, math.sqrt, int)
_OF_MANY: Final = _Operations[Scores, _Floats](np.minimum, np.sqrt, lambda each: each.astype(np.int64))


def _score(uses: Sequence[Use[N]], operations: _Operations[N, F]) -> N | int:
    """By how much the pod makes the usage more balanced, with upstream's order of operations."""
    count = len(uses)
    if count < 2:
        return _HALF + _HALF // 2
    minimum, root, truncated = operations
    after: list[F] = []
    before: list[F] = []
    for _, allocatable, allocated, added in uses:
        after.append(minimum((allocated + added) / allocatable, 1.0))
        before.append(minimum(allocated / allocatable, 1.0))
    evenness: list[N] = []
    for fractions in (after, before):
        if count == 2:
            deviation = abs((fractions[0] - fractions[1]) / 2)
        else:
            # One after the other: `sum` of newer Pythons rounds differently, and numpy's may add in pairs.
            total: F | float = 0.0
            squares: F | float = 0.0
            for fraction in fractions:
                total += fraction
            mean = total / count
            for fraction in fractions:
                squares += (fraction - mean) * (fraction - mean)
            deviation = root(squares / count)
        # 100 if all fractions are equal, down to 50 for the largest difference.
        evenness.append(truncated((1 - deviation) * MAX_NODE_SCORE))
    return _HALF + (_HALF + evenness[0] - evenness[1]) // 2
