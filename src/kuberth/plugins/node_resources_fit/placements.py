"""Scores a part of the cluster by its utilization with a pod group: higher is better, for all strategies.

In: a part of the cluster and the pods that would be placed there. Out: a score from 0 to 100, from the sums
over all its nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from kuberth.cluster.arrays import Column
from kuberth.cluster.resource_columns import MEMORY
from kuberth.config.plugin_args import ResourceSpec
from kuberth.errors import QuantityError
from kuberth.framework.extension_points import ProposedPlacement
from kuberth.plugins.node_resources_fit.strategies import most_allocated, toward_zero
from kuberth.plugins.resources.allocation import Use, shares_of
from kuberth.plugins.resources.requests import amounts_for_fit_score


def fullness(proposed: ProposedPlacement, resources: Iterable[ResourceSpec]) -> int:
    asked: Counter[str] = Counter()
    for info in proposed.pods:
        try:
            asked.update(amounts_for_fit_score(info.pod, info))
        except QuantityError:
            continue  # it has no valid request
    nodes, table = proposed.candidate.nodes, proposed.candidate.nodes.table
    uses: list[Use[Column]] = []
    for share in shares_of(resources, asked):
        index = table.resource_index(share.resource)
        if index is None:
            continue
        offered = nodes.take(table.allocatable[index])
        counts = table.nonzero_requested if index <= MEMORY else table.requested
        has = offered != 0
        whole = int(offered.sum())
        if whole:
            taken = int(np.where(has, nodes.take(counts[index]), 0).sum())
            after = min(taken + share.amount, whole)
            # Sums over many nodes are large: arrays overflow as upstream's integers do.
            uses.append((share.weight, np.array([whole]), np.array([after]), 0))
    return int(np.sum(most_allocated(uses, toward_zero)))
