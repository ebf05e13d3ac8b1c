"""Which nodes lack what a pod asks for, with every reason of every node.

In: the pod's amounts and a view of the cluster table as it stands now. Out: a verdict whose codes are
bit masks: bit 0 says that no eviction can help, each further bit is one reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from kuberth.cluster.nodes import Nodes
from kuberth.framework.status import Status
from kuberth.framework.verdict import Codes, Mask, Verdict
from kuberth.plugins.resources.requests import Amounts

TOO_MANY_PODS: Final = "Too many pods"
_MOST_BITS: Final = 62
"""Shortages that fit into a code beside bit 0; the sign bit is left alone."""


class _Shortage(NamedTuple):
    """Reasons that the same nodes have: what no node offers is one, however many names that are."""

    reasons: Sequence[str]
    lacking: Mask


def shortages(nodes: Nodes, amounts: Amounts) -> Verdict | None:
    """The verdict on every node of the view; None if no node lacks anything."""
    table = nodes.table
    found: list[_Shortage] = []
    hopeless: Mask = np.zeros(len(nodes), np.bool_)
    full = nodes.take(table.pod_count) >= nodes.take(table.allowed_pods)
    if full.any():
        found.append(_Shortage((TOO_MANY_PODS,), full))
    offered_nowhere: list[str] = []
    for resource, amount in amounts.items():
        index = table.resource_index(resource)
        if index is None:
            offered_nowhere.append(f"Insufficient {resource}")
            continue
        allocatable = nodes.take(table.allocatable[index])
        short = allocatable - nodes.take(table.requested[index]) < amount
        if short.any():
            found.append(_Shortage((f"Insufficient {resource}",), short))
            hopeless |= allocatable < amount
    if offered_nowhere:
        everywhere = np.ones(len(nodes), np.bool_)
        found.append(_Shortage(offered_nowhere, everywhere))
        hopeless = everywhere
    if not found:
        return None
    if len(found) > _MOST_BITS:
        return _verdict_by_combination(found, hopeless)
    return _verdict_by_bits(found, hopeless)


def _verdict_by_bits(found: Sequence[_Shortage], hopeless: Mask) -> Verdict:
    codes: Codes = hopeless.astype(np.int64)
    for bit, shortage in enumerate(found, start=1):
        codes += shortage.lacking * np.int64(1 << bit)

    def status(code: int) -> Status:
        given = [shortage for bit, shortage in enumerate(found, start=1) if code >> bit & 1]
        return _status(given, is_hopeless=bool(code & 1))

    return Verdict(codes, status)


def _verdict_by_combination(found: Sequence[_Shortage], hopeless: Mask) -> Verdict:
    """The same where shortages outnumber bits: the codes number the combinations that occur."""
    flags = np.stack([hopeless, *(shortage.lacking for shortage in found)])
    combinations, numbers = np.unique(flags, axis=1, return_inverse=True)
    codes = np.where(flags.any(axis=0), numbers.reshape(-1) + 1, 0).astype(np.int64)

    def status(code: int) -> Status:
        is_hopeless, *short = combinations[:, code - 1].tolist()
        given = [shortage for shortage, lacks in zip(found, short, strict=True) if lacks]
        return _status(given, is_hopeless=is_hopeless)

    return Verdict(codes, status)


def _status(found: Sequence[_Shortage], *, is_hopeless: bool) -> Status:
    """A node that is too small for one of the requests stays so, whoever leaves it."""
    reasons = [reason for shortage in found for reason in shortage.reasons]
    return Status.unresolvable(*reasons) if is_hopeless else Status.unschedulable(*reasons)
