"""Which nodes lack resources that a pod requests, with all reasons of every node.

In: the pod's requests and a view of the cluster table, or one node of it. Out: a verdict whose codes are bit
masks: bit 0 means that no eviction can help, each further bit is one reason; or a status.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from kuberth.cluster.arrays import Mask
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.framework.status import Status
from kuberth.framework.verdict import Codes, Verdict
from kuberth.plugins.resources.allocation import N
from kuberth.plugins.resources.requests import Amounts

TOO_MANY_PODS: Final = "Too many pods"
_INSUFFICIENT: Final = "Insufficient "
_MAX_BITS: Final = 62
"""The number of shortages that fit into a code beside bit 0; the sign bit is not used."""


class _Shortage(NamedTuple):
    """Reasons that apply to the same nodes: resources that no node offers share one bit."""

    reasons: Sequence[str]
    lacking: Mask


NOTHING: Final = frozenset[str]()


def _lacks(allocatable: N, left: N, amount: int, *, is_backed: bool) -> Mask | bool:
    """Whether nodes have too little of a resource; for one node or many.

    If a device class backs the resource, a node that offers none of it may have devices instead, which
    another plugin checks.
    """
    return (left < amount) & (allocatable > 0) if is_backed else left < amount


def shortage(node: NodeRow, amounts: Amounts, backed: Collection[str] = NOTHING) -> Status | None:
    """The verdict on one node; None if nothing is missing. `backed`: resources backed by devices."""
    table, row = node.table, node.row
    reasons = []
    is_hopeless = False
    if table.pod_count.item(row) >= table.allowed_pods.item(row):
        reasons.append(TOO_MANY_PODS)
    indices, offered, requested = table.resources, table.allocatable, table.requested
    for resource, amount in amounts.items():
        index = indices.get(resource)
        if index is None:
            allocatable = left = 0
        else:
            allocatable = offered.item(index, row)
            left = allocatable - requested.item(index, row)
        # The usual case, in which the resource fits, avoids the call.
        if left < amount and _lacks(allocatable, left, amount, is_backed=resource in backed):
            reasons.append(_INSUFFICIENT + resource)
            is_hopeless = is_hopeless or allocatable < amount
    return _status(reasons, is_hopeless=is_hopeless) if reasons else None


def shortages(
    nodes: Nodes, amounts: Amounts, backed: Collection[str] = NOTHING, *, counts_pods: bool = True
) -> Verdict | None:
    """The verdict on every node of the view; None if no node lacks anything.

    `counts_pods`: a node that has its maximum number of pods lacks something too.
    """
    table = nodes.table
    found: list[_Shortage] = []
    hopeless: Mask = np.zeros(len(nodes), np.bool_)
    if counts_pods:
        full = nodes.take(table.pod_count) >= nodes.take(table.allowed_pods)
        if np.count_nonzero(full):
            found.append(_Shortage((TOO_MANY_PODS,), full))
    offered_nowhere: list[str] = []
    for resource, amount in amounts.items():
        index = table.resource_index(resource)
        if index is None:
            if _lacks(0, 0, amount, is_backed=resource in backed):
                offered_nowhere.append(_INSUFFICIENT + resource)
            continue
        allocatable = nodes.take(table.allocatable[index])
        left = allocatable - nodes.take(table.requested[index])
        lacks: Mask = np.asarray(_lacks(allocatable, left, amount, is_backed=resource in backed))
        if np.count_nonzero(lacks):
            found.append(_Shortage((_INSUFFICIENT + resource,), lacks))
            hopeless |= lacks & (allocatable < amount)
    if offered_nowhere:
        everywhere = np.ones(len(nodes), np.bool_)
        found.append(_Shortage(offered_nowhere, everywhere))
        hopeless = everywhere
    if not found:
        return None
    # The order of a node's reasons is the order of the pod's requests.
    order = {_INSUFFICIENT + resource: place for place, resource in enumerate(amounts, start=1)}
    if len(found) > _MAX_BITS:
        return _verdict_by_combination(found, hopeless, order)
    return _verdict_by_bits(found, hopeless, order)


def _verdict_by_bits(found: Sequence[_Shortage], hopeless: Mask, order: Mapping[str, int]) -> Verdict:
    codes: Codes = hopeless.astype(np.int64)
    for bit, each in enumerate(found, start=1):
        codes += each.lacking * np.int64(1 << bit)

    def status(code: int) -> Status:
        given = [each for bit, each in enumerate(found, start=1) if code >> bit & 1]
        return _status(_ordered(given, order), is_hopeless=bool(code & 1))

    return Verdict(codes, status)


def _verdict_by_combination(found: Sequence[_Shortage], hopeless: Mask, order: Mapping[str, int]) -> Verdict:
    """The same if there are more shortages than bits: codes number the combinations that occur."""
    flags = np.stack([hopeless, *(each.lacking for each in found)])
    combinations, numbers = np.unique(flags, axis=1, return_inverse=True)
    codes = np.where(flags.any(axis=0), numbers.reshape(-1) + 1, 0).astype(np.int64)

    def status(code: int) -> Status:
        is_hopeless, *short = combinations[:, code - 1].tolist()
        given = [each for each, lacks in zip(found, short, strict=True) if lacks]
        return _status(_ordered(given, order), is_hopeless=is_hopeless)

    return Verdict(codes, status)


def _ordered(found: Sequence[_Shortage], order: Mapping[str, int]) -> list[str]:
    reasons = (reason for each in found for reason in each.reasons)
    return sorted(reasons, key=lambda reason: order.get(reason, 0))


def _status(reasons: Sequence[str], *, is_hopeless: bool) -> Status:
    """Whether the node is too small for a request even without pods."""
    return Status.unresolvable(*reasons) if is_hopeless else Status.unschedulable(*reasons)
