"""Hard constraints: a node is rejected if its domain would exceed the emptiest one by more than maxSkew.

In: the pod's hard constraints. Out: a verdict on any view, from the current counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kuberth.api.core import Pod
from kuberth.cluster.arrays import Mask
from kuberth.cluster.labels import ABSENT
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.framework.status import Status
from kuberth.framework.verdict import Verdict
from kuberth.plugins.pod_topology_spread.constraints import Constraint, Inclusion, counted_pods

_NOT_SPREAD: Final = "node(s) didn't match pod topology spread constraints"
_MISSING_LABEL, _TOO_SKEWED = 1, 2
_STATUSES: Final = (
    Status.unresolvable(f"{_NOT_SPREAD} (missing required label)"),
    Status.unschedulable(_NOT_SPREAD),
)
_NO_DOMAIN: Final = 2**31 - 1
"""The minimum if there is no domain: a number that no node exceeds."""


def _status(code: int) -> Status:
    return _STATUSES[code - 1]


class HardSpread:
    """The hard constraints of one pod in one cycle."""

    def __init__(self, constraints: Sequence[Constraint], pod: Pod, inclusion: Inclusion) -> None:
        labels = [inclusion.table.label_column(constraint.topology_key) for constraint in constraints]
        # A node that lacks the key of one constraint does not count for the others either.
        keyed = inclusion.has_all(labels)
        self._namespace = pod.metadata.namespace
        self._keyed = keyed
        # If no node has all the keys, each lacks one, and nothing is counted.
        counted = constraints if keyed.any() else ()
        self._spreads = [_Spread(constraint, pod, inclusion, keyed) for constraint in counted]
        self._uncounted: list[dict[int, int]] = [{} for _ in counted]

    def clone(self) -> HardSpread:
        copy = HardSpread.__new__(HardSpread)
        copy._namespace, copy._keyed, copy._spreads = self._namespace, self._keyed, self._spreads
        copy._uncounted = [dict(numbers) for numbers in self._uncounted]
        return copy

    def count_uncounted(self, info: PodInfo, node: NodeRow, number: int) -> None:
        """Count a pod that a what-if adds (1) or removes (-1), and that upstream counts here.

        This concerns terminating pods, and constraints with an empty selector, which counts no pod.
        """
        if info.namespace != self._namespace or not self._keyed[node.row]:
            return
        for spread, numbers in zip(self._spreads, self._uncounted, strict=True):
            if spread.leaves_out(info, node.row):
                domain = int(spread.label.ids[node.row])
                numbers[domain] = numbers.get(domain, 0) + number

    def verdict(self, nodes: Nodes) -> Verdict:
        codes = None if self._spreads else np.full(len(nodes), _MISSING_LABEL, np.int64)
        for spread, uncounted in zip(self._spreads, self._uncounted, strict=True):
            found = spread.codes(nodes, uncounted)
            codes = found if codes is None else np.where(codes == 0, found, codes)
        assert codes is not None
        return Verdict(codes, _status)


class _Spread:
    """One constraint with its counts and domains."""

    def __init__(self, constraint: Constraint, pod: Pod, inclusion: Inclusion, keyed: Mask) -> None:
        table = inclusion.table
        self.label = table.label_column(constraint.topology_key)
        self._constraint = constraint
        ids = self.label.ids[: table.slots]
        included = inclusion.mask(constraint)
        included = keyed if included is None else keyed & included
        # Usually every node with the key counts, and the sums are cached.
        self._everywhere = bool(np.array_equal(included, ids != ABSENT))
        self._included = included
        self._domains = _distinct(ids[included], len(self.label.values))
        self._tally = counted_pods(constraint, pod.metadata.namespace, table)
        self._self_match = int(constraint.selector.matches(pod.metadata.labels))

    def leaves_out(self, info: PodInfo, row: int) -> bool:
        """Whether the counts omit a pod on `row` that the constraint matches."""
        return (
            (info.pod_class.terminating or self._constraint.selector.empty)
            and bool(self._included[row])
            and self._constraint.selector.matches(info.labels)
        )

    def codes(self, nodes: Nodes, uncounted: dict[int, int]) -> NDArray[np.int64]:
        sums = self._tally.by_domain(self.label, None if self._everywhere else self._included)
        if uncounted:
            sums = sums.copy()
            for domain, number in uncounted.items():
                sums[domain] += number
        ids = nodes.take(self.label.ids)
        most = self._constraint.max_skew - self._self_match + self._fewest(sums)
        if len(sums) <= len(ids):  # few domains: evaluate these, and look up the result per node
            by_domain = (sums > most) * np.int64(_TOO_SKEWED)
            by_domain[ABSENT] = _MISSING_LABEL
            return by_domain.take(ids)
        codes = (sums.take(ids) > most) * np.int64(_TOO_SKEWED)
        codes[ids == ABSENT] = _MISSING_LABEL
        return codes

    def _fewest(self, sums: NDArray[np.int64]) -> int:
        if len(self._domains) < self._constraint.min_domains:
            return 0
        return int(np.take(sums, self._domains).min(initial=_NO_DOMAIN))


def _distinct(ids: NDArray[np.int32], values: int) -> NDArray[np.intp]:
    """The ids that occur, without sorting them."""
    occurs = np.zeros(values, np.bool_)
    occurs[ids] = True
    return np.flatnonzero(occurs)
