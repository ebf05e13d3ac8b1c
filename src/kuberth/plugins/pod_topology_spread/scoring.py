"""Soft constraints: the fewer matching pods in a node's domains, the higher its score.

In: the pod's soft constraints and the feasible nodes. Out: raw scores, where less is better, and the scale
from 0 to 100. Floats are added and multiplied in upstream's order, so that they round equally.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kuberth.api.core import Pod
from kuberth.api.well_known import HOSTNAME
from kuberth.cluster.arrays import Mask
from kuberth.cluster.labels import ABSENT, LabelColumn
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.selection import nowhere
from kuberth.cluster.table import ClusterTable
from kuberth.cluster.terms import Tally
from kuberth.framework.scores import MAX_NODE_SCORE
from kuberth.plugins.pod_topology_spread.constraints import Constraint, Inclusion, counted_pods

Floats = NDArray[np.float64]


class SoftSpread:
    """The soft constraints of one pod in one cycle.

    With `needs_all_keys`, a node counts, and is scored, only if it has the keys of all constraints. System
    defaults do without, so that clusters without zones are still spread over nodes. `bare_nodes`: ignore a
    node's own pods, though not those of its zone.
    """

    def __init__(
        self,
        constraints: Sequence[Constraint],
        pod: Pod,
        candidates: Nodes,
        inclusion: Inclusion,
        *,
        needs_all_keys: bool,
        bare_nodes: bool = False,
    ) -> None:
        self.candidates = candidates
        table = inclusion.table
        self._labels = [table.label_column(constraint.topology_key) for constraint in constraints]
        self._needs_all_keys = needs_all_keys
        self._unscored = self._ignored(candidates)
        scored = candidates.rows()[~self._unscored]
        keyed = inclusion.has_all(self._labels) if needs_all_keys else None
        # If no node has all the keys, none is scored, and nothing is counted.
        counted = constraints if keyed is None or keyed.any() else ()
        self._credits = [
            _credit(
                constraint,
                pod.metadata.namespace,
                table,
                included=_both(keyed, inclusion.mask(constraint)),
                scored=scored,
                bare_nodes=bare_nodes,
            )
            for constraint in counted
        ]

    def scores(self, nodes: Nodes) -> NDArray[np.int64]:
        """The raw scores: weighted pod counts, rounded half away from zero as in Go."""
        total = np.zeros(len(nodes), np.float64)
        for credit in self._credits:
            total += credit.over(nodes)
        whole = np.trunc(total)
        rounded = (whole + np.trunc(2 * (total - whole))).astype(np.int64)
        self._unscored = self._ignored(nodes)
        rounded[self._unscored] = 0
        return rounded

    def normalized(self, scores: NDArray[np.int64]) -> NDArray[np.int64]:
        """Invert the scores: the lowest one becomes 100. Nodes that lack a topology key get 0."""
        scored = ~self._unscored
        highest = int(scores.max(where=scored, initial=0))
        if highest == 0:
            return scored * np.int64(MAX_NODE_SCORE)
        lowest = int(scores.min(where=scored, initial=np.iinfo(np.int64).max))
        return np.where(scored, MAX_NODE_SCORE * (highest + lowest - scores) // highest, 0)

    def _ignored(self, nodes: Nodes) -> Mask:
        mask = nowhere(nodes)
        if self._needs_all_keys:
            for label in self._labels:
                mask |= nodes.take(label.ids) == ABSENT
        return mask


@dataclass(slots=True, eq=False)
class _Credit:
    """The contribution of one constraint to a node's score, per row or per domain."""

    label: LabelColumn
    amounts: Floats
    by_row: bool

    def over(self, nodes: Nodes) -> Floats:
        ids = nodes.take(self.label.ids)
        amounts = nodes.take(self.amounts) if self.by_row else np.take(self.amounts, ids)
        return np.where(ids == ABSENT, 0.0, amounts)


def _credit(
    constraint: Constraint,
    namespace: str,
    table: ClusterTable,
    *,
    included: Mask | None,
    scored: NDArray[np.int64],
    bare_nodes: bool,
) -> _Credit:
    label = table.label_column(constraint.topology_key)
    tally = counted_pods(constraint, namespace, table)
    by_row = constraint.topology_key == HOSTNAME
    if by_row:  # a node is its own domain, and counts regardless of the policies
        counts, domains = tally.counts.column(table.slots), len(scored)
        if bare_nodes:
            counts = np.zeros_like(counts)
    else:
        counts, domains = _domain_counts(label, tally, included, label.ids[scored])
    # The logarithm prevents topologies with few domains, and many pods each, from outweighing large ones.
    amounts = counts.astype(np.float64) * math.log(domains + 2) + float(constraint.max_skew - 1)
    return _Credit(label, amounts, by_row)


def _both(one: Mask | None, other: Mask | None) -> Mask | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _domain_counts(
    label: LabelColumn, tally: Tally, included: Mask | None, candidate_ids: NDArray[np.int32]
) -> tuple[NDArray[np.int64], int]:
    """Pods per domain on the included rows, and the number of domains among the candidates.

    Nodes without the key form one domain here, shared with nodes with an empty value.
    """
    occurs = np.zeros(len(label.values), np.bool_)
    occurs[candidate_ids] = True
    counts = tally.by_domain(label, included)
    unnamed = label.id_of("")
    if unnamed is not None:
        counts = counts.copy()
        counts[unnamed] += counts[ABSENT]
        occurs[unnamed] |= occurs[ABSENT]
        occurs[ABSENT] = False
    return counts, int(np.count_nonzero(occurs))
