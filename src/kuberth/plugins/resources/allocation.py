"""How much of each scored resource is allocated on nodes, and what the pod would add.

In: the resources that a plugin scores, the pod's requests, and one node or a view of many. Out: usage in the
units of the cluster table: numbers for one node, arrays for many, so that a scoring rule is written once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, TypeVar

import numpy as np

from kuberth.api.pod_resources import is_scalar_resource
from kuberth.cluster.arrays import Column
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.resource_columns import MEMORY
from kuberth.config.plugin_args import ResourceSpec
from kuberth.plugins.resources.requests import Amounts, is_counted

N = TypeVar("N", int, Column)
"""A number for one node, or int64[node] for many."""
Use = tuple[int, N, N, int]
"""The usage of a resource: its weight, and how much is allocatable, allocated without the pod, and added by
the pod."""
_INT64_MAX: Final = 2**63 - 1
_PLAIN: Final = 2**53
"""Below this limit, Python integers behave like int64: multiplying by a hundred does not overflow, and floats
are exact."""

DeviceCounts = Callable[[Nodes], tuple[Column, Column]]
"""Counts the devices that back an extended resource: per node the total and the allocated number."""


class Share(NamedTuple):
    """A resource in the pod's score."""

    resource: str
    weight: int
    amount: int
    """The amount that the pod adds."""
    devices: DeviceCounts | None = None
    """Whether devices count on nodes that do not offer the resource."""


def shares_of(
    resources: Iterable[ResourceSpec],
    amounts: Amounts,
    devices_for: Callable[[str], DeviceCounts | None] = lambda _resource: None,
) -> tuple[Share, ...]:
    """The resources that matter for this pod: extended resources that it does not request are ignored."""
    return tuple(
        Share(spec.name, spec.weight, amounts.get(spec.name, 0), devices_for(spec.name))
        for spec in resources
        if is_counted(spec.name) and (amounts.get(spec.name, 0) or not is_scalar_resource(spec.name))
    )


def uses_of_one(node: NodeRow, shares: tuple[Share, ...], *, with_defaults: bool) -> list[Use[int]] | None:
    """The usage of the node's resources; None if a view is needed, because of devices or large numbers.

    `with_defaults`: pods without CPU or memory requests count with small defaults.
    """
    table, row = node.table, node.row
    indices, offered, requested = table.resources, table.allocatable, table.requested
    uses = []
    for resource, weight, amount, devices in shares:
        index = indices.get(resource)
        if index is not None and (allocatable := offered.item(index, row)):
            counts = table.nonzero_requested if with_defaults and index <= MEMORY else requested
            allocated = counts.item(index, row)
            if not 0 <= allocatable | allocated | amount < _PLAIN:  # one of the three is not
                return None
            uses.append((weight, allocatable, allocated, amount))
        elif devices is not None:
            return None
    return uses


Rule = Callable[[list[Use[Column]]], Column | int]
"""Scores nodes that have the same resources; a single number if there are none."""


def scores_of(nodes: Nodes, shares: tuple[Share, ...], rule: Rule, *, with_defaults: bool) -> Column:
    """The result of the rule for every node of a view, by the resources of the node."""
    scores = np.empty(len(nodes), np.int64)
    scores[:] = _scores(rule, list(_uses(nodes, shares, with_defaults=with_defaults)))
    return scores


def _uses(nodes: Nodes, shares: tuple[Share, ...], *, with_defaults: bool) -> Iterator[Use[Column]]:
    """The result of `uses_of_one` for many nodes; a node that lacks the resource has zero of it."""
    table = nodes.table
    for resource, weight, amount, devices in shares:
        index = table.resource_index(resource)
        if index is not None:
            counts = table.nonzero_requested if with_defaults and index <= MEMORY else table.requested
            allocatable, allocated = nodes.take(table.allocatable[index]), nodes.take(counts[index])
            if amount > 0:  # so that the sum of both cannot overflow
                allocated = np.minimum(allocated, _INT64_MAX - amount)
        elif devices is not None:
            allocatable = allocated = np.zeros(len(nodes), np.int64)
        else:
            continue
        if devices is not None:
            there, gone = devices(nodes)
            given = (allocatable == 0) & (there > 0)
            allocatable, allocated = np.where(given, there, allocatable), np.where(given, gone, allocated)
        yield weight, allocatable, allocated, amount


def _scores(rule: Rule, uses: list[Use[Column]], first: int = 0) -> Column | int:
    """Score nodes that have all resources before `first`.

    Those that lack a later one are scored without it.
    """
    for place in range(first, len(uses)):
        allocatable = uses[place][1]
        having = np.count_nonzero(allocatable)
        if having < allocatable.size:
            others = uses[:place] + uses[place + 1 :]
            if not having:
                return _scores(rule, others, place)
            scores = np.empty_like(allocatable)
            has, lacks = allocatable.nonzero()[0], (allocatable == 0).nonzero()[0]
            scores[has] = _scores(rule, _at(has, uses), place + 1)
            scores[lacks] = _scores(rule, _at(lacks, others), place)
            return scores
    return rule(uses)


def _at(places: Column, uses: list[Use[Column]]) -> list[Use[Column]]:
    return [(weight, has.take(places), given.take(places), added) for weight, has, given, added in uses]
