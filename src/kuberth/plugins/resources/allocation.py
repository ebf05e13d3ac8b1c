"""How much of each scored resource nodes have and would have given away with the pod on them.

In: the resources a plugin scores, the pod's amounts, a view of the table. Out: matrices
[resource, node], whole numbers in the units of the cluster table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kuberth.api.pod_resources import is_scalar_resource
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.resource_columns import MEMORY
from kuberth.config.plugin_args import ResourceSpec
from kuberth.plugins.resources.requests import Amounts, is_counted

Matrix = NDArray[np.int64]


DeviceCounts = Callable[[Nodes], tuple[NDArray[np.int64], NDArray[np.int64]]]
"""Counts devices that are given for an extended resource: per node how many there are, and how many of them
are taken."""


class Share(NamedTuple):
    """A resource that takes part in the pod's score."""

    resource: str
    weight: int
    amount: int
    """What the pod adds."""
    devices: DeviceCounts | None = None
    """Where a node offers none of the resource, but may have devices to give for it."""


def shares_of(
    resources: Iterable[ResourceSpec],
    amounts: Amounts,
    devices_for: Callable[[str], DeviceCounts | None] = lambda _resource: None,
) -> tuple[Share, ...]:
    """The resources that matter for this pod: an extended resource it does not ask for says nothing."""
    return tuple(
        Share(spec.name, spec.weight, amounts.get(spec.name, 0), devices_for(spec.name))
        for spec in resources
        if is_counted(spec.name) and (amounts.get(spec.name, 0) or not is_scalar_resource(spec.name))
    )


class Allocation(NamedTuple):
    """One matrix row per share. None of the matrices is to be written to: they may be the table's own."""

    weights: Sequence[int]
    allocatable: Matrix
    allocated: Matrix
    """Without the pod."""
    added: Matrix
    """What the pod adds: one column, the same on every node."""
    has: NDArray[np.bool_]
    """Whether the node has any of the resource; if not, the resource is left out there."""
    is_complete: bool
    """Whether every node has all of the resources."""

    @property
    def divisors(self) -> Matrix:
        """`allocatable` with something harmless where it is zero."""
        return self.allocatable if self.is_complete else np.maximum(self.allocatable, 1)


def allocation(nodes: Nodes, shares: tuple[Share, ...], *, with_defaults: bool) -> Allocation:
    """`with_defaults`: pods that ask for no CPU or memory count as if they asked for a little."""
    table = nodes.table
    if any(share.devices is not None for share in shares):
        return _with_devices(nodes, shares, with_defaults=with_defaults)
    known: list[Share] = []
    indices: list[int] = []
    for share in shares:
        index = table.resource_index(share.resource)
        if index is not None:
            known.append(share)
            indices.append(index)
    allocatable = _rows(nodes, table.allocatable, indices)
    if not with_defaults:
        allocated = _rows(nodes, table.requested, indices)
    elif max(indices, default=0) <= MEMORY:
        allocated = _rows(nodes, table.nonzero_requested, indices)
    else:
        allocated = np.stack(
            [
                nodes.take((table.nonzero_requested if index <= MEMORY else table.requested)[index])
                for index in indices
            ]
        )
    has = allocatable != 0
    return Allocation(
        [share.weight for share in known],
        allocatable,
        allocated,
        np.array([share.amount for share in known], np.int64)[:, np.newaxis],
        has,
        is_complete=np.count_nonzero(has) == has.size,
    )


def _with_devices(nodes: Nodes, shares: tuple[Share, ...], *, with_defaults: bool) -> Allocation:
    """The same where devices count, too: resource by resource."""
    table = nodes.table
    allocatable = np.zeros((len(shares), len(nodes)), np.int64)
    allocated = np.zeros((len(shares), len(nodes)), np.int64)
    for place, share in enumerate(shares):
        index = table.resource_index(share.resource)
        if index is not None:
            counts = table.nonzero_requested if with_defaults and index <= MEMORY else table.requested
            allocatable[place] = nodes.take(table.allocatable[index])
            allocated[place] = nodes.take(counts[index])
        if share.devices is not None:
            offered, taken = share.devices(nodes)
            counts_here = (allocatable[place] == 0) & (offered > 0)
            allocatable[place][counts_here] = offered[counts_here]
            allocated[place][counts_here] = taken[counts_here]
    has = allocatable != 0
    return Allocation(
        [share.weight for share in shares],
        allocatable,
        allocated,
        np.array([share.amount for share in shares], np.int64)[:, np.newaxis],
        has,
        is_complete=np.count_nonzero(has) == has.size,
    )


Use = tuple[int, int, int, int]
"""The same of one resource on one node, in plain numbers, as for few nodes that is quicker: its weight, and
how much of it is allocatable, allocated without the pod, and added by the pod."""


def uses(node: NodeRow, shares: tuple[Share, ...], *, with_defaults: bool) -> list[Use]:
    """What `allocation` tells, of one node; resources that it does not have are left out."""
    table, row = node.table, node.row
    indices, offered, requested = table.resources, table.allocatable, table.requested
    found = []
    for resource, weight, amount, devices in shares:
        index = indices.get(resource)
        allocatable = 0 if index is None else offered.item(index, row)
        if not allocatable and devices is not None:
            there, gone = devices(node.alone)
            if there[0] > 0:
                found.append((weight, int(there[0]), int(gone[0]), amount))
        elif allocatable and index is not None:
            counts = table.nonzero_requested if with_defaults and index <= MEMORY else requested
            found.append((weight, allocatable, counts.item(index, row), amount))
    return found


def allocation_of_one(found: Sequence[Use]) -> Allocation:
    """The matrices of one node."""
    weights, allocatable, allocated, added = zip(*found, strict=True) if found else ((), (), (), ())
    return Allocation(
        weights,
        _as_column(allocatable),
        _as_column(allocated),
        _as_column(added),
        np.ones((len(found), 1), np.bool_),
        is_complete=True,
    )


def _as_column(numbers: Sequence[int]) -> Matrix:
    return np.array(numbers, np.int64)[:, np.newaxis]


def _rows(nodes: Nodes, matrix: Matrix, indices: Sequence[int]) -> Matrix:
    """Some rows of a matrix over the nodes of the view; neighbours, like CPU and memory, are not copied."""
    if not indices:
        return np.zeros((0, len(nodes)), np.int64)
    first, last = indices[0], indices[-1]
    if indices == list(range(first, last + 1)):
        return nodes.take(matrix[first : last + 1])
    return np.stack([nodes.take(matrix[index]) for index in indices])
