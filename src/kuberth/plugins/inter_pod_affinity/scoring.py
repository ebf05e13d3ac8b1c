"""Preferred terms: weights summed over the domains of the matching pods.

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
from kuberth.cluster.terms import MAX_TERMS_ONE_BY_ONE, Carried, Contribution
from kuberth.plugins.inter_pod_affinity.filtering import matcher_of_placed_pods

Scores = NDArray[np.int64]


class DomainScores:
    """The weights per domain of every relevant topology key, for one pod."""

    def __init__(self, info: PodInfo, table: ClusterTable, *, required_affinity_weight: int) -> None:
        self._terms = [
            (table.label_column(each.topology_key), each)
            for each in _contributions(info, table, required_affinity_weight)
        ]

    @property
    def is_empty(self) -> bool:
        """Whether no term matches any pod; as upstream, terms that cancel each other out do match."""
        return not any(each.pods.is_in_any_domain(label) for label, each in self._terms)

    def over(self, nodes: Nodes) -> Scores:
        total: Scores | None = None
        for label, (_key, worth_of, weight, pods) in self._terms:
            if not pods.is_in_any_domain(label):
                continue
            ids, sums = nodes.take(label.ids), worth_of.by_domain(label)
            if len(sums) <= len(ids):  # few domains: evaluate these, and look up the result per node
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


def _contributions(
    info: PodInfo, table: ClusterTable, required_affinity_weight: int
) -> Iterator[Contribution]:
    """The contributions of all terms, the pod's own and those of placed pods; negative for anti-affinity."""
    terms = table.terms
    if len(info.preferred_terms) > MAX_TERMS_ONE_BY_ONE:
        yield from terms.contributions_of_placed(
            (each.term.topology_key, matcher_of_placed_pods(each.term), each.weight)
            for each in info.preferred_terms
        )
    else:
        for preferred in info.preferred_terms:
            tally = terms.tally(matcher_of_placed_pods(preferred.term))
            yield Contribution(preferred.term.topology_key, tally, preferred.weight, tally)
    yield from terms.contributions(Carried.PREFERRED, info)
    if required_affinity_weight > 0:
        yield from terms.contributions(Carried.REQUIRED_AFFINITY, info, required_affinity_weight)


def scaled(scores: Scores, *, highest: int) -> Scores:
    """Scale the lowest score to 0 and the highest to `highest`; all 0 if they are equal."""
    if not len(scores):
        return scores
    lowest = np.minimum.reduce(scores)
    span = np.maximum.reduce(scores) - lowest
    if span == 0:
        return np.zeros_like(scores)
    # Integers of this size are exact as floats: dividing them directly rounds as upstream does.
    shares: NDArray[np.float64] = (scores - lowest) / span
    shares *= float(highest)
    return shares.astype(np.int64)
