"""Preferred terms: weights summed over the domains where the pods are that they speak of.

In: the incoming pod and the cluster table. Out: raw scores, which may be negative, and their scale.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kuberth.cluster.labels import ABSENT
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.cluster.terms import Carried, Tally
from kuberth.plugins.inter_pod_affinity.incoming import asked_of_placed_pods

Scores = NDArray[np.int64]


class DomainScores:
    """What the domains of every topology key in question are worth to one pod."""

    def __init__(self, info: PodInfo, table: ClusterTable, *, required_affinity_weight: int) -> None:
        self._terms = [
            (table.label_column(key), tally, weight)
            for key, tally, weight in _weighted_tallies(info, table, required_affinity_weight)
        ]

    @property
    def is_empty(self) -> bool:
        """Whether no term finds any pod. Terms that cancel each other out are not nothing, as upstream."""
        for label, tally, _weight in self._terms:  # noqa: SIM110 - a generator would cost a frame a term
            if tally.is_in_any_domain(label):
                return False
        return True

    def over(self, nodes: Nodes) -> Scores:
        total: Scores | None = None
        for label, tally, weight in self._terms:
            if not tally.is_in_any_domain(label):
                continue
            ids, sums = nodes.take(label.ids), tally.by_domain(label)
            if len(sums) <= len(ids):  # few domains: weigh them, and look up what that means for the nodes
                by_domain = sums * weight
                by_domain[ABSENT] = 0
                worth = by_domain.take(ids)
            else:
                worth = sums.take(ids)
                if sums.item(ABSENT):
                    worth[ids == ABSENT] = 0
                worth *= weight
            total = worth if total is None else total + worth
        return np.zeros(len(nodes), np.int64) if total is None else total


def _weighted_tallies(
    info: PodInfo, table: ClusterTable, required_affinity_weight: int
) -> Iterator[tuple[str, Tally, int]]:
    """Topology key, pods, and what each of them is worth; weights of anti-affinity are negative."""
    terms = table.terms
    for preferred in info.preferred_terms:
        tally = terms.tally(asked_of_placed_pods(preferred.term))
        yield preferred.term.topology_key, tally, preferred.weight
    for carried, tally in terms.carried_about(Carried.PREFERRED, info):
        yield carried.term.topology_key, tally, carried.weight
    if required_affinity_weight > 0:
        for carried, tally in terms.carried_about(Carried.REQUIRED_AFFINITY, info):
            yield carried.term.topology_key, tally, required_affinity_weight


def scaled(scores: Scores, *, highest: int) -> Scores:
    """The lowest becomes 0, the highest `highest`; all 0 if they are equal."""
    if not len(scores):
        return scores
    lowest = np.minimum.reduce(scores)
    span = np.maximum.reduce(scores) - lowest
    if span == 0:
        return np.zeros_like(scores)
    # Whole numbers of this size are exact as floats: dividing them directly rounds as upstream does.
    shares: NDArray[np.float64] = (scores - lowest) / span
    shares *= float(highest)
    return shares.astype(np.int64)
