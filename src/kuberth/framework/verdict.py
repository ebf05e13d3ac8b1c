"""A Filter plugin's result for many nodes: a code per row, with text only on demand.

In: arrays that a plugin computed. Out: which rows pass, and the full `Status` of every other row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kuberth.cluster.arrays import Mask
from kuberth.framework.status import Status

Codes = NDArray[np.integer[Any]]
"""Any integer array."""

_MAX_COUNTED_IN_PYTHON: Final = 256
"""Up to this length, counting in Python is faster than sorting with numpy."""
_MAX_COUNTED_BY_VALUE: Final = 4096
"""Codes up to this one can be counted by their value."""


def distinct(codes: NDArray[np.integer[Any]]) -> list[int]:
    """The codes that occur, in ascending order."""
    if len(codes) <= _MAX_COUNTED_IN_PYTHON:
        return sorted(set(codes.tolist()))
    if _are_small(codes):
        found: list[int] = np.bincount(codes).nonzero()[0].tolist()
        return found
    ordered: list[int] = np.unique(codes).tolist()
    return ordered


def counted(codes: NDArray[np.integer[Any]]) -> list[tuple[int, int]]:
    """The codes that occur, each with its count."""
    if len(codes) <= _MAX_COUNTED_IN_PYTHON:
        return sorted(Counter(codes.tolist()).items())
    if _are_small(codes):
        return [(code, number) for code, number in enumerate(np.bincount(codes).tolist()) if number]
    values, numbers = np.unique(codes, return_counts=True)
    return list(zip(values.tolist(), numbers.tolist(), strict=True))


def _are_small(codes: NDArray[np.integer[Any]]) -> bool:
    """Whether they can be counted by value, which is several times as fast as sorting."""
    return codes.dtype.kind != "b" and codes.min() >= 0 and codes.max() <= _MAX_COUNTED_BY_VALUE


class Verdict:
    """A code per node of the view: 0 passes; any other code has a `Status`."""

    __slots__ = ("_status_of", "codes", "may_fail")

    def __init__(self, codes: Codes, status_of: Callable[[int], Status], *, may_fail: bool = False) -> None:
        self.codes = codes
        """int[position]: 0 where the node passes."""
        self._status_of = status_of
        self.may_fail = may_fail
        """Whether some code may be something other than a rejection; False saves the runner a check."""

    @classmethod
    def rejecting(cls, rejected: Mask, status: Status) -> Verdict:
        """A verdict with one reason for every node where `rejected` is True."""
        return cls(rejected.astype(np.int64), lambda _code: status, may_fail=not status.is_rejected)

    @classmethod
    def choosing(cls, codes: Codes, *statuses: Status) -> Verdict:
        """A verdict in which code k is the k-th of `statuses`, counted from one."""
        may_fail = any(not status.is_rejected for status in statuses)
        return cls(codes, lambda code: statuses[code - 1], may_fail=may_fail)

    def status(self, code: int) -> Status:
        """The status of a code."""
        return self._status_of(code)
