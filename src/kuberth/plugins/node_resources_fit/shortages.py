"""Which nodes lack what a pod asks for, with every reason of every node.

In: the pod's amounts and a view of the cluster table as it stands now. Out: a verdict whose codes are
bit masks: bit 0 says that no eviction can help, each further bit is one reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from kuberth.cluster.nodes import Nodes
from kuberth.framework.status import Status
from kuberth.framework.verdict import Codes, Mask, Verdict
from kuberth.plugins.resources.requests import Amounts

TOO_MANY_PODS: Final = "Too many pods"
_MOST_BITS: Final = 62
"""Reasons that fit into a code beside bit 0; the sign bit is left alone."""


def shortages(nodes: Nodes, amounts: Amounts) -> Verdict | None:
    """The verdict on every node of the view; None if no node lacks anything."""
    table = nodes.table
    reasons: list[str] = []
    lacking: list[Mask] = []
    hopeless: Mask = np.zeros(len(nodes), np.bool_)
    full = nodes.take(table.pod_count) >= nodes.take(table.allowed_pods)
    if full.any():
        reasons.append(TOO_MANY_PODS)
        lacking.append(full)
    for resource, amount in amounts.items():
        index = table.resource_index(resource)
        if index is None:
            short = beyond = np.ones(len(nodes), np.bool_)
        else:
            allocatable = nodes.take(table.allocatable[index])
            short = allocatable - nodes.take(table.requested[index]) < amount
            if not short.any():
                continue
            beyond = allocatable < amount
        reasons.append(f"Insufficient {resource}")
        lacking.append(short)
        hopeless |= beyond
    if not reasons:
        return None
    if len(reasons) > _MOST_BITS:
        return _verdict_by_combination(reasons, lacking, hopeless)
    return _verdict_by_bits(reasons, lacking, hopeless)


def _verdict_by_bits(reasons: Sequence[str], lacking: Sequence[Mask], hopeless: Mask) -> Verdict:
    codes: Codes = hopeless.astype(np.int64)
    for bit, short in enumerate(lacking, start=1):
        codes += short * np.int64(1 << bit)

    def status(code: int) -> Status:
        given = [reason for bit, reason in enumerate(reasons, start=1) if code >> bit & 1]
        return _status(given, is_hopeless=bool(code & 1))

    return Verdict(codes, status)


def _verdict_by_combination(reasons: Sequence[str], lacking: Sequence[Mask], hopeless: Mask) -> Verdict:
    """The same where reasons outnumber bits: the codes number the combinations that occur."""
    flags = np.stack([hopeless, *lacking])
    combinations, numbers = np.unique(flags, axis=1, return_inverse=True)
    codes = np.where(flags.any(axis=0), numbers.reshape(-1) + 1, 0).astype(np.int64)

    def status(code: int) -> Status:
        is_hopeless, *short = combinations[:, code - 1].tolist()
        given = [reason for reason, lacks in zip(reasons, short, strict=True) if lacks]
        return _status(given, is_hopeless=is_hopeless)

    return Verdict(codes, status)


def _status(reasons: Sequence[str], *, is_hopeless: bool) -> Status:
    """A node that is too small for one of the requests stays so, whoever leaves it."""
    return Status.unresolvable(*reasons) if is_hopeless else Status.unschedulable(*reasons)
